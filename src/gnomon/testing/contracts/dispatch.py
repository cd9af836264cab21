"""The contract of the dispatch port, as tests: derive from it and give it a `world`.

    class TestMine(DispatchContract):
        @pytest.fixture
        async def world(self) -> DispatchWorld:
            return MyWorld()  # with an empty store, and a grace of `GRACE`

The tests are coroutines: run them with pytest-asyncio or the like, in its auto mode. To see what
they compare, call `pytest.register_assert_rewrite("gnomon.testing.contracts")` before they are
imported.
"""

import asyncio
from datetime import timedelta
from uuid import UUID

import msgspec

from gnomon.clock import new_incarnation
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, EXPIRE, Verdict, VerdictKind
from gnomon.model.tasks.lifecycle import State, Status
from gnomon.model.tasks.task import DEFAULT_TENANT, DeliveryMode, KeepPayload, TaskKey
from gnomon.store.ports.dispatch import Burial, Buried
from gnomon.testing.contracts.reading import ReadingContract
from gnomon.testing.contracts.store_world import (
    GRACE,
    HOUR,
    DispatchWorld,
    claimed,
    declared_dead,
    joined,
    settlement,
    submitted,
    waiting,
)

FAILED = OutcomeKind.FAILED
RETRY = Verdict(VerdictKind.RETRY, delay=3600.0, spends=True)
DEAD_LETTER = Verdict(VerdictKind.DEAD_LETTER)
RELEASE = Verdict(VerdictKind.RELEASE)


class ClaimingContract:
    """Claims: which node gets a task, and when."""

    async def test_no_task_is_claimed_before_its_time(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        keys = await submitted(world, 2, due_in=3600.0)
        assert (await world.dispatch.claim(node, keys)).deliveries == []
        await world.turn(3601.0)
        deliveries = (await world.dispatch.claim(node, keys)).deliveries
        assert [delivery.key for delivery in deliveries] == keys
        assert {delivery.attempt for delivery in deliveries} == {1}
        assert (await world.task(keys[0])).status is Status.RUNNING

    async def test_tasks_are_claimed_in_the_order_of_the_keys_and_once(
        self, world: DispatchWorld
    ) -> None:
        node = await joined(world.roster)
        keys = await submitted(world, 3)
        unknown = TaskKey(DEFAULT_TENANT, UUID(int=keys[0].id.int ^ 1))
        foreign = TaskKey("another", keys[0].id)
        wanted = [keys[2], unknown, keys[0], foreign, keys[1], keys[0]]
        deliveries = (await world.dispatch.claim(node, wanted)).deliveries
        assert len(deliveries) == 3
        assert deliveries[0].key == keys[2]
        assert (await world.dispatch.claim(node, keys)).deliveries == []
        assert (await world.dispatch.claim(node, [])).deliveries == []

    async def test_two_nodes_that_want_the_same_tasks_share_them(
        self, world: DispatchWorld
    ) -> None:
        nodes = [await joined(world.roster, name) for name in "ab"]
        keys = await submitted(world, 40)
        claims = await asyncio.gather(*(world.dispatch.claim(node, keys) for node in nodes))
        rest = await world.dispatch.claim(nodes[0], keys)
        got = [d.key for claim in (*claims, rest) for d in claim.deliveries]
        assert sorted(got) == sorted(keys)

    async def test_a_dead_or_unknown_node_claims_nothing(self, world: DispatchWorld) -> None:
        dead, gone = await joined(world.roster), await joined(world.roster)
        await declared_dead(world.roster, dead)
        await world.roster.leave(gone)
        keys = await submitted(world, 1)
        for node in (dead, gone, new_incarnation()):
            assert (await world.dispatch.claim(node, keys)).deliveries == []

    async def test_a_task_of_another_flow_than_it_was_chosen_as_is_left(
        self, world: DispatchWorld
    ) -> None:
        node = await joined(world.roster)
        (key,) = await submitted(world, 1, queue="q")
        flow = (await waiting(world))[key].flow
        assert (await world.dispatch.claim(node, [key], [flow + 1])).deliveries == []
        assert len((await world.dispatch.claim(node, [key], [flow])).deliveries) == 1

    async def test_a_task_past_its_expiry_is_claimed_to_be_archived(
        self, world: DispatchWorld
    ) -> None:
        node, now = await joined(world.roster), await world.now()
        (delivery,) = await claimed(world, node, expires_at=now - timedelta(seconds=0.5))
        assert delivery.expired
        (settled,) = await world.dispatch.settle([settlement(delivery, EXPIRE, None)])
        assert settled.state is State.EXPIRED
        assert (await world.task(delivery.key)).status is Status.EXPIRED

    async def test_what_is_claimed_early_starts_and_ends_by_its_time(
        self, world: DispatchWorld
    ) -> None:
        node, due_at = await joined(world.roster), await world.now() + HOUR
        (key,) = await submitted(world, 1, due_at=due_at, execute_at=due_at)
        assert (await world.dispatch.claim(node, [key], early=3000.0)).deliveries == []
        (delivery,) = (await world.dispatch.claim(node, [key], early=3700.0)).deliveries
        assert delivery.not_before == due_at.timestamp()
        assert delivery.start_by == due_at.timestamp() + GRACE / 2
        task = await world.task(key)
        assert (task.status, task.attempt, task.started_at) == (Status.SCHEDULED, 0, None)
        await world.turn(3601.0)
        task = await world.task(key)
        assert (task.status, task.attempt, task.started_at) == (Status.RUNNING, 1, due_at)

    async def test_what_is_claimed_early_and_released_is_due_when_it_was(
        self, world: DispatchWorld
    ) -> None:
        node, due_at = await joined(world.roster), await world.now() + HOUR
        (key,) = await submitted(world, 1, due_at=due_at, execute_at=due_at)
        (delivery,) = (await world.dispatch.claim(node, [key], early=3700.0)).deliveries
        (settled,) = await world.dispatch.settle([settlement(delivery, RELEASE, None)])
        assert settled.due_at == due_at
        assert (await world.dispatch.claim(node, [key])).deliveries == []
        await world.turn(3601.0)
        assert len((await world.dispatch.claim(node, [key])).deliveries) == 1

    async def test_what_is_claimed_early_expires_by_its_time(self, world: DispatchWorld) -> None:
        node, due_at = await joined(world.roster), await world.now() + HOUR
        second = timedelta(seconds=1)
        for expires_at in (due_at - second, due_at + second):
            (key,) = await submitted(
                world, 1, due_at=due_at, execute_at=due_at, expires_at=expires_at
            )
            (delivery,) = (await world.dispatch.claim(node, [key], early=3700.0)).deliveries
            assert delivery.expired is (expires_at < due_at)

    async def test_what_asks_before_its_call_is_not_claimed_early(
        self, world: DispatchWorld
    ) -> None:
        node, due_at = await joined(world.roster), await world.now() + HOUR
        for mode in (DeliveryMode.AT_MOST_ONCE, DeliveryMode.EXACTLY_ONCE):
            (key,) = await submitted(world, 1, due_at=due_at, execute_at=due_at, delivery=mode)
            assert (await world.dispatch.claim(node, [key], early=3700.0)).deliveries == []

    async def test_a_dead_nodes_early_claims_are_known_not_to_have_begun(
        self, world: DispatchWorld
    ) -> None:
        node, due_at = await joined(world.roster), await world.now() + HOUR
        keys = [*(await submitted(world, 1, due_at=due_at, execute_at=due_at))]
        keys += await submitted(world, 1)
        await world.dispatch.claim(node, keys, early=3700.0)
        await declared_dead(world.roster, node)
        orphans = await world.dispatch.orphans(10, overdue=False)
        assert {row.key: row.early for row in orphans} == {keys[0]: True, keys[1]: False}

    async def test_only_a_claim_that_stands_may_begin(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        held, to_cancel = await claimed(world, node, 2, delivery=DeliveryMode.AT_MOST_ONCE)
        await world.cancel(to_cancel.key)
        stands = {(held.key, held.fence)}
        assert await world.dispatch.begin([held, to_cancel]) == stands
        assert await world.dispatch.begin([held]) == stands  # asked again, it says so
        other = await joined(world.roster, "other")
        assert (
            await world.dispatch.begin([msgspec.structs.replace(held, incarnation=other)]) == set()
        )
        stale = msgspec.structs.replace(held, fence=held.fence - 1)
        assert await world.dispatch.begin([stale]) == set()
        assert await world.dispatch.begin([stale, held]) == stands  # of two claims of one task
        await declared_dead(world.roster, node)
        assert await world.dispatch.begin([held]) == set()

    async def test_what_has_begun_is_not_settled_as_if_it_had_not(
        self, world: DispatchWorld
    ) -> None:
        """A node that takes it over has seen it unbegun: by now it may be called."""
        node = await joined(world.roster)
        begun, unbegun = await claimed(world, node, 2, delivery=DeliveryMode.AT_MOST_ONCE)
        await world.dispatch.begin([begun])
        assert {t.key: t.begun for t in await world.dispatch.running_on(node)} == {
            begun.key: True,
            unbegun.key: False,
        }
        released = [settlement(d, RELEASE, None, unbegun=True) for d in (begun, unbegun)]
        assert [each.key for each in await world.dispatch.settle(released)] == [unbegun.key]
        (again,) = (await world.dispatch.claim(node, [unbegun.key])).deliveries
        await world.dispatch.begin([again])
        await world.dispatch.settle([settlement(again, RELEASE, None)])
        await world.dispatch.claim(node, [unbegun.key])
        running = {t.key: t.begun for t in await world.dispatch.running_on(node)}
        assert running == {begun.key: True, unbegun.key: False}

    async def test_what_may_be_taken_over_may_not_begin(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        (delivery,) = await claimed(world, node, timeout_seconds=1.0)
        await world.turn(1.0 + GRACE + 1.0)
        assert await world.dispatch.begin([delivery]) == set()


class SettlingContract:
    """Settlements: which node may write the outcome of a task, and where it leads."""

    async def test_every_way_into_and_out_of_running_makes_the_fence_grow(
        self, world: DispatchWorld
    ) -> None:
        node = await joined(world.roster)
        (first,) = await claimed(world, node)
        await world.dispatch.settle([settlement(first, RELEASE, None)])
        (second,) = (await world.dispatch.claim(node, [first.key])).deliveries
        assert second.fence > first.fence + 1
        assert second.attempt == 1  # no execution was made

    async def test_only_the_owner_settles(self, world: DispatchWorld) -> None:
        node, other = await joined(world.roster), await joined(world.roster, "other")
        (delivery,) = await claimed(world, node)
        stale = [
            settlement(delivery, incarnation=other),
            settlement(delivery, fence=delivery.fence - 1),
            settlement(delivery, fence=delivery.fence + 1),
        ]
        for wrong in stale:
            assert await world.dispatch.settle([wrong]) == []
        assert (await world.task(delivery.key)).status is Status.RUNNING
        (settled,) = await world.dispatch.settle([settlement(delivery)])
        assert (settled.key, settled.state, settled.ended) == (delivery.key, State.COMPLETED, True)
        assert await world.dispatch.settle([settlement(delivery)]) == []  # settled once
        assert (await world.task(delivery.key)).status is Status.COMPLETED

    async def test_an_address_is_only_a_hint(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        good, bad, moved, stale = await claimed(world, node, 4)
        batch = [
            settlement(good, address=bad.address),
            settlement(bad, DEAD_LETTER, FAILED, address=good.address),
            settlement(moved, address=(1 << 30, 1)),
            settlement(stale, address=good.address, fence=good.fence + 1),
        ]
        settled = await world.dispatch.settle(batch)
        assert {each.key: each.state for each in settled} == {
            good.key: State.COMPLETED,
            bad.key: State.DEAD,
            moved.key: State.COMPLETED,
        }
        assert (await world.task(stale.key)).status is Status.RUNNING
        (last,) = await world.dispatch.settle([settlement(stale, address=stale.address)])
        assert last.state is State.COMPLETED

    async def test_a_node_that_comes_back_from_the_dead_changes_nothing(
        self, world: DispatchWorld
    ) -> None:
        dead, alive = await joined(world.roster), await joined(world.roster, "other")
        (lost,) = await claimed(world, dead)
        await declared_dead(world.roster, dead)
        (orphan,) = await world.dispatch.orphans(10, overdue=False)
        assert (orphan.key, orphan.fence, orphan.incarnation) == (lost.key, lost.fence, dead)
        again = Verdict(VerdictKind.RETRY, losses=1)
        (taken,) = await world.dispatch.settle([settlement(lost, again, OutcomeKind.LOST)])
        assert taken.state is State.WAITING
        assert await world.dispatch.orphans(10, overdue=False) == []
        (delivery,) = (await world.dispatch.claim(alive, [lost.key])).deliveries
        assert delivery.losses == 1
        assert await world.dispatch.settle([settlement(lost)]) == []
        assert len(await world.dispatch.settle([settlement(delivery)])) == 1

    async def test_a_retry_waits_for_its_time_with_its_execution_on_record(
        self, world: DispatchWorld
    ) -> None:
        node = await joined(world.roster)
        (first,) = await claimed(world, node)
        (settled,) = await world.dispatch.settle([settlement(first, RETRY, FAILED, error="no")])
        assert (settled.state, settled.ended) == (State.WAITING, False)
        assert settled.due_at is not None
        assert abs(settled.due_at - await world.now() - HOUR) < timedelta(seconds=60)
        assert (await world.dispatch.claim(node, [first.key])).deliveries == []
        await world.turn(3700.0)
        (second,) = (await world.dispatch.claim(node, [first.key])).deliveries
        assert (second.attempt, second.retries_left) == (2, first.retries_left - 1)
        executions = await world.executions(first.key)
        assert [(e.attempt, e.outcome, e.error) for e in executions][:1] == [
            (1, FAILED.label, "no")
        ]

    async def test_a_dead_letter_runs_no_more(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        (delivery,) = await claimed(world, node)
        (settled,) = await world.dispatch.settle([settlement(delivery, DEAD_LETTER, FAILED)])
        assert (settled.state, settled.ended) == (State.DEAD, True)
        assert (await world.dispatch.claim(node, [delivery.key])).deliveries == []
        assert (await world.task(delivery.key)).status is Status.DEAD_LETTERED

    async def test_success_wins_over_a_cancellation_and_nothing_else_does(
        self, world: DispatchWorld
    ) -> None:
        node = await joined(world.roster)
        good, bad, unstarted = await claimed(world, node, 3)
        for delivery in (good, bad, unstarted):
            await world.cancel(delivery.key)
        settled = await world.dispatch.settle(
            [
                settlement(good),
                settlement(bad, RETRY, FAILED),
                settlement(unstarted, RELEASE, None),
            ]
        )
        assert {each.key: each.state for each in settled} == {
            good.key: State.COMPLETED,
            bad.key: State.CANCELLED,
            unstarted.key: State.CANCELLED,
        }

    async def test_what_an_execution_gave_is_on_record(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        good, cancelled = await claimed(world, node, 2, payload=b"{}")
        await world.cancel(cancelled.key)
        await world.dispatch.settle(
            [
                settlement(good, result='"done"', response_status=201, response_body="yes"),
                settlement(
                    cancelled, RETRY, OutcomeKind.CANCELLED, error="told to", traceback="here"
                ),
            ]
        )
        assert (await world.task(good.key)).result == b'"done"'
        (execution,) = await world.executions(good.key)
        assert (execution.response_status, execution.response_body) == (201, "yes")
        assert execution.traceback is None
        (execution,) = await world.executions(cancelled.key)
        assert (execution.outcome, execution.error) == (OutcomeKind.CANCELLED.label, "told to")
        assert execution.traceback == "here"

    async def test_each_failed_execution_has_its_own_traceback(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        deliveries = await claimed(world, node, 3)
        tracebacks = ["a\n  b", None, "c"]
        verdicts = [RETRY, RETRY, DEAD_LETTER]
        await world.dispatch.settle(
            [
                settlement(delivery, verdict, FAILED, traceback=traceback)
                for delivery, verdict, traceback in zip(
                    deliveries, verdicts, tracebacks, strict=True
                )
            ]
        )
        found = [(await world.executions(d.key))[0].traceback for d in deliveries]
        assert found == tracebacks

    async def test_a_payload_is_kept_as_long_as_its_task_asks_for(
        self, world: DispatchWorld
    ) -> None:
        node = await joined(world.roster)
        for keep, kept in ((KeepPayload.NEVER, None), (KeepPayload.ALWAYS, b'{"a":1}')):
            (delivery,) = await claimed(world, node, payload=b'{"a":1}', keep_payload=keep)
            await world.dispatch.settle([settlement(delivery)])
            assert (await world.task(delivery.key)).payload == kept

    async def test_a_burial_needs_the_fence_and_the_node(self, world: DispatchWorld) -> None:
        node, other = await joined(world.roster), await joined(world.roster, "other")
        (delivery,) = await claimed(world, node)
        burial = Burial(delivery.key, delivery.fence, "cannot be read")
        stale = Burial(delivery.key, delivery.fence - 1, "cannot be read")
        assert await world.dispatch.bury(other, [burial]) == []
        assert await world.dispatch.bury(node, [stale]) == []
        buried = Buried(delivery.key, delivery.task_type, delivery.lane)
        assert await world.dispatch.bury(node, [burial]) == [buried]
        assert (await world.task(delivery.key)).last_error == "cannot be read"
        assert await world.dispatch.settle([settlement(delivery)]) == []

    async def test_what_runs_is_known_by_its_node(self, world: DispatchWorld) -> None:
        node, other = await joined(world.roster), await joined(world.roster, "other")
        mine = await claimed(world, node, 2)
        await claimed(world, other)
        running = await world.dispatch.running_on(node)
        assert {(t.key, t.fence) for t in running} == {(d.key, d.fence) for d in mine}
        assert await world.dispatch.orphans(10, overdue=False) == []

    async def test_no_more_orphans_are_given_than_are_asked_for(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        await claimed(world, node, 3)
        await declared_dead(world.roster, node)
        assert len(await world.dispatch.orphans(2, overdue=False)) == 2

    async def test_what_is_past_its_time_and_grace_is_overdue(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        short, _ = (
            *await claimed(world, node, timeout_seconds=1.0),
            *await claimed(world, node, timeout_seconds=3600.0),
        )
        assert await world.dispatch.orphans(10, overdue=True) == []
        await world.turn(1.0 + GRACE + 1.0)
        (overdue,) = await world.dispatch.orphans(10, overdue=True)
        assert overdue.key == short.key

    async def test_a_batch_settles_each_on_its_own(self, world: DispatchWorld) -> None:
        node = await joined(world.roster)
        deliveries = await claimed(world, node, 20)
        batch = [
            settlement(d, verdict, outcome, fence=d.fence + (n % 5 == 4))
            for n, d in enumerate(deliveries)
            for verdict, outcome in [
                ((COMPLETE, OutcomeKind.SUCCEEDED), (RETRY, FAILED), (DEAD_LETTER, FAILED))[n % 3]
            ]
        ]
        settled = {each.key: each.state for each in await world.dispatch.settle(batch)}
        states = (State.COMPLETED, State.WAITING, State.DEAD)
        assert settled == {d.key: states[n % 3] for n, d in enumerate(deliveries) if n % 5 != 4}


class DispatchContract(ReadingContract, ClaimingContract, SettlingContract):
    """The suite."""
