"""Tasks lost before run one suspect at a time, also when hints did not tell them apart."""

from typing import Any
from uuid import UUID

from tests.integration.nodes import call_of
from tests.integration.support import database_now, store

from gnomon.clock import SystemClock, new_incarnation
from gnomon.fair import WeightedLanes
from gnomon.model.lane import Lane
from gnomon.model.task import TaskKey
from gnomon.model.verdict import FREE_LOSSES
from gnomon.pipe.envelope import NEVER
from gnomon.pipe.memory import MemoryPipe
from gnomon.scheduler.agenda import Agenda
from gnomon.scheduler.dispatcher import Dispatcher
from gnomon.scheduler.scanner import Scanner
from gnomon.settings import Settings
from gnomon.store.port import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatching import PostgresDispatch
from gnomon.store.postgres.nodes import PostgresRoster
from gnomon.store.postgres.recurring import PostgresPlanning
from gnomon.worker.lease import Lease


async def test_of_two_unmarked_suspects_one_is_too_late_to_start(
    database: Database, connection: Any, clock: SystemClock
) -> None:
    now = await database_now(connection)
    suspects = [call_of(now, "echo")[1] for _ in range(2)]
    await store(database, *suspects)
    await connection.execute("UPDATE gnomon.task SET losses = $1", FREE_LOSSES)

    lease = Lease(new_incarnation(), 10)
    asked_at = clock.monotonic()
    clock.observe(await PostgresRoster(database).join(lease.incarnation, "n", 1, 10), asked_at)
    lease.renewed(asked_at)
    ready: WeightedLanes[Entry] = WeightedLanes()
    agenda = Agenda(ready, now, 100)
    dispatch = PostgresDispatch(database, 10)
    scanner = Scanner(dispatch, agenda, clock, Settings())
    scanner.own(frozenset(range(256)))
    rows = await connection.fetch("SELECT tenant_id, id, due_at FROM gnomon.task")
    scanner.hinted([_hint(row["tenant_id"], row["id"], row["due_at"]) for row in rows])
    agenda.advance(await database_now(connection))

    pipe = MemoryPipe(10, lambda: None)
    planning = PostgresPlanning(database, clock, 10.0)
    dispatcher = Dispatcher(dispatch, planning, agenda, scanner, pipe, lease, clock, 10)
    assert (await dispatcher.run_once()).claimed == 2
    deliveries = pipe.unsent()
    assert [d.start_by == NEVER for d in deliveries].count(True) == 1
    (started,) = [d for d in deliveries if d.start_by != NEVER]
    assert dispatcher.suspect == started.key


def _hint(tenant_id: str, task_id: UUID, due_at: Any) -> Entry:
    return Entry(TaskKey(tenant_id, task_id), due_at, Lane.MEDIUM)
