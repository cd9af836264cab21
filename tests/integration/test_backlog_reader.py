"""Flows behind a backlog: each is read by itself, whatever lies before it in time."""

from typing import Any

import msgspec
import pytest
from tests.integration.support import Connection, database_now, store, submission

from gnomon.clock import SystemClock, new_id
from gnomon.fairness import FairQueue
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead import backlog
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

WINDOW = 2048
ALL = frozenset(range(SHARDS))


class Reading:
    """A scanner whose window a backlog fills."""

    def __init__(self, database: Database, clock: SystemClock, shards: frozenset[int] = ALL):
        settings = msgspec.structs.replace(NodeSettings(), window=WINDOW)
        self.agenda = Agenda(FairQueue[Entry](), clock.now(), WINDOW)
        self.scanner = Scanner(PostgresDispatch(database, 10.0), self.agenda, clock, settings)
        self.scanner.own(everything_in(shards))
        self.clock = clock

    async def look(self) -> None:
        await self.scanner.forward()
        self.agenda.advance(self.clock.now())

    def knows_all(self, keys: list[TaskKey]) -> bool:
        return all(self.agenda.knows(key) for key in keys)


@pytest.fixture
async def clock(connection: Connection) -> SystemClock:
    clock = SystemClock()
    asked_at = clock.monotonic()
    clock.observe(await database_now(connection), asked_at)
    return clock


async def due(
    database: Database, connection: Connection, count: int, **values: Any
) -> list[TaskKey]:
    now = await database_now(connection)
    return await store(database, *(submission(now, **values) for _ in range(count)))


async def test_what_lies_behind_a_backlog_is_read_beside_it(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    await due(database, connection, 4000, tenant_id="big")
    others = [
        *await due(database, connection, 3, tenant_id="small"),
        *await due(database, connection, 3, tenant_id="big", priority=Lane.CRITICAL),
        *await due(database, connection, 3, tenant_id="big", task_type="another"),
        *await due(database, connection, 3, tenant_id="big", queue="another"),
    ]
    reading = Reading(database, clock)
    await reading.look()
    assert reading.knows_all(others)
    assert len(reading.agenda) <= WINDOW + SHARDS


async def test_it_goes_on_where_it_was_left_and_finds_everything_once(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    await due(database, connection, 4000, tenant_id="big")
    wanted = await due(database, connection, 500, tenant_id="small")
    reading = Reading(database, clock)
    found: list[TaskKey] = []
    for _ in range(40):
        await reading.look()
        taken = [
            e.key
            for e in reading.agenda.take(
                WINDOW, SuspectRoom(1, 1), lambda e: e.key.tenant_id == "small"
            )
        ]
        found += taken
        await connection.execute(
            "UPDATE gnomon.task SET state = 1 WHERE id = ANY ($1::uuid[])", [k.id for k in taken]
        )
        reading.agenda.forget(taken)
        if len(found) >= len(wanted):
            break
    assert sorted(found) == sorted(wanted)


async def test_more_flows_than_one_pass_looks_at_are_read_in_turn(
    database: Database, connection: Connection, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MOST_FLOWS", 4)
    await due(database, connection, 4000, tenant_id="a")
    others: list[TaskKey] = []
    for number in range(10):
        others += await due(database, connection, 1, tenant_id=f"b{number}")
    reading = Reading(database, clock)
    for _ in range(4):
        await reading.look()
    assert reading.knows_all(others)


async def test_only_the_own_shards_are_read(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    await due(database, connection, 4000, tenant_id="big")
    keys = await due(database, connection, 60, tenant_id="small")
    mine = frozenset(range(0, SHARDS, 2))
    reading = Reading(database, clock, mine)
    await reading.look()
    assert {k for k in keys if reading.agenda.knows(k)} == {
        k for k in keys if shard_of(k.id) in mine
    }


async def test_a_flood_of_hints_leaves_room_for_those_of_others(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    await due(database, connection, 4000, tenant_id="big")
    reading = Reading(database, clock)
    await reading.look()
    now = await database_now(connection)
    flood = await due(database, connection, 4000, tenant_id="big", task_type="flood")
    for key in flood:
        reading.scanner.hinted([Entry(key, now, Lane.MEDIUM, flow=7)])
        reading.agenda.advance(clock.now())
    small = TaskKey("small", flood[0].id)
    assert reading.scanner.hinted([Entry(small, now, Lane.MEDIUM, flow=8)]) == 1


async def test_flows_that_may_not_start_keep_nobody_out_however_many_they_are(
    database: Database, connection: Connection, clock: SystemClock
) -> None:
    """Each of them has an entry here, so all of them together would fill the window for good."""
    now = await database_now(connection)
    await store(
        database,
        *(submission(now, tenant_id="big", task_type=f"t{n}") for n in range(2 * WINDOW)),
    )
    reading = Reading(database, clock)
    admitted = lambda e: e.key.tenant_id != "big"  # noqa: E731
    for _ in range(3):
        await reading.look()
        await reading.scanner.repair()
        reading.agenda.advance(clock.now())
        assert reading.agenda.take(WINDOW, SuspectRoom(1, 1), admitted) == []
    (small,) = await due(database, connection, 1, tenant_id="small")
    found: list[TaskKey] = []
    for _ in range(40):
        await reading.look()
        found += [e.key for e in reading.agenda.take(WINDOW, SuspectRoom(1, 1), admitted)]
        assert len(reading.agenda) <= WINDOW + SHARDS
        if found:
            break
    assert found == [small]
    hint = Entry(TaskKey("small", new_id(now)), now, Lane.MEDIUM, flow=8)
    await reading.look()
    assert reading.scanner.hinted([hint]) == 1


async def test_known_flows_are_looked_at_from_where_they_begin(
    database: Database, connection: Connection
) -> None:
    """And whatever lies before, between and behind them is found as well."""
    dispatch = PostgresDispatch(database, 10.0)
    for name in ("b", "d", "f", "h"):
        await due(database, connection, 2, tenant_id=name)
    flows = await dispatch.flows(None, 100)
    assert [flow.key.tenant_id for flow in flows] == ["b", "d", "f", "h"]
    known = {flow.key: flow.due_at for flow in flows}
    await connection.execute("DELETE FROM gnomon.task WHERE tenant_id = 'd'")
    for name in ("a", "c", "e", "e-", "i"):
        await due(database, connection, 1, tenant_id=name)
    for most in (1, 3, 100):
        found: list[str] = []
        after = None
        while page := await dispatch.flows(after, most, known=known):
            assert {flow.work and flow.work.task_type for flow in page} == {"test"}
            found += [flow.key.tenant_id for flow in page]
            after = page[-1].key
        assert found == ["a", "b", "c", "e", "e-", "f", "h", "i"]
    # Nothing of them is due any more from a time on.
    later = dict.fromkeys(known, await database_now(connection))
    assert [f.key.tenant_id for f in await dispatch.flows(None, 100, known=later)] == [
        "a", "c", "e", "e-", "i",
    ]  # fmt: skip
