"""A node whose settlements claim what they make due: only where nothing is to be decided, and so
that neither a lost answer nor a reconciler makes it run twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest
from proof.workflows.runs import ComparedRun
from tests.integration.dispatching import Parts
from tests.integration.support import Connection, database_now, joined, store, submission
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.errors import StoreUnavailable
from gnomon.model.fleet.pool import WEBHOOKS, Territory, everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.claims import Claims
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.child_claimer import ChildClaimer
from gnomon.node.settle.reconciler import Reconciler
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.settlement_writer import SettlementWriter
from gnomon.node.settle.takeover import Takeover
from gnomon.node.settle.verdicts import settlement_of
from gnomon.node.start_checks import StartCheck, StartChecks
from gnomon.observe.events import Event, TasksStarted, nobody
from gnomon.observe.node_events import ClaimAnswered
from gnomon.pipe.envelope import NEVER, Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry, Settled, Settlement, Taker
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.workflow.graph import Graph, GraphNode

SLOTS = 4
EVERYWHERE = frozenset(range(SHARDS))
CHAIN: Graph = {"a": GraphNode(), "b": GraphNode(("a",)), "c": GraphNode(("b",))}


class Watched(PostgresDispatch):
    """Notes for whom settlements claim, waits before it answers, and loses answers."""

    takers: list[Taker | None]
    loses = False
    before: asyncio.Event | None = None

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        self.takers.append(taker)
        settled = await super().settle(settlements, taker)
        if self.before is not None:
            await self.before.wait()
        if self.loses:
            self.loses = False
            raise StoreUnavailable("the connection was lost")
        return settled


class Refusing(StartCheck):
    """A check that says what it is told to."""

    free, admits, starts = True, True, True

    def is_free(self, tenant_id: str) -> bool:
        return self.free

    def admit(self, entry: Entry) -> bool:
        return self.admits

    def claimed(self, delivery: Delivery) -> bool:
        return self.starts


class Nobody:
    """Runs nothing."""

    def interrupt(self, *_: object) -> bool:
        return False


@dataclass
class Workbench:
    """A recorder whose settlements may claim, turned by hand."""

    run: ComparedRun
    store: Watched
    recorder: Recorder
    dispatcher: Dispatcher
    reconciler: Reconciler
    agenda: Agenda
    scanner: Scanner
    held: HeldTasks
    lease: Lease
    pipe: MemoryPipe
    check: Refusing
    clock: SystemClock
    events: list[Event] = field(default_factory=list)

    def key(self, name: str) -> TaskKey:
        return TaskKey(DEFAULT_TENANT, self.run.ids[name])

    async def start(self, name: str) -> Delivery:
        """Claim it, in the usual way: at the tick after its time, which may be yet to come."""
        assert await eventually(self._claimed) == 1
        return self.received(name)

    async def _claimed(self) -> int:
        await self.scanner.forward()
        self.agenda.advance(self.clock.now())
        return (await self.dispatcher.run_once()).claimed

    def received(self, name: str) -> Delivery:
        delivery = self.pipe.take()
        assert delivery is not None, "nothing was sent"
        assert delivery.key == self.key(name)
        return delivery

    def report(self, delivery: Delivery, *, succeeded: bool = True) -> None:
        began = self.clock.seconds()
        outcome = Outcome(OutcomeKind.SUCCEEDED) if succeeded else None
        self.pipe.report(Report(delivery, outcome, began, began))

    async def record(self) -> None:
        self.events.clear()
        await self.recorder.run_once(SLOTS)

    async def end_of_a(self) -> None:
        """The first of the chain ends, and is settled."""
        self.report(await self.start("a"))
        await self.record()

    def is_taken(self) -> bool:
        return self.store.takers[-1] is not None

    def assert_waits(self) -> None:
        """The second of the chain was not claimed, and is on the agenda."""
        assert self.pipe.take() is None
        assert not self.held.fences
        assert self.agenda.knows(self.key("b"))


@pytest.fixture
async def bench(database: Database, clock: SystemClock) -> Workbench:
    incarnation = await joined(database)
    run = ComparedRun(database, CHAIN, clock, incarnation)
    await run.begin()
    watched = Watched(database, 10.0)
    watched.takers = []
    pipe, held = MemoryPipe(SLOTS, lambda: None), HeldTasks(SuspectRoom(1, SLOTS))
    lease = Lease(incarnation, 3600.0)
    lease.renewed(clock.monotonic())
    agenda = Agenda(FairQueue(), clock.now(), 100)
    scanner = Scanner(watched, agenda, clock, NodeSettings(window=100))
    scanner.own(everything_in(EVERYWHERE))
    planning, check = PostgresPlanning(database, clock, 10.0), Refusing()
    events: list[Event] = []
    parts = Parts(watched, planning, agenda, scanner, pipe, held, lease, clock, events.append)
    claims, troubles = parts.claims(StartChecks([check])), Troubles(clock, nobody)
    claimer, follow_up = parts.claimer(claims), parts.follow_up()
    recorder = Recorder(
        pipe,
        partial(settlement_of, worker="node", chance=lambda: 0.5),
        SettlementWriter(watched, held, clock, troubles, follow_up.buried, parts.emit),
        claims,
        follow_up,
        ChildClaimer(watched, claimer, scanner, pipe, lease, clock),
    )
    takeover = Takeover(watched, follow_up, troubles, nobody)
    reconciler = Reconciler(watched, takeover, held, Nobody(), lease)  # type: ignore[arg-type]
    return Workbench(
        run, watched, recorder, parts.dispatcher(claims, 10), reconciler, agenda, scanner, held,
        lease, pipe, check, clock, events,
    )  # fmt: skip


async def test_the_next_step_is_held_and_sent_with_the_end_of_the_one_before(
    bench: Workbench, connection: Connection
) -> None:
    await bench.end_of_a()
    delivery = bench.received("b")
    assert bench.held.fences == {delivery.key: delivery.fence}
    assert not bench.agenda.knows(delivery.key)
    assert delivery.start_by > bench.clock.seconds()
    (answered,) = [e for e in bench.events if isinstance(e, ClaimAnswered)]
    assert (answered.claimed, answered.missed) == (1, 0)
    (started,) = [e for e in bench.events if isinstance(e, TasksStarted)]
    (start,) = started.tasks
    assert (start.key, start.attempt) == (delivery.key, 1)
    assert start.due_at <= start.started_at

    bench.report(delivery)
    await bench.record()
    bench.report(bench.received("c"))
    await bench.record()
    assert (bench.held.fences, bench.pipe.room()) == ({}, SLOTS)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0
    assert await connection.fetchval("SELECT state FROM gnomon.workflow_run") == 10


async def test_the_reconciler_leaves_alone_what_is_being_claimed(bench: Workbench) -> None:
    bench.report(await bench.start("a"))
    bench.store.before = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        record = group.create_task(bench.record())
        while not bench.held.taking.locked():
            await asyncio.sleep(0)
        reconcile = group.create_task(bench.reconciler.run_once())
        for _ in range(20):
            await asyncio.sleep(0)
        bench.store.before.set()
    assert (record.result(), reconcile.result()) == (None, 0)
    delivery = bench.received("b")
    bench.store.before = None
    bench.report(delivery)
    await bench.record()
    assert bench.is_taken()
    bench.received("c")


async def test_others_are_claimed_while_a_settlement_that_may_claim_waits_for_somebody(
    bench: Workbench, database: Database, connection: Connection
) -> None:
    bench.report(await bench.start("a"))
    bench.store.before = asyncio.Event()
    await store(database, submission(await database_now(connection)))
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.record())
        while not bench.held.taking.locked():
            await asyncio.sleep(0)
        await bench.scanner.repair()
        bench.agenda.advance(bench.clock.now())
        async with asyncio.timeout(10):
            assert (await bench.dispatcher.run_once()).claimed == 1
        bench.store.before.set()


async def test_what_was_claimed_with_an_answer_that_was_lost_is_released(
    bench: Workbench, connection: Connection
) -> None:
    bench.store.loses = True
    await bench.end_of_a()
    assert [taker is not None for taker in bench.store.takers] == [True, False]
    assert bench.pipe.take() is None
    assert (bench.held.fences, bench.held.taking.locked()) == ({}, False)
    row = await connection.fetchrow(
        "SELECT state, attempt FROM gnomon.task WHERE id = $1", bench.key("b").id
    )
    assert row is not None
    assert tuple(row) == (1, 1), "it runs nowhere"
    assert await bench.reconciler.run_once() == 1
    assert (await bench.start("b")).attempt == 1


@pytest.mark.parametrize(
    "why",
    ["waiting", "full", "stopped", "untrusted", "claiming", "taking", "limited", "others", "plain"],
)
async def test_nothing_is_claimed_where_something_is_to_be_decided(
    bench: Workbench, database: Database, connection: Connection, why: str
) -> None:
    now = await database_now(connection)
    delivery = await bench.start("a")
    match why:
        case "waiting":
            await store(database, submission(now))
            await bench.scanner.repair()
            bench.agenda.advance(bench.clock.now())
        case "full":
            bench.pipe.send([delivery] * SLOTS)
        case "stopped":
            bench.held.stopped = True
        case "untrusted":
            bench.lease.renewed(bench.clock.monotonic() - 7200.0)
        case "claiming":
            await bench.held.claiming.acquire()
        case "taking":
            await bench.held.taking.acquire()
        case "limited":
            bench.check.free = False
        case "others":
            others = {shard: frozenset({WEBHOOKS}) for shard in EVERYWHERE}
            bench.scanner.own(Territory(EVERYWHERE, others=others))
        case "plain":
            delivery = msgspec.structs.replace(delivery, workflow_node=None)
    bench.report(delivery)
    await bench.record()
    assert bench.store.takers == [None]
    assert not bench.held.fences
    assert bench.agenda.knows(bench.key("b"))


async def test_what_this_node_does_not_serve_is_left_to_others(bench: Workbench) -> None:
    delivery = await bench.start("a")
    bench.scanner.own(Territory(EVERYWHERE, WEBHOOKS))
    bench.report(delivery)
    await bench.record()
    assert bench.is_taken()
    assert not bench.held.fences
    assert bench.pipe.take() is None


@pytest.mark.parametrize("refusal", ["admits", "starts"])
async def test_what_must_not_start_is_released_and_has_spent_no_attempt(
    bench: Workbench, connection: Connection, refusal: str
) -> None:
    delivery = await bench.start("a")
    setattr(bench.check, refusal, False)
    bench.report(delivery)
    await bench.record()
    refused = bench.received("b")
    assert refused.start_by == NEVER, "no slot starts it"
    assert not [e for e in bench.events if isinstance(e, TasksStarted) and list(e.tasks)]
    bench.report(refused, succeeded=False)
    await bench.record()
    assert not bench.held.fences
    row = await connection.fetchrow(
        "SELECT state, attempt FROM gnomon.task WHERE id = $1", refused.key.id
    )
    assert row is not None
    assert tuple(row) == (0, 0)
    setattr(bench.check, refusal, True)
    assert (await bench.start("b")).attempt == 1


async def test_a_tenants_share_counts_what_was_claimed_so(bench: Workbench) -> None:
    """With the end of the parent its slot is free, and its child takes it."""
    queue = FairQueue[Entry](slots=SlotShares(2, share=0.5), has_others=lambda _: True)
    claims = Claims(bench.held, Agenda(queue, bench.clock.now(), 10), StartChecks())
    parent = await bench.start("a")
    bench.held.fences.clear()
    entry = Entry(parent.key, bench.clock.now(), parent.lane)
    assert not [d for d in claims.claimed_unasked([entry], [parent]) if d.start_by == NEVER]
    other = msgspec.structs.replace(parent, key=bench.key("b"))
    entry = Entry(other.key, bench.clock.now(), other.lane)
    assert [d.start_by for d in claims.claimed_unasked([entry], [other])] == [NEVER]
    claims.settled([Report(parent), Report(other)])
    assert queue.allows(DEFAULT_TENANT, parent.lane)
