"""A node that claims herds early, turned by hand, at a time that stands still."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.integration.cron_support import Unheard
from tests.integration.dispatching import Parts
from tests.integration.support import Connection, live, store, submission

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.errors import StoreUnavailable
from gnomon.model.fleet.pool import everything_in
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.outcomes.outcome import SUCCESS
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.claim_store import ClaimStore
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.dispatch.early_starts import EarlyStarts
from gnomon.node.dispatch.requeue import Requeue
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.settlement_writer import SettlementWriter
from gnomon.node.settle.verdicts import settlement_of
from gnomon.node.start_checks import StartCheck, StartChecks
from gnomon.observe.events import Event, TasksStarted, nobody
from gnomon.pipe.envelope import Delivery, FencedKey, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Claim, Entry, Recalls
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.testing import turned_clock

START = SystemClock().now().replace(microsecond=0)
INSTANT = START + timedelta(seconds=10)
SLOTS = 100
HERD = 40


class Unsteady(PostgresDispatch):
    """Fails where it is told to: a question before it is asked, a claim once it is made."""

    fails_recalls = False
    fails_begin = False
    loses_claims = False
    on_claim: Callable[[], Awaitable[None]] | None = None  # once

    async def claim(self, *args: Any, **values: Any) -> Claim:
        claim = await super().claim(*args, **values)
        asked, self.on_claim = self.on_claim, None
        if asked is not None:
            await asked()
        if self.loses_claims:
            raise StoreUnavailable("the answer was lost")
        return claim

    async def recalls(self) -> Recalls:
        if self.fails_recalls:
            raise StoreUnavailable("no answer")
        return await super().recalls()

    async def begin(self, claimed: Sequence[Delivery]) -> set[FencedKey]:
        if self.fails_begin:
            raise StoreUnavailable("no answer")
        return await super().begin(claimed)


class Bound(StartCheck):
    """Has a limit for one tenant."""

    def is_plain(self, entry: Entry) -> bool:
        return entry.key.tenant_id != "bound"

    def admit(self, entry: Entry) -> bool:
        del entry
        return True


class Stage:
    """What claims early and starts. `startable`: how many such tasks can start in a moment."""

    def __init__(
        self, database: Database, connection: Connection, node: UUID, share: float = 0.5
    ) -> None:
        self.startable = 0
        self.database, self.connection = database, connection
        self.monotonic = 1000.0
        self.clock = SystemClock(lambda: self.monotonic)
        settings = NodeSettings()
        self.store = Unsteady(database, 10.0)
        self.lease = Lease(node, 3600.0)
        self.lease.renewed(self.monotonic)
        self.clock.observe(START, self.monotonic)
        shares = SlotShares(SLOTS - 5, 5, share)
        ready: FairQueue[Entry] = FairQueue(slots=shares, has_others=lambda _: True)
        self.agenda = Agenda(ready, START, settings.window, startable=lambda _: self.startable)
        self.scanner = Scanner(self.store, self.agenda, self.clock, settings)
        self.scanner.own(everything_in(frozenset(range(SHARDS))))
        self.held = HeldTasks(SuspectRoom(1, 10))
        self.pipe = MemoryPipe(SLOTS, lambda: None, prefetch=SLOTS, reserved=5)
        planning = PostgresPlanning(database, self.clock, 10.0)
        self.told: list[Event] = []
        self.taken: list[Delivery] = []
        self.parts = Parts(
            self.store, planning, self.agenda, self.scanner, self.pipe, self.held, self.lease,
            self.clock, self.told.append,
        )  # fmt: skip
        self.claims = self.parts.claims(StartChecks([Bound()]))
        troubles = Troubles(self.clock, nobody)
        requeue = Requeue(self.agenda, self.scanner, self.clock)
        claim_store = ClaimStore(self.store, planning, self.lease, self.clock)
        claimer = Claimer(claim_store, self.claims, requeue, self.pipe, troubles, self.told.append)
        self.early = EarlyStarts(
            claim_store, claimer, self.pipe, self.clock, troubles,
            self.told.append,
        )  # fmt: skip
        self.dispatcher = self.parts.dispatcher(self.claims, 1000)
        follow_up = self.parts.follow_up()
        writer = SettlementWriter(
            self.store, self.held, self.clock, troubles, follow_up.buried, nobody
        )
        self.recorder = Recorder(
            self.pipe,
            lambda report: settlement_of(report, "node", lambda: 0.5),
            writer,
            self.claims,
            follow_up,
        )
        self.tasks = PostgresTasks(database, Unheard(), 60.0)

    async def at(self, moment: datetime) -> None:
        """Let the time be this, here and in the store."""
        self.monotonic += (moment - self.clock.now()).total_seconds()
        self.lease.renewed(self.monotonic)
        await turned_clock.set_to(self.connection, moment)
        self.clock.observe(moment, self.monotonic)
        self.agenda.advance(moment)

    async def before(self, milliseconds: float = 30.0) -> None:
        await self.at(INSTANT - timedelta(milliseconds=milliseconds))

    async def stored(self, count: int = HERD, **values: Any) -> list[TaskKey]:
        """Tasks that are due at the instant, and known to the node."""
        new = [submission(START, **({"due_at": INSTANT, "execute_at": INSTANT} | values))
               for _ in range(count)]  # fmt: skip
        keys = await store(self.database, *new)
        self.scanner.hinted([Entry(TaskKey(n.tenant_id, n.id), n.due_at, n.priority) for n in new])
        return keys

    def known(self, keys: Sequence[TaskKey]) -> None:
        """Tell the node of tasks that are due at the instant."""
        self.scanner.hinted([Entry(key, INSTANT, Lane.MEDIUM) for key in keys])

    async def held_herd(self) -> list[TaskKey]:
        keys = await self.stored()
        await self.before()
        assert await self.early.claim() == HERD
        return keys

    def sent(self) -> list[TaskKey]:
        """What is handed to slots now."""
        sent = []
        while (delivery := self.pipe.take()) is not None:
            self.taken.append(delivery)
            sent.append(delivery.key)
        return sent

    async def settle_all(self) -> None:
        """Write what was reported."""
        while self.pipe._reports._waiting:
            await self.recorder.run_once(1000)

    def run(self, most: int = 100_000) -> list[TaskKey]:
        """Let the slots run what they are given, up to so many; gives which."""
        ran: list[TaskKey] = []
        while len(ran) < most and (delivery := self.pipe.take()) is not None:
            ran.append(delivery.key)
            now = self.clock.seconds()
            self.pipe.report(Report(delivery, SUCCESS, now, now))
        return ran

    def told_started(self) -> list[TaskKey]:
        events = [event for event in self.told if isinstance(event, TasksStarted)]
        return [task.key for event in events for task in event.tasks]

    async def states(self, keys: Sequence[TaskKey]) -> set[tuple[Any, ...]]:
        rows = [await live(self.connection, key) for key in keys]
        return {(r["state"], r["due_at"], r["attempt"]) for r in rows if r is not None}

    def is_clear(self) -> bool:
        """Whether nothing is taken up on this node."""
        free = self.pipe.room() == 2 * SLOTS - 5 and not self.held.fences
        queue = self.agenda._ready
        assert isinstance(queue, FairQueue)
        return free and (queue._held, queue._critical) == (0, 0)
