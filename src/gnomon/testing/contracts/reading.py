"""The part of the dispatch contract about reading: how waiting tasks are found."""

from datetime import timedelta
from uuid import UUID

from gnomon.model.fleet.pool import EVERYTHING, NOTHING, WEBHOOKS, Pool, Territory
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.store.ports.dispatch import BEGINNING, Cursor, FlowCursor
from gnomon.store.ports.work.tasks import LOWEST_ID
from gnomon.testing.contracts.store_world import (
    HOUR,
    DispatchWorld,
    a_submission,
    all_shards,
    claimed,
    joined,
    submitted,
    waiting,
)


class ReadingContract:
    """How waiting tasks are found."""

    async def test_a_scan_gives_waiting_tasks_in_order_up_to_its_horizon(
        self, world: DispatchWorld
    ) -> None:
        now = await world.now()
        tasks = [a_submission(now, due_in) for due_in in (300.0, 100.0, 200.0, 9000.0)]
        await world.submit(*tasks)
        cursors = all_shards()
        found = await world.dispatch.scan(cursors, now + HOUR, 10)
        assert {(e.key.id, e.due_at) for e in found} == {(t.id, t.due_at) for t in tasks[:3]}
        for shard in {shard_of(task.id) for task in tasks}:
            due = [e.due_at for e in found if shard_of(e.key.id) == shard]
            assert due == sorted(due)

    async def test_a_scan_goes_on_after_its_cursor_and_leaves_other_shards_alone(
        self, world: DispatchWorld
    ) -> None:
        now = await world.now()
        base = a_submission(now).id
        same = [UUID(int=(base.int & ~0xFFFF) | n << 8 | 7) for n in range(3)]
        await world.submit(
            *(a_submission(now, n, id=task_id) for n, task_id in enumerate(same)),
            a_submission(now, id=UUID(int=(base.int & ~0xFFFF) | 8)),
        )
        cursor, until, found = Cursor(7, BEGINNING, LOWEST_ID), now + HOUR, []
        for _ in same:
            (entry,) = await world.dispatch.scan([cursor], until, 1)
            found.append(entry.key.id)
            cursor = Cursor(7, entry.due_at, entry.key.id)
        assert found == same
        assert await world.dispatch.scan([cursor], until, 1) == []

    async def test_a_scan_misses_none_of_those_that_are_due_together(
        self, world: DispatchWorld
    ) -> None:
        now = await world.now()
        base = a_submission(now).id
        same = [UUID(int=(base.int & ~0xFFFF) | n << 8 | 7) for n in range(3)]
        await world.submit(*(a_submission(now, 60.0, id=task_id) for task_id in same))
        cursor, found = Cursor(7, BEGINNING, LOWEST_ID), []
        for _ in same:
            (entry,) = await world.dispatch.scan([cursor], now + HOUR, 1)
            found.append(entry.key.id)
            cursor = Cursor(7, entry.due_at, entry.key.id)
        assert found == same

    async def test_a_repair_finds_what_came_in_behind_the_cursor(
        self, world: DispatchWorld
    ) -> None:
        minute = timedelta(seconds=60)
        (key,) = await submitted(world, 1, due_in=600.0)
        due_at = (await waiting(world))[key].due_at
        cursor, until = Cursor(shard_of(key.id), due_at + minute, LOWEST_ID), due_at + HOUR
        assert await world.dispatch.scan([cursor], until, 10) == []
        (entry,) = await world.dispatch.repair([cursor], [due_at - minute], until, 10)
        assert entry.key == key
        assert await world.dispatch.repair([cursor], [due_at + minute / 2], until, 10) == []

    async def test_flows_and_their_heads(self, world: DispatchWorld) -> None:
        for queue, count in (("a", 3), ("b", 1)):
            await submitted(world, count, queue=queue)
        await submitted(world, 1, due_in=3600.0, queue="a")
        flows = await world.dispatch.flows(None, 10)
        assert sorted(str(flow.work.queue) for flow in flows if flow.work) == ["a", "b"]
        assert [flow.key for flow in flows] == sorted(flow.key for flow in flows)
        after = await world.dispatch.flows(flows[0].key, 10)
        assert [flow.key for flow in after] == [flow.key for flow in flows[1:]]
        (long,) = [flow.key for flow in flows if flow.work and flow.work.queue == "a"]
        cursor = FlowCursor(long, BEGINNING, LOWEST_ID, 2)
        first = await world.dispatch.heads([cursor], range(SHARDS))
        assert len(first) == 2
        cursor = FlowCursor(long, first[-1].due_at, first[-1].key.id, 10)
        rest = await world.dispatch.heads([cursor], range(SHARDS))
        assert len(rest) == 1  # what is not due is not among them
        assert {entry.flow for entry in first + rest} == {long.flow}

    async def test_only_what_is_overdue_can_be_stolen(self, world: DispatchWorld) -> None:
        (overdue,) = await submitted(world, 1)
        await world.turn(7200.0)
        await submitted(world, 1)
        shards = range(SHARDS)
        found = await world.dispatch.stealable(shards, 3600.0, 10, 10, suspects=True)
        assert [entry.key for entry in found] == [overdue]
        assert await world.dispatch.stealable([], 3600.0, 10, 10, suspects=True) == []

    async def test_what_is_read_is_of_the_kind_that_is_served(self, world: DispatchWorld) -> None:
        python = PythonTarget("f")
        (webhook,) = await submitted(world, 1, target=HttpTarget("http://localhost/"))
        (mail,) = await submitted(world, 1, target=python, task_type="mail")
        (report,) = await submitted(world, 1, target=python, task_type="report")
        await world.turn(60.0)
        until, shards = await world.now() + HOUR, range(SHARDS)
        read_from = [Cursor(shard, until, LOWEST_ID) for shard in shards]
        for pool, expected in (
            (EVERYTHING, {webhook: False, mail: True, report: True}),
            (WEBHOOKS, {webhook: False}),
            (Pool(webhooks=False), {mail: True, report: True}),
            (Pool(webhooks=False, handlers=frozenset({"mail", "other"})), {mail: True}),
            (Pool(handlers=frozenset({"mail"})), {webhook: False, mail: True}),
            (Pool(types=frozenset({"mail"}), handlers=frozenset({"report"})), {}),
            (NOTHING, {}),
        ):
            own = Territory(frozenset(shards), pool)
            since = [BEGINNING] * SHARDS
            for found in (
                await world.dispatch.scan(all_shards(), until, 10, own),
                await world.dispatch.repair(read_from, since, until, 10, own),
                await world.dispatch.stealable(shards, 1.0, 10, 10, suspects=True, pool=pool),
            ):
                assert {entry.key: entry.by_handler for entry in found} == expected, str(pool)

    async def test_what_others_serve_first_is_left_to_them(self, world: DispatchWorld) -> None:
        (webhook,) = await submitted(world, 1, target=HttpTarget("http://localhost/"))
        (mail,) = await submitted(world, 1, target=PythonTarget("f"), task_type="mail")
        (report,) = await submitted(world, 1, target=PythonTarget("f"), task_type="report")
        until, shards = await world.now() + HOUR, frozenset(range(SHARDS))
        for other, expected in (
            (WEBHOOKS, {mail, report}),
            (Pool(webhooks=False, handlers=frozenset({"mail"})), {webhook, report}),
            (Pool(tenants=frozenset({"nobody"})), {webhook, mail, report}),
            (NOTHING, {webhook, mail, report}),
        ):
            own = Territory(shards, others=dict.fromkeys(shards, frozenset({other})))
            found = await world.dispatch.scan(all_shards(), until, 10, own)
            assert {entry.key for entry in found} == expected, str(other)

    async def test_a_large_payload_is_fetched_by_its_key(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        large = b'"' + b"x" * 10_000 + b'"'
        (delivery,) = await claimed(world, node, payload=large)
        if delivery.payload is None:
            assert delivery.payload_size == len(large)
            assert await world.dispatch.payload(delivery.key) == large
        else:
            assert delivery.payload == large

    async def test_nothing_is_being_written_where_nobody_writes(self, world: DispatchWorld) -> None:
        writers, now = await world.dispatch.open_writers()
        assert writers == frozenset()
        assert abs(now - await world.now()) < timedelta(seconds=60)
