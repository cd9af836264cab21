"""Stealing: what an idle node takes of the others' shards, and what it leaves alone."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.integration import handlers
from tests.integration.cron_support import created, make_due, runs_of
from tests.integration.dispatching import Parts
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, joined, store, submission
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id_in, new_incarnation
from gnomon.cron.job import Overlap
from gnomon.fairness import FairQueue
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS, owned_shards, shard_of
from gnomon.model.outcomes.quarantine import ALONE_FROM
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.stealer import Stealer, StealResult
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.testing.contracts.pipe import a_delivery

ALL = frozenset(range(SHARDS))
MINE = frozenset(range(128))
NOTHING = StealResult()


class Stage:
    """A node's thief, turned by hand, and all that it looks at."""

    def __init__(self, database: Database, clock: SystemClock, slots: int) -> None:
        self.clock = clock
        settings = NodeSettings(steal_seconds=2.0)
        store = PostgresDispatch(database, 10.0)
        planning = PostgresPlanning(database, clock, 10.0)
        self._database = database
        self.taken: list[Delivery] = []
        self.lease = Lease(new_incarnation(), 60.0)
        self.agenda = Agenda(FairQueue[Entry](), clock.now(), 1000)
        self.scanner = Scanner(store, self.agenda, clock, settings)
        self.pipe = MemoryPipe(slots, lambda: None, prefetch=50)
        self.held = HeldTasks(SuspectRoom(1, slots))
        parts = Parts(
            store, planning, self.agenda, self.scanner, self.pipe, self.held, self.lease, clock
        )
        self.claims = parts.claims()
        self.dispatcher = parts.dispatcher(self.claims, 1000)
        self.thief = Stealer(store, self.scanner, self.dispatcher, lambda: 0.5, settings)

    async def join(self) -> None:
        asked_at = self.clock.monotonic()
        roster = PostgresRoster(self._database)
        self.clock.observe(await roster.join(self.lease.incarnation, "n", 1, 60.0), asked_at)
        self.lease.renewed(asked_at)
        self.scanner.own(everything_in(MINE))

    async def stolen(self) -> list[TaskKey]:
        """What a look takes, and hands to the slots."""
        result = await self.thief.run_once()
        self.taken = self.pipe.unsent()
        assert result.stolen == len(self.taken)
        return [d.key for d in self.taken]


StageFor = Callable[[int], Awaitable[Stage]]


@pytest.fixture
def stage_for(database: Database, clock: SystemClock) -> StageFor:
    async def make(slots: int) -> Stage:
        stage = Stage(database, clock, slots)
        await stage.join()
        return stage

    return make


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


async def late_in(database: Database, *places: tuple[int, float]) -> list[TaskKey]:
    """A task in each of these shards, overdue by so many seconds."""
    async with database.connection() as connection:
        now: datetime = await connection.fetchval("SELECT gnomon.now()")
        keys = await store(
            database,
            *(
                submission(now, id=new_id_in(shard, now, 0), target=PythonTarget("f"))
                for shard, _ in places
            ),
        )
        await connection.executemany(
            "UPDATE gnomon.task SET due_at = $2 WHERE id = $1",
            [
                (key.id, now - timedelta(seconds=late))
                for key, (_, late) in zip(keys, places, strict=True)
            ],
        )
    return keys


# One look


async def test_it_takes_what_is_late_in_the_shards_of_others(
    stage_for: StageFor, database: Database
) -> None:
    stage = await stage_for(10)
    late, _, _ = await late_in(database, (200, 5.0), (201, 0.5), (7, 5.0))
    assert await stage.stolen() == [late]
    assert await stage.stolen() == []
    assert stage.held.fences == {late: 1}


async def test_it_takes_the_latest_of_a_shard_as_many_as_can_begin_and_from_all_alike(
    stage_for: StageFor, database: Database
) -> None:
    stage = await stage_for(128 * 2)
    keys = {
        (shard, late): (await late_in(database, (shard, late)))[0]
        for shard in (200, 201, 202)
        for late in (10, 20, 30, 40)
    }
    await late_in(database, (203, 10.0))
    result = await stage.thief.run_once()
    assert (result.found, result.stolen, result.more) == (7, 7, True)
    taken = {d.key for d in stage.pipe.unsent()}
    assert {at for at, key in keys.items() if key in taken} == {
        (shard, late) for shard in (200, 201, 202) for late in (10, 20)
    }


async def test_it_claims_nothing_ahead_of_its_slots(
    stage_for: StageFor, database: Database
) -> None:
    stage = await stage_for(3)
    await late_in(database, *((130 + n, 5.0) for n in range(20)))
    assert (await stage.thief.run_once()).more
    assert len(stage.pipe.unsent()) == 3
    assert stage.pipe.room() == 50
    assert await stage.thief.run_once() == NOTHING


async def test_a_node_that_has_something_else_to_do_steals_nothing(
    stage_for: StageFor, database: Database, now: datetime
) -> None:
    stage = await stage_for(2)
    _, own = await late_in(database, (200, 5.0), (3, 5.0))
    stage.scanner.hinted([Entry(own, now, submission(now).priority)])
    stage.agenda.advance(now)
    assert await stage.thief.run_once() == NOTHING
    stage.agenda.take(1, SuspectRoom(1, 1))

    stage.pipe.send([a_delivery(1), a_delivery(2)])
    assert await stage.thief.run_once() == NOTHING
    stage.pipe.settled([Report(a_delivery(1))])
    assert (await stage.thief.run_once()).stolen == 1


async def test_a_node_that_stops_or_is_not_trusted_steals_nothing(
    stage_for: StageFor, database: Database
) -> None:
    stage = await stage_for(2)
    await late_in(database, (200, 5.0))
    stage.held.stopped = True
    assert await stage.thief.run_once() == NOTHING
    stage.held.stopped = False
    stage.lease.lost = True
    assert await stage.thief.run_once() == NOTHING
    stage.lease.lost = False
    assert (await stage.thief.run_once()).stolen == 1


async def test_a_single_node_does_not_even_look(stage_for: StageFor, database: Database) -> None:
    stage = await stage_for(2)
    stage.scanner.own(everything_in(ALL))
    await database.close()  # whoever asks it now, fails
    assert await stage.thief.run_once() == NOTHING


async def test_what_its_owner_took_meanwhile_is_left_to_it(
    stage_for: StageFor, database: Database, connection: Connection, now: datetime
) -> None:
    stage = await stage_for(5)
    theirs, free = await late_in(database, (200, 5.0), (201, 5.0))
    owner = await joined(database)
    assert (await PostgresDispatch(database, 10.0).claim(owner, [theirs])).deliveries
    entries = [Entry(key, now, submission(now).priority) for key in (theirs, free)]
    assert (await stage.dispatcher.steal(entries)).claimed == 1
    assert len(stage.agenda) == 0
    assert stage.agenda.next_tick() is None
    assert await connection.fetchval("SELECT node FROM gnomon.task WHERE id = $1", theirs.id) == (
        owner
    )


async def test_it_takes_as_many_suspects_as_there_is_room_for(
    stage_for: StageFor, database: Database, connection: Connection
) -> None:
    stage = await stage_for(10)
    suspects = await late_in(database, *((200 + n, 5.0) for n in range(3)))
    await connection.execute("UPDATE gnomon.task SET losses = $1", ALONE_FROM)
    (innocent,) = await late_in(database, (210, 5.0))
    taken = set(await stage.stolen())
    assert innocent in taken
    assert len(taken & {*suspects}) == 1
    deliveries = stage.taken
    assert await stage.stolen() == []
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task WHERE fence > 0") == 2

    stage.claims.settled(Report(d) for d in deliveries)
    assert len(await stage.stolen()) == 1


async def test_a_run_of_a_cron_job_asks_its_job_also_here(
    stage_for: StageFor, database: Database, connection: Connection
) -> None:
    stage = await stage_for(10)
    job = await created(database, overlap_policy=Overlap.SKIP)
    stage.scanner.own(everything_in(ALL - {shard_of(job.id)}))
    first, second = await make_due(connection, job, 2)
    await connection.execute(
        "UPDATE gnomon.task SET due_at = due_at - interval '1 minute' WHERE id = ANY ($1)",
        [first.id, second.id],
    )
    taken = await stage.stolen()
    taken += await stage.stolen()
    states = {row["id"]: State(row["state"]) for row in await runs_of(connection, job)}
    assert taken == [first]
    assert states[first.id] is State.RUNNING
    assert second.id not in states  # its job did not consent: it is skipped


# The one that is stolen from


async def test_what_was_stolen_is_dropped_at_once_and_the_rest_is_found(
    stage_for: StageFor, database: Database
) -> None:
    stage = await stage_for(2)
    stage.scanner.own(everything_in(ALL))
    stolen = await late_in(database, *((n % SHARDS, 5.0) for n in range(500)))
    await stage.scanner.forward()
    stage.agenda.advance(stage.clock.now())
    other = await joined(database)
    assert len((await PostgresDispatch(database, 10.0).claim(other, stolen)).deliveries) == 500

    rounds = [await stage.dispatcher.run_once() for _ in range(3)]
    assert [r.claimed for r in rounds] == [0, 0, 0]
    assert [r.chosen for r in rounds] == [52, 52, 0]
    assert [r.started_over for r in rounds] == [False, True, False]
    # Those of the first round will be looked at again, and given up.
    assert (len(stage.agenda), stage.agenda.ready) == (52, 0)

    (left,) = await late_in(database, (9, 5.0))
    await stage.scanner.repair()
    stage.agenda.advance(stage.clock.now())
    while not (await stage.dispatcher.run_once()).claimed:
        stage.agenda.advance(stage.clock.now())
    assert stage.held.fences == {left: 1}


async def test_what_is_not_due_yet_is_not_dropped_with_what_was_stolen(
    stage_for: StageFor, database: Database
) -> None:
    stage = await stage_for(200)
    stage.scanner.own(everything_in(ALL))
    stolen = await late_in(database, *((n, 5.0) for n in range(200)))
    (soon,) = await late_in(database, (7, -5.0))
    await stage.scanner.forward()
    stage.agenda.advance(stage.clock.now())
    other = await joined(database)
    await PostgresDispatch(database, 10.0).claim(other, stolen)
    assert (await stage.dispatcher.run_once()).started_over
    assert stage.agenda.knows(soon)


async def test_a_suspect_that_has_to_wait_leaves_the_node_idle(
    stage_for: StageFor, database: Database, connection: Connection
) -> None:
    """One in quarantine, another one waiting for it: the slots are free for others' work."""
    stage = await stage_for(10)
    stage.scanner.own(everything_in(ALL))
    await late_in(database, (1, 5.0), (2, 5.0))
    await connection.execute("UPDATE gnomon.task SET losses = $1", ALONE_FROM)
    await stage.scanner.forward()
    stage.agenda.advance(stage.clock.now())
    assert stage.dispatcher.idle() == 0
    assert (await stage.dispatcher.run_once()).claimed == 1
    assert stage.agenda.ready == 1
    assert stage.dispatcher.idle() == 9
    assert len(stage.pipe.unsent()) == 1
    stage.scanner.own(everything_in(MINE))
    suspects = await late_in(database, (200, 4.0))
    await connection.execute("UPDATE gnomon.task SET losses = $1 WHERE id = $2", 1, suspects[0].id)
    (innocent,) = await late_in(database, (200, 5.0))  # behind a suspect that would have to wait
    assert await stage.stolen() == [innocent]


async def test_rows_that_are_only_locked_are_not_read_anew_again_and_again(
    stage_for: StageFor, database: Database, now: datetime
) -> None:
    stage = await stage_for(200)
    stage.scanner.own(everything_in(ALL))
    locked = await late_in(database, *((n, 5.0) for n in range(200)))
    async with database.transaction() as holder:
        await holder.execute("SELECT FROM gnomon.task FOR UPDATE")
        for known in (0, 200):
            stage.scanner.hinted([Entry(key, now, submission(now).priority) for key in locked])
            stage.agenda.advance(stage.clock.now())
            assert (await stage.dispatcher.run_once()).claimed == 0
            assert len(stage.agenda) == known


# Whole nodes


async def serving_of(connection: Connection, name: str) -> frozenset[int]:
    """The shards that a node serves, once there are two of them."""
    rows = await connection.fetch("SELECT incarnation, name FROM gnomon.node WHERE NOT dead")
    roster: dict[str, UUID] = {row["name"]: row["incarnation"] for row in rows}
    assert len(roster) == 2
    return owned_shards(roster[name], roster.values())


def all_called(names: list[str]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return all(handlers.calls[who] for who in names)

    return look


async def test_an_idle_node_runs_the_backlog_of_one_whose_slots_are_taken(
    database_dsn: str, database: Database, connection: Any, now: datetime
) -> None:
    held = [call_of(now, "wait_at_the_gate", timeout_seconds=100) for _ in range(2)]
    backlog = [call_of(now, "echo") for _ in range(600)]
    quick: dict[str, Any] = {"node_steal_seconds": 0.2}
    async with running_node(database_dsn, node_slots=2, node_prefetch=0, node_name="busy", **quick):
        await store(database, *(new for _, new in held))
        await eventually(all_called([who for who, _ in held]))
        await store(database, *(new for _, new in backlog))
        async with running_node(database_dsn, node_slots=10, node_name="idle", **quick):
            await eventually(all_called([who for who, _ in backlog]))
            theirs = await serving_of(connection, "busy")
        after = [call_of(await database_now(connection), "echo") for _ in range(3)]
        await store(database, *(new for _, new in after))
        for who, _ in held:
            handlers.gates[who].set()
        await eventually(all_called([who for who, _ in after]))  # what was stolen is not in the way
    rows = await connection.fetch("SELECT id, worker, attempt, fence FROM gnomon.task_archive")
    ran = {row["id"]: tuple(row)[1:] for row in rows}
    assert {ran[new.id] for _, new in backlog} == {("idle", 1, 1)}
    assert any(shard_of(new.id) in theirs for _, new in backlog)
    assert {len(handlers.calls[who]) for who, _ in held + backlog} == {1}


async def test_what_is_due_does_not_wait_for_a_node_that_is_stopping(
    database_dsn: str, database: Database, connection: Any, now: datetime
) -> None:
    held, new = call_of(now, "wait_at_the_gate", timeout_seconds=100)
    async with running_node(database_dsn, node_name="leaving", node_drain_seconds=60.0) as leaving:
        await store(database, new)
        await eventually(all_called([held]))
        async with running_node(database_dsn, node_name="staying", node_steal_seconds=0.2):
            leaving.begin_to_stop()
            due = [call_of(await database_now(connection), "echo") for _ in range(100)]
            await store(database, *(new for _, new in due))
            await eventually(all_called([who for who, _ in due]))
            theirs = await serving_of(connection, "leaving")  # it is still there
            assert any(shard_of(new.id) in theirs for _, new in due)
            handlers.gates[held].set()
    assert {len(handlers.calls[who]) for who in (held, *(who for who, _ in due))} == {1}


async def test_what_becomes_late_is_shared_and_runs_once(
    database_dsn: str, database: Database, connection: Any, now: datetime
) -> None:
    """Both have slots and both steal: they may meet at any task."""
    backlog = [call_of(now, "echo") for _ in range(1000)]
    await store(database, *(new for _, new in backlog))
    few: dict[str, Any] = {
        "node_slots": 3,
        "node_prefetch": 3,
        "node_batch": 5,
        "node_steal_seconds": 0.02,
    }
    async with (
        running_node(database_dsn, node_name="a", **few),
        running_node(database_dsn, node_name="b", **few),
    ):
        await eventually(all_called([who for who, _ in backlog]))
    assert {len(handlers.calls[who]) for who, _ in backlog} == {1}
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0
    assert await connection.fetchval("SELECT count(*) FROM gnomon.execution") == 0
