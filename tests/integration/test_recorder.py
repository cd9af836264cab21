"""What was reported is settled in the end, also after an error that nobody has foreseen."""

import time
from collections.abc import Sequence
from functools import partial

import pytest
from tests.integration.dispatching import Parts
from tests.integration.support import Connection, database_now, joined, store, submission

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.outcome import Outcome, OutcomeKind
from gnomon.model.pool import everything_in
from gnomon.model.shard import SHARDS
from gnomon.model.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.settlement_writer import SettlementWriter
from gnomon.node.settle.verdicts import settlement_of
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Settled, Settlement
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

SLOTS = 3


class Faulty(PostgresDispatch):
    """Has a bug that certain tasks bring to light."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 10.0)
        self.stumbles_over: set[TaskKey] = set()

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        if any(s.key in self.stumbles_over for s in settlements):
            raise KeyError("a bug")
        return await super().settle(settlements)


async def test_an_unforeseen_error_loses_no_report(
    database: Database, connection: Connection
) -> None:
    ahead = 0.0
    clock = SystemClock(lambda: time.monotonic() + ahead)
    dispatch, pipe = Faulty(database), MemoryPipe(SLOTS, lambda: None)
    lease = Lease(await joined(database), 3600.0)
    lease.renewed(clock.monotonic())
    agenda = Agenda(FairQueue(), clock.now(), 100)
    scanner = Scanner(dispatch, agenda, clock, NodeSettings(window=100))
    scanner.own(everything_in(frozenset(range(SHARDS))))
    held = HeldTasks(SuspectRoom(1, SLOTS))
    planning = PostgresPlanning(database, clock, 10.0)
    parts = Parts(dispatch, planning, agenda, scanner, pipe, held, lease, clock)
    claims = parts.claims()
    dispatcher = parts.dispatcher(claims, 10)
    troubles = Troubles(clock, nobody)
    recorder = Recorder(
        pipe,
        partial(settlement_of, worker="node", chance=lambda: 0.5),
        SettlementWriter(dispatch, held, clock, troubles),
        claims,
        parts.follow_up(),
        troubles,
    )

    now = await database_now(connection)
    bad, *_ = await store(database, *(submission(now) for _ in range(SLOTS)))
    await scanner.forward()
    agenda.advance(clock.now())
    assert (await dispatcher.run_once()).claimed == SLOTS
    for _ in range(SLOTS):
        began = now.timestamp()
        succeeded = Outcome(OutcomeKind.SUCCEEDED)
        pipe.report(Report(await pipe.receive(), succeeded, began, began + 0.1))

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
