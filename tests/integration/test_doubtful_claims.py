"""A claim whose answer is lost: nobody knows whether it was made, so its permits stay in use."""

import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs
from tests.integration.dispatching import Parts
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    key_of,
    settlement,
    store,
    submission,
)

from gnomon.breakers.ramp import FEWEST
from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.limits.limiter import Bucket
from gnomon.model.errors import StoreExhausted, StoreUnavailable
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.permit_keeper import RECONCILE_SECONDS, PermitKeeper
from gnomon.node.dispatch.permits import Permits
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.run.worker import Worker
from gnomon.node.settle.reconciler import Reconciler
from gnomon.node.settle.takeover import Takeover
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Claim, RunningTask
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.limits.permits import PostgresLimits
from gnomon.store.tenant_cache import TenantCache


class Forgetful(PostgresDispatch):
    """Claims, and loses the answer, where it is told to."""

    loses = False

    async def claim(
        self,
        incarnation: UUID,
        keys: Sequence[TaskKey],
        flows: Sequence[int] = (),
        sessions: Sequence[UUID] = (),
        early: float = 0.0,
    ) -> Claim:
        answer = await super().claim(incarnation, keys, flows, sessions, early)
        if self.loses:
            raise StoreUnavailable("the answer was lost")
        return answer


class Exhausted(PostgresDispatch):
    """Has no connection left, where it is told so."""

    exhausted = True
    asked: list[int]

    async def claim(
        self,
        incarnation: UUID,
        keys: Sequence[TaskKey],
        flows: Sequence[int] = (),
        sessions: Sequence[UUID] = (),
        early: float = 0.0,
    ) -> Claim:
        self.asked.append(len(keys))
        if self.exhausted:
            raise StoreExhausted("no connection")
        return await super().claim(incarnation, keys, flows, sessions, early)


class Stage:
    """A dispatcher by hand."""

    def __init__(self, database: Database, node: UUID) -> None:
        self.ahead = 0.0
        settings = NodeSettings(window=1000)  # a repair reads more than one task of a shard
        clock = SystemClock(lambda: time.monotonic() + self.ahead)
        self.store = Forgetful(database, 10.0)
        lease = Lease(node, 3600.0)
        lease.renewed(clock.monotonic())
        self.agenda = Agenda(FairQueue(), clock.now(), settings.window)
        self.scanner = Scanner(self.store, self.agenda, clock, settings)
        self.scanner.own(everything_in(frozenset(range(SHARDS))))
        self.directory = TenantCache(PostgresTenantReader(database), clock, {})
        held = HeldTasks(SuspectRoom(1, 10))
        self.permits = Permits(self.directory, self.agenda, held, clock)
        self.pipe = pipe = MemoryPipe(10, lambda: None)
        planning = PostgresPlanning(database, clock, 10.0)
        self.parts = Parts(
            self.store, planning, self.agenda, self.scanner, pipe, held, lease, clock
        )
        self.claims = self.parts.claims(StartChecks([self.permits]))
        self.dispatcher = self.parts.dispatcher(self.claims, 10)
        troubles = Troubles(clock, nobody)
        limits = PostgresLimits(database)
        self.keeper = PermitKeeper(limits, self.permits, pipe, clock, node, troubles)
        self.clock = clock

    def advance(self) -> None:
        self.agenda.advance(self.clock.now())

    async def dispatch(self) -> int:
        """Ask for what is wanted, and claim what may start; gives how many."""
        await self.scanner.forward()
        await self.scanner.repair()
        self.advance()
        claimed = 0
        for _ in range(4):
            claimed += (await self.dispatcher.run_once()).claimed
            await self.keeper.run_once()
        return claimed


async def running(connection: Connection) -> list[Any]:
    return [
        row["id"] for row in await connection.fetch("SELECT id FROM gnomon.task WHERE state = 1")
    ]


async def test_permits_of_a_claim_in_doubt(database: Database, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, concurrency) VALUES ('default', 'one', 1)"
    )
    now = await database_now(connection)
    await store(database, submission(now), submission(now, task_type="other"))
    stage = Stage(database, await joined(database))
    await stage.directory.load()
    stage.store.loses = True
    with pytest.raises(StoreUnavailable):
        await stage.dispatch()
    (first,) = await running(connection)

    stage.store.loses = False
    assert await stage.dispatch() == 0
    account = stage.permits.accounts[Bucket("default", "one")]
    assert (account.used, await running(connection)) == (1, [first])
    for _ in range(2):
        assert await stage.keeper.reconcile() == 0, "it runs, in our name"
        stage.ahead += RECONCILE_SECONDS + 1
    assert await stage.dispatch() == 0

    # The sweeper finds it, and gives it back.
    await connection.execute("UPDATE gnomon.task SET state = 0, node = NULL, fence = fence + 1")
    assert await stage.keeper.reconcile() == 1
    assert await stage.dispatch() == 1
    assert len(await running(connection)) == 1


async def test_claims_begin_small_after_postgresql_was_exhausted(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await store(database, *(submission(now) for _ in range(200)))
    stage = Stage(database, await joined(database))
    parts, settings = stage.parts, NodeSettings(window=1_000)
    full = Exhausted(database, 10.0)
    full.asked = []
    agenda = Agenda(FairQueue(), stage.clock.now(), settings.window)
    scanner = Scanner(full, agenda, stage.clock, settings)
    scanner.own(everything_in(frozenset(range(SHARDS))))
    parts = dataclasses.replace(
        parts, store=full, agenda=agenda, scanner=scanner, pipe=MemoryPipe(1_000, lambda: None)
    )
    dispatcher = parts.dispatcher(parts.claims(), 100)
    await scanner.forward()
    await scanner.repair()
    agenda.advance(stage.clock.now())
    for _ in range(2):
        with pytest.raises(StoreExhausted):
            await dispatcher.run_once()
    full.exhausted = False
    for _ in range(2):
        await dispatcher.run_once()
    assert full.asked[:4] == [100, FEWEST, FEWEST, 4 * FEWEST]


@pytest.mark.parametrize("known", [True, False], ids=["known flow", "unknown flow"])
async def test_a_task_that_was_changed_is_not_claimed_as_what_it_was(
    database: Database, connection: Connection, known: bool
) -> None:
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, key, concurrency) "
        "VALUES ('default', 'each', '/who', 2)"
    )
    stage = Stage(database, await joined(database))
    await stage.directory.load()
    now = await database_now(connection)
    task, other = (submission(now, limit_keys='{"each":"ann"}') for _ in range(2))
    if known:
        await store(database, other)
        assert await stage.dispatch() == 1
    await store(database, task)
    stage.scanner.look_everywhere()
    await stage.scanner.forward()
    await stage.scanner.repair()
    assert stage.agenda.knows(key_of(task))  # as one of ann's
    bob = """UPDATE gnomon.task SET limit_keys = '{"each":"bob"}' WHERE id = $1"""
    await connection.execute(bob, task.id)
    stage.advance()
    assert (await stage.dispatcher.run_once()).claimed == 0
    assert await stage.dispatch() == 1
    used = {bucket.key: account.used for bucket, account in stage.permits.accounts.items()}
    assert used == ({"ann": 1, "bob": 1} if known else {"bob": 1})


class Meanwhile(Forgetful):
    """Something happens between the look at what runs here and its answer."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 10.0)
        self.happens: Callable[[], Awaitable[None]] | None = None

    async def running_on(self, incarnation: UUID) -> list[RunningTask]:
        rows = await super().running_on(incarnation)
        if self.happens is not None:
            await self.happens()
        return rows


class Nobody(Worker):
    """A worker that is never asked for anything here."""

    def __init__(self) -> None:
        pass


async def test_what_was_settled_during_the_look_is_not_released(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await store(database, submission(now), submission(now))
    node = await joined(database)
    stage = Stage(database, node)
    await stage.directory.load()
    looking = Meanwhile(database)
    lease = Lease(node, 3600.0)
    troubles = Troubles(stage.clock, nobody)
    takeover = Takeover(looking, stage.parts.follow_up(), troubles, nobody)
    reconciler = Reconciler(looking, takeover, stage.parts.held, Nobody(), lease)
    assert await stage.dispatch() == 2
    deliveries = [await stage.pipe.receive() for _ in range(2)]

    async def settled() -> None:
        await stage.store.settle([settlement(delivery) for delivery in deliveries])
        stage.claims.settled([Report(delivery, None) for delivery in deliveries])

    looking.happens = settled
    with capture_logs() as lines:
        assert await reconciler.run_once() == 0
    assert lines == []

    # One of which the answer was lost is found, and released.
    looking.happens = None
    stage.store.loses = True
    await store(database, submission(now))
    with pytest.raises(StoreUnavailable):
        await stage.dispatch()
    with capture_logs() as lines:
        assert await reconciler.run_once() == 1
    assert [(line["event"], line["count"]) for line in lines] == [
        ("released tasks whose claim was answered but lost", 1)
    ]
    assert await running(connection) == []
