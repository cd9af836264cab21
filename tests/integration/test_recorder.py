"""What was reported is settled in the end, also after an error that nobody has foreseen."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from tests.integration.dispatching import Parts
from tests.integration.support import Connection, database_now, joined, store, submission

from gnomon.chores import Troubles
from gnomon.clock import Clock, SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.errors import StatementRefused
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.settlement_writer import SettlementWriter
from gnomon.node.settle.verdicts import settlement_of
from gnomon.observe.events import Event, Observer, TasksSettled, nobody
from gnomon.pipe.envelope import Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Settled, Settlement, Taker
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

SLOTS = 3


class Faulty(PostgresDispatch):
    """Has a bug that certain tasks bring to light."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 10.0)
        self.stumbles_over: set[TaskKey] = set()

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        if any(s.key in self.stumbles_over for s in settlements):
            raise KeyError("a bug")
        return await super().settle(settlements, taker)


@dataclass
class Workbench:
    """A recorder, turned by hand, and what claims and reports tasks for it."""

    recorder: Recorder
    dispatcher: Dispatcher
    scanner: Scanner
    agenda: Agenda
    held: HeldTasks
    pipe: MemoryPipe
    troubles: Troubles
    clock: Clock

    async def claim_and_report(self, count: int) -> list[TaskKey]:
        """Claim so many tasks, and report that they succeeded; gives which, in order."""
        await self.scanner.forward()
        self.agenda.advance(self.clock.now())
        assert (await self.dispatcher.run_once()).claimed == count
        succeeded, began = Outcome(OutcomeKind.SUCCEEDED), self.clock.seconds()
        deliveries = [await self.pipe.receive() for _ in range(count)]
        for delivery in deliveries:
            self.pipe.report(Report(delivery, succeeded, began, began + 0.1))
        return [delivery.key for delivery in deliveries]


async def workbench(
    database: Database, dispatch: PostgresDispatch, clock: Clock, emit: Observer = nobody
) -> Workbench:
    pipe, held = MemoryPipe(SLOTS, lambda: None), HeldTasks(SuspectRoom(1, SLOTS))
    lease = Lease(await joined(database), 3600.0)
    lease.renewed(clock.monotonic())
    agenda = Agenda(FairQueue(), clock.now(), 100)
    scanner = Scanner(dispatch, agenda, clock, NodeSettings(window=100))
    scanner.own(everything_in(frozenset(range(SHARDS))))
    planning = PostgresPlanning(database, clock, 10.0)
    parts = Parts(dispatch, planning, agenda, scanner, pipe, held, lease, clock, emit)
    claims, troubles = parts.claims(), Troubles(clock, nobody)
    recorder = Recorder(
        pipe,
        partial(settlement_of, worker="node", chance=lambda: 0.5),
        SettlementWriter(dispatch, held, clock, troubles, parts.follow_up().buried, parts.emit),
        claims,
        parts.follow_up(),
    )
    dispatcher = parts.dispatcher(claims, 10)
    return Workbench(recorder, dispatcher, scanner, agenda, held, pipe, troubles, clock)


async def test_an_unforeseen_error_loses_no_report(
    database: Database, connection: Connection
) -> None:
    ahead = 0.0
    clock = SystemClock(lambda: time.monotonic() + ahead)
    dispatch = Faulty(database)
    bench = await workbench(database, dispatch, clock)
    recorder, held, pipe, troubles = bench.recorder, bench.held, bench.pipe, bench.troubles

    now = await database_now(connection)
    bad, *_ = await store(database, *(submission(now) for _ in range(SLOTS)))
    await bench.claim_and_report(SLOTS)

    dispatch.stumbles_over = {bad}
    with pytest.raises(KeyError):
        await recorder.run_once(SLOTS)
    assert await recorder.settle_again() == SLOTS - 1, "all but the one at fault"
    assert ([*held.fences], pipe.room()) == ([bad], SLOTS - 1)
    assert [t.about.subject for t in troubles.all()] == [f"task {bad.id}"]

    dispatch.stumbles_over = set()
    ahead = 600.0  # it is set aside for a while
    assert await recorder.settle_again() == 1
    assert (held.fences, pipe.room(), [*troubles.all()]) == ({}, SLOTS, [])
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0


class Halting(PostgresDispatch):
    """Refuses what succeeded, and one task altogether; of another it does not say that it was
    written until it is let on."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 10.0)
        self.refused: TaskKey | None = None
        self.halted_at: TaskKey | None = None
        self.halted, self.go_on = asyncio.Event(), asyncio.Event()

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        bare = {s.key for s in settlements if s.error is not None}
        if self.refused in bare or (self.refused is not None and not bare):
            raise StatementRefused("a trigger says no")
        if self.halted_at in bare:
            self.halted.set()
            await self.go_on.wait()
        return await super().settle(settlements, taker)


async def test_what_is_refused_is_told_of_though_its_batch_is_still_being_written(
    database: Database, connection: Connection
) -> None:
    ahead = 0.0
    clock = SystemClock(lambda: time.monotonic() + ahead)
    dispatch, told = Halting(database), list[TaskKey]()

    def listen(event: Event) -> None:
        if isinstance(event, TasksSettled):
            told.extend(task.key for task in event.tasks)

    bench = await workbench(database, dispatch, clock, listen)
    now = await database_now(connection)
    await store(database, *(submission(now) for _ in range(2)))
    refused, other = await bench.claim_and_report(2)

    dispatch.refused, dispatch.halted_at = refused, other
    recording = asyncio.create_task(bench.recorder.run_once(SLOTS))
    await dispatch.halted.wait()
    dispatch.refused, ahead = None, 600.0
    assert await bench.recorder.settle_again() == 0
    dispatch.go_on.set()
    await recording
    assert await bench.recorder.settle_again() == 1
    assert sorted(told) == sorted([refused, other])
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0
