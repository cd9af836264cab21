"""A node: every role of the scheduler and its worker slots, in one process, for one incarnation.

Each role has a `run_once`, which is a chore of the node; here is only decided when each is called.
What happens where one fails is decided in `gnomon.chores`: it never ends the node. Only a lost
lease and a broken invariant do, and then its tasks are taken over like those of any node that died.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NoReturn

import structlog

from gnomon.chores import Chores, TroubleKeeper
from gnomon.chores.keeping import EVERY_SECONDS as TROUBLE_SECONDS
from gnomon.clock import Clock
from gnomon.model.errors import LeaseLost, StoreError
from gnomon.model.pool import Pool
from gnomon.model.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.planner import Planner
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.dispatch.accountant import EVERY_SECONDS as ACCOUNT_SECONDS
from gnomon.node.dispatch.accountant import Accountant
from gnomon.node.dispatch.breaker_check import NOTE_SECONDS, BreakerCheck
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.node.dispatch.permit_keeper import RECONCILE_SECONDS, PermitKeeper
from gnomon.node.dispatch.stealer import Stealer
from gnomon.node.maintenance.pruner import EVERY_SECONDS as PRUNE_SECONDS
from gnomon.node.maintenance.pruner import Pruner
from gnomon.node.maintenance.storage_counter import EVERY_SECONDS as COUNT_SECONDS
from gnomon.node.maintenance.storage_counter import StorageCounter
from gnomon.node.maintenance.watchdog import EVERY_SECONDS as WATCH_SECONDS
from gnomon.node.maintenance.watchdog import Watchdog
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.node.membership.roster import Roster, RosterResult
from gnomon.node.run.worker import Worker
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.sweeper import Sweeper
from gnomon.node.signals import Signals
from gnomon.settings import Settings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.roster import RosterStore
from gnomon.store.room_watch import LOOK_SECONDS as ROOM_SECONDS
from gnomon.store.room_watch import RoomWatch
from gnomon.store.tenant_cache import LOOK_SECONDS as DIRECTORY_SECONDS
from gnomon.store.tenant_cache import TenantCache

log = structlog.get_logger("gnomon.node")

_RECONCILE_SECONDS = 5.0
_OVERDUE_SECONDS = 5.0
_QUEUED_SECONDS = 1.0  # between looks for queued runs whose turn has come unseen
_INTERRUPTED_SECONDS = 5.0  # for what was interrupted at the end of the drain
_LAST_SECONDS = 1.0  # to settle what ignores even that
_SETTLE_AGAIN_SECONDS = 1.0  # between looks at outcomes that could not be stored
_LONGEST_SLEEP = 1.0
_SHORTEST_REPAIR = 0.02  # between repairs that hints ask for
_SHORTEST_STEAL = 0.02  # between looks for more: a probe of many shards for one slot is dear


class Node:
    """One incarnation, from joining the roster to leaving it. Built by `gnomon.wiring`."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        lease: Lease,
        signals: Signals,
        roster_store: RosterStore,
        roster: Roster,
        agenda: Agenda,
        scanner: Scanner,
        dispatcher: Dispatcher,
        thief: Stealer,
        worker: Worker,
        recorder: Recorder,
        planner: Planner,
        sweeper: Sweeper,
        pruner: Pruner,
        storage_counter: StorageCounter,
        room_watch: RoomWatch,
        watchdog: Watchdog,
        accountant: Accountant,
        directory: TenantCache,
        breakers: BreakerCheck,
        pool: Pool,
        permits: PermitKeeper,
        chores: Chores,
        trouble_keeper: TroubleKeeper,
        name: str,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.lease = lease
        self.signals = signals
        self.roster_store = roster_store
        self.roster = roster
        self.agenda = agenda
        self.scanner = scanner
        self.dispatcher = dispatcher
        self.thief = thief
        self.worker = worker
        self.recorder = recorder
        self.planner = planner
        self.sweeper = sweeper
        self.pruner = pruner
        self.storage_counter = storage_counter
        self.room_watch = room_watch
        self.watchdog = watchdog
        self.accountant = accountant
        self.directory = directory
        self.breakers = breakers
        self.pool = pool
        self.permits = permits
        self.chores = chores
        self.trouble_keeper = trouble_keeper
        self.name = name
        self._lost = asyncio.Event()
        self._more_to_steal = False

    # Hints, from whoever hears them

    def heard_due(self, entries: list[Entry] | None) -> None:
        """Tasks were submitted; None: too many to name."""
        if entries is None:
            self.signals.look.set()
        elif self.scanner.hinted(entries):
            self.signals.due.set()

    def heard_cancel(self, key: TaskKey) -> None:
        self.worker.interrupt(key, "cancelled")

    def heard_lost(self) -> None:
        """The lease is gone for good."""
        self._lost.set()

    # The life of a node

    async def join(self) -> None:
        """Enter the roster, and know the own shards."""
        asked_at = self.clock.monotonic()
        now = await self.roster_store.join(
            self.lease.incarnation, self.name, self.settings.slots, self.lease.ttl, self.pool
        )
        self.clock.observe(now, asked_at)
        self.lease.renewed(asked_at)
        self._serve(await self.roster.run_once())

    async def run(self, keeper: LeaseKeeper, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drain. Raises LeaseLost when declared dead."""
        keeper.start()
        try:
            async with asyncio.TaskGroup() as group:
                loops = [group.create_task(loop) for loop in self._loops(keeper)]
                await self._stopped_or_lost(stop)
                if self._lost.is_set():
                    self.worker.interrupt_all("this node was declared dead")
                else:
                    await self._drain()
                for task in loops:
                    task.cancel()
        finally:
            await keeper.stop()
        if self._lost.is_set():
            raise LeaseLost(f"node {self.name} was declared dead")
        with contextlib.suppress(StoreError):
            await self.breakers.note()  # what has happened since the last time
        with contextlib.suppress(StoreError):
            await self.roster_store.leave(self.lease.incarnation)

    def work(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """The chores by name, each to be done once."""
        return {
            "roster": self._look_at_roster,
            "directory": self.directory.load,
            "scan": self._scan,
            "repair": self._repair,
            "tick": self._tick,
            "dispatch": self._dispatch,
            "steal": self._steal,
            "record": self._record,
            "settle-again": self.recorder.settle_again,
            "plan": self._plan,
            "queued-runs": self._look_for_queued,
            "release-runs": self._release_runs,
            "sweep": self.sweeper.run_once,
            "overdue": self.sweeper.take_overdue,
            "reconcile": self._reconcile,
            "prune": self.pruner.run_once,
            "count-storage": self.storage_counter.run_once,
            "room": self.room_watch.run_once,
            "watch": self.watchdog.run_once,
            "account": self.accountant.run_once,
            "breakers": self.breakers.note,
            "permits": self.permits.run_once,
            "free-permits": self.permits.reconcile,
            "troubles": self.trouble_keeper.run_once,
        }

    def _loops(self, keeper: LeaseKeeper) -> list[Coroutine[Any, Any, None]]:
        s, signals, whenever = self.settings, self.signals, self.chores.whenever
        work = self.work()
        seconds = {
            "roster": min(0.5, self.lease.ttl / 10),
            "directory": DIRECTORY_SECONDS,
            "scan": s.scan_seconds,
            "settle-again": _SETTLE_AGAIN_SECONDS,
            "plan": s.plan_seconds,
            "queued-runs": _QUEUED_SECONDS,
            "sweep": s.sweep_seconds,
            "overdue": _OVERDUE_SECONDS,
            "reconcile": _RECONCILE_SECONDS,
            "prune": PRUNE_SECONDS,
            "count-storage": COUNT_SECONDS,
            "room": ROOM_SECONDS,
            "watch": WATCH_SECONDS,
            "account": ACCOUNT_SECONDS,
            "breakers": NOTE_SECONDS,
            "free-permits": RECONCILE_SECONDS,
            "troubles": TROUBLE_SECONDS,
        }
        look, rest = 2 * s.scan_seconds, _SHORTEST_REPAIR
        return [
            *(self.chores.every(name, pause, work[name]) for name, pause in seconds.items()),
            whenever("repair", signals.look, look, work["repair"], rest),
            whenever("dispatch", signals.ready, _LONGEST_SLEEP, work["dispatch"]),
            whenever("release-runs", signals.ended, None, work["release-runs"]),
            self.chores.loop("record", work["record"]),
            self.chores.loop("steal", self._steal_in_time),
            self.chores.loop("tick", self._tick_in_time),
            self.chores.loop("permits", self.permits.run_in_time),
            self._show_progress(keeper),
            self.worker.run(),
            self.breakers.run(),
        ]

    async def _stopped_or_lost(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(e.wait()) for e in (stop, self._lost)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()

    async def _drain(self) -> None:
        """Let running tasks end, give back the rest."""
        self.dispatcher.stopped = True
        deadline = self.clock.monotonic() + self.settings.drain_seconds
        while True:
            self.worker.drain()  # again and again: a claim under way brings more
            busy = self.dispatcher.held or self.dispatcher.claiming.locked()
            if not busy or self.clock.monotonic() >= deadline:
                break
            await self.clock.sleep(0.02)
        if self.dispatcher.held:
            log.warning(
                "interrupting tasks at the end of the drain", count=len(self.dispatcher.held)
            )
            self.worker.interrupt_all("the node shut down before the try ended")
            await self._settled_within(_INTERRUPTED_SECONDS)
            self.worker.give_up_hung(at_once=True)
            await self._settled_within(_LAST_SECONDS)

    async def _settled_within(self, seconds: float) -> None:
        deadline = self.clock.monotonic() + seconds
        while self.dispatcher.held and self.clock.monotonic() < deadline:
            await self.clock.sleep(0.02)

    # The chores

    async def _show_progress(self, keeper: LeaseKeeper) -> NoReturn:
        while True:
            keeper.progress()
            await self.clock.sleep(keeper.interval)

    async def _look_at_roster(self) -> None:
        result = await self.roster.run_once()
        if result.own != self.scanner.territory:
            self._serve(result)
            self.signals.look.set()

    def _serve(self, look: RosterResult) -> None:
        log.info("serving shards", shards=len(look.own.shards), nodes=look.nodes)
        self.scanner.own(look.own)

    async def _reconcile(self) -> None:
        if await self.sweeper.reconcile():
            self.signals.look.set()

    async def _scan(self) -> None:
        if (await self.scanner.forward()).new:
            self.signals.due.set()

    async def _plan(self) -> None:
        if (await self.planner.run_once()).runs:
            self.signals.due.set()

    async def _look_for_queued(self) -> None:
        if await self.planner.look_for_queued():
            self.signals.due.set()

    async def _release_runs(self) -> None:
        if await self.planner.let_go():
            self.signals.due.set()

    async def _repair(self) -> None:
        result = await self.scanner.repair()
        result_forward = await self.scanner.forward()
        if result.new or result_forward.new:
            self.signals.due.set()

    async def _tick_in_time(self) -> None:
        """Make ready what has become due, and sleep until more will be."""
        self.signals.due.clear()
        await self.clock.wait(self.signals.due, await self._tick())

    async def _tick(self) -> float:
        """Gives the seconds until more becomes due."""
        now = self.clock.now()
        self.agenda.advance(now)
        if self.agenda.ready:
            self.signals.ready.set()
        return self.agenda.pause(now, _LONGEST_SLEEP)

    async def _dispatch(self) -> None:
        while (result := await self.dispatcher.run_once()).chosen:
            if result.claimed < result.chosen:
                self.signals.due.set()  # it will be looked at again soon
            if result.started_over:
                self.signals.look.set()
            if result.claimed and self.scanner.behind:
                await self._refill()

    async def _steal_in_time(self) -> None:
        """Look now and then; while others have more than they can do, whenever there is room."""
        interval = self.settings.steal_seconds / 2
        if self._more_to_steal:
            await self.clock.wait(self.signals.room, interval)
            await self.clock.sleep(min(_SHORTEST_STEAL, interval))
        else:
            await self.clock.sleep(interval)
        self.signals.room.clear()
        await self._steal()

    async def _steal(self) -> None:
        if not self.dispatcher.idle():
            return
        self._more_to_steal = False
        self._more_to_steal = (await self.thief.run_once()).more
        if self._more_to_steal and self.dispatcher.idle():
            self.signals.room.set()

    async def _refill(self) -> None:
        """Read on at once while a backlog is being worked off."""
        if self.agenda.room() <= self.settings.window // 2:
            return
        if (await self.scanner.forward()).new:
            self.agenda.advance(self.clock.now())

    async def _record(self) -> None:
        await self.recorder.run_once(self.settings.batch)
        self.signals.due.set()
