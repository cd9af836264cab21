"""What a dispatcher holds: suspects it has room for, and each claim until it is over itself."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from tests.integration.dispatching import Parts
from tests.integration.nodes import call_of
from tests.integration.support import database_now, store, submission

from gnomon.clock import SystemClock, new_incarnation
from gnomon.fairness import FairQueue
from gnomon.fairness.slot_shares import SlotShares
from gnomon.model.fleet.pool import everything_in
from gnomon.model.outcomes.quarantine import ALONE_FROM
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.pipe.envelope import NEVER, Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster


class Stage:
    """A dispatcher, turned by hand."""

    def __init__(self, database: Database, clock: SystemClock, now: datetime) -> None:
        self._clock = clock
        self._roster = PostgresRoster(database)
        self.lease = Lease(new_incarnation(), 10)
        self.ready: FairQueue[Entry] = FairQueue(
            slots=SlotShares(10, 0, 0.1), has_others=lambda _: True
        )
        self._agenda = Agenda(self.ready, now, 100)
        dispatch = PostgresDispatch(database, 10)
        self._scanner = Scanner(dispatch, self._agenda, clock, NodeSettings())
        self.pipe = MemoryPipe(10, lambda: None)
        planning = PostgresPlanning(database, clock, 10.0)
        self.held = HeldTasks(SuspectRoom(1, 10))
        parts = Parts(
            dispatch, planning, self._agenda, self._scanner, self.pipe, self.held, self.lease, clock
        )
        self.claims = parts.claims()
        self.dispatcher = parts.dispatcher(self.claims, 10)

    async def join(self) -> None:
        asked_at = self._clock.monotonic()
        now = await self._roster.join(self.lease.incarnation, "n", 1, 10)
        self._clock.observe(now, asked_at)
        self.lease.renewed(asked_at)
        self._scanner.own(everything_in(frozenset(range(256))))

    def hint(self, entries: list[Entry]) -> None:
        self._scanner.hinted(entries)

    async def claimed(self, connection: Any) -> list[Delivery]:
        """Hear of everything, and claim what can be."""
        rows = await connection.fetch("SELECT tenant_id, id, due_at FROM gnomon.task")
        self._scanner.hinted([_hint(row["tenant_id"], row["id"], row["due_at"]) for row in rows])
        self._agenda.advance(await database_now(connection))
        await self.dispatcher.run_once()
        return self.pipe.unsent()


@pytest.fixture
async def stage(database: Database, connection: Any, clock: SystemClock) -> Stage:
    stage = Stage(database, clock, await database_now(connection))
    await stage.join()
    return stage


async def test_suspects_that_no_hint_has_told_of_are_given_back_where_there_is_no_room(
    stage: Stage, database: Database, connection: Any
) -> None:
    now = await database_now(connection)
    await store(database, *(call_of(now, "echo")[1] for _ in range(2)))
    await connection.execute("UPDATE gnomon.task SET losses = $1", ALONE_FROM)
    deliveries = await stage.claimed(connection)
    assert [d.start_by == NEVER for d in deliveries] in ([True, False], [False, True])
    (started,) = [d for d in deliveries if d.start_by != NEVER]
    assert list(stage.held.suspects.held) == [started.key]
    stage.claims.settled([Report(each) for each in deliveries])
    assert not stage.held.suspects.held


async def test_many_suspects_are_claimed_at_once(
    stage: Stage, database: Database, connection: Any
) -> None:
    now = await database_now(connection)
    keys = await store(database, *(call_of(now, "echo")[1] for _ in range(4)))
    await connection.execute("UPDATE gnomon.task SET losses = 1")
    stage.hint([Entry(key, now, Lane.MEDIUM, 1) for key in keys])
    deliveries = await stage.claimed(connection)
    assert [d.start_by == NEVER for d in deliveries] == [False] * 4


async def test_a_webhook_needs_no_room_whatever_its_row_says(
    stage: Stage, database: Database, connection: Any
) -> None:
    now = await database_now(connection)
    webhook = HttpTarget("http://a.example/")
    await store(database, *(submission(now, target=webhook) for _ in range(2)))
    await connection.execute("UPDATE gnomon.task SET losses = $1", ALONE_FROM)
    deliveries = await stage.claimed(connection)
    assert [d.start_by == NEVER for d in deliveries] == [False] * 2
    assert not stage.held.suspects.held


async def test_what_is_chosen_and_not_claimed_leaves_its_place(
    stage: Stage, database: Database, connection: Any
) -> None:
    now = await database_now(connection)
    (key,) = await store(database, call_of(now, "echo")[1])
    stage.hint([Entry(key, now, Lane.MEDIUM, ALONE_FROM)])
    await connection.execute("DELETE FROM gnomon.task")
    assert await stage.claimed(connection) == []
    assert not stage.held.suspects.held


async def test_the_end_of_a_try_that_was_taken_over_leaves_the_next_one_held(
    stage: Stage, database: Database, connection: Any
) -> None:
    """Or this node would find a task in its name that it does not know, and give it back while
    it runs."""
    now = await database_now(connection)
    (key,) = await store(database, call_of(now, "echo")[1])
    (first,) = await stage.claimed(connection)
    await connection.execute("UPDATE gnomon.task SET state = 0, node = NULL, fence = fence + 1")
    (second,) = await stage.claimed(connection)
    stage.claims.settled([Report(first)])
    assert stage.held.holds(key, second.fence)
    stage.claims.settled([Report(second)])
    assert not stage.held.holds(key, second.fence)


async def test_a_task_whose_priority_was_changed_leaves_the_slot_that_it_took(
    stage: Stage, database: Database, connection: Any
) -> None:
    """Its hint says another lane than its row. A slot of its tenant must not be held for ever."""
    now = await database_now(connection)
    for _ in range(9):
        await store(database, call_of(now, "echo")[1])
    await connection.execute("UPDATE gnomon.task SET lane = $1", Lane.CRITICAL)
    claimed = []
    for _ in range(9):
        deliveries = await stage.claimed(connection)
        claimed += deliveries
        stage.claims.settled([Report(each) for each in deliveries])
        for each in deliveries:
            stage.pipe.report(Report(each))
        stage.pipe.settled([Report(each) for each in deliveries])
        await connection.execute("DELETE FROM gnomon.task WHERE state = 1")
    assert len(claimed) == 9
    assert stage.ready.allows("default", Lane.MEDIUM)
    for _ in range(2):
        stage.ready.started("default", Lane.MEDIUM)
        assert stage.ready.allows("default", Lane.MEDIUM)


def _hint(tenant_id: str, task_id: UUID, due_at: Any) -> Entry:
    return Entry(TaskKey(tenant_id, task_id), due_at, Lane.MEDIUM)
