"""How a node is put together: each of its parts once, and what each is made of."""

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from uuid import UUID

from gnomon.chores import Chores, Service, TroubleKeeper, Troubles, about_task, every
from gnomon.chores.keeping import EVERY_SECONDS as TROUBLE_SECONDS
from gnomon.clock import Clock, chance, new_incarnation
from gnomon.fairness import FairQueue, LaneRound, SlotShares
from gnomon.model.pool import EVERYTHING, Pool
from gnomon.model.priority import Lane
from gnomon.model.target import Target
from gnomon.model.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.planner import Planner
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.ahead.stage import AheadStage
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.node.dispatch.accountant import EVERY_SECONDS as ACCOUNT_SECONDS
from gnomon.node.dispatch.accountant import Accountant
from gnomon.node.dispatch.breaker_check import BreakerCheck, Rules
from gnomon.node.dispatch.dispatcher import Dispatcher
from gnomon.node.dispatch.permit_keeper import PermitKeeper
from gnomon.node.dispatch.permits import Permits
from gnomon.node.dispatch.places import PlaceCheck
from gnomon.node.dispatch.pool_check import PoolCheck
from gnomon.node.dispatch.preemption import Preemption
from gnomon.node.dispatch.stage import DispatchStage
from gnomon.node.dispatch.stealer import Stealer
from gnomon.node.drain import Drain
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.maintenance.pruner import EVERY_SECONDS as PRUNE_SECONDS
from gnomon.node.maintenance.pruner import Pruner
from gnomon.node.maintenance.storage_counter import EVERY_SECONDS as COUNT_SECONDS
from gnomon.node.maintenance.storage_counter import StorageCounter
from gnomon.node.maintenance.watchdog import EVERY_SECONDS as WATCH_SECONDS
from gnomon.node.maintenance.watchdog import Watchdog
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.roster import Roster
from gnomon.node.membership.stage import Membership, RosterEntry
from gnomon.node.node import Node
from gnomon.node.run.runner import Runner
from gnomon.node.run.starter import Starter
from gnomon.node.run.targets import Callers, Place
from gnomon.node.run.worker import Worker
from gnomon.node.settle.recorder import Recorder
from gnomon.node.settle.stage import SettleStage
from gnomon.node.settle.sweeper import Sweeper
from gnomon.node.signals import Signals
from gnomon.node.start_checks import StartCheck, StartChecks
from gnomon.observe.events import Observer
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.memory import MemoryPipe
from gnomon.settings import Settings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.events import PostgresWatch
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.breakers import PostgresBreakers
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores, PostgresRoster
from gnomon.store.postgres.dispatch.troubles import PostgresTroubles
from gnomon.store.postgres.limits.permits import PostgresLimits
from gnomon.store.postgres.usage.room import PostgresRoom
from gnomon.store.postgres.usage.storage import PostgresStorage
from gnomon.store.room_watch import LOOK_SECONDS as ROOM_SECONDS
from gnomon.store.room_watch import RoomWatch
from gnomon.store.tenant_cache import LOOK_SECONDS, TenantCache


@dataclass(frozen=True)
class Surroundings:
    """What a node is given, whatever it does with it."""

    settings: Settings
    database: Database
    callers: Callers
    takes_suspects: Callable[[], bool]  # whether the quarantine is open
    directory: TenantCache
    clock: Clock
    emit: Observer
    rules: Rules


class Assembly:
    """The parts of one incarnation. A part is made when the first other part asks for it, so that
    each names what it needs and nothing has to be listed in order."""

    def __init__(self, around: Surroundings) -> None:
        self._settings = around.settings
        self._database = around.database
        self._callers = around.callers
        self._takes_suspects = around.takes_suspects
        self._directory = around.directory
        self._clock = around.clock
        self._emit = around.emit
        self._rules = around.rules
        self._name = self._settings.node.name or f"{socket.gethostname()}:{os.getpid()}"
        self._signals = Signals()
        self._troubles = Troubles(self._clock, self._emit)
        self._lease = Lease(new_incarnation(), self._settings.node.lease_seconds)

    def node(self) -> Node:
        """All of them, at work together."""
        drain = Drain(self._held, self._worker, self._clock, self._settings.node.drain_seconds)
        chores = Chores(self._clock, self._troubles)
        return Node(self._membership, self._services(), self._worker, drain, chores, self._clock)

    def heard_due(self, entries: list[Entry] | None) -> None:
        self._ahead.hear(entries)

    def heard_cancel(self, key: TaskKey) -> None:
        self._worker.interrupt(key, "cancelled")

    def _services(self) -> list[Service]:
        """In the order in which a task meets them, and then what looks after all of them."""
        clock = self._clock
        return [
            *self._membership.services(),
            *self._ahead.services(),
            *self._dispatch.services(),
            *self._settle.services(),
            *self._permit_keeper.services(),
            *self._breakers.services(),
            every("directory", self._directory.load, clock, LOOK_SECONDS),
            every("prune", self._pruner.run_once, clock, PRUNE_SECONDS),
            every("count-storage", self._storage_counter.run_once, clock, COUNT_SECONDS),
            every("room", self._room_watch.run_once, clock, ROOM_SECONDS),
            every("watch", self._watchdog.run_once, clock, WATCH_SECONDS),
            every("account", self._accountant.run_once, clock, ACCOUNT_SECONDS),
            every("troubles", self._trouble_keeper.run_once, clock, TROUBLE_SECONDS),
        ]

    # The stages of a task

    @cached_property
    def _membership(self) -> Membership:
        entry = RosterEntry(self._name, self._settings.node.slots, self._pool)
        roster = Roster(self._roster_store, self._lease, self._clock)
        return Membership(
            entry, self._roster_store, roster, self._lease, self._clock, self._ahead.serve
        )

    @cached_property
    def _ahead(self) -> AheadStage:
        return AheadStage(
            self._scanner,
            self._agenda,
            self._planner,
            self._signals,
            self._clock,
            self._settings.node,
        )

    @cached_property
    def _dispatch(self) -> DispatchStage:
        stealer = Stealer(self._store, self._scanner, self._dispatcher, chance, self._settings.node)
        return DispatchStage(
            self._dispatcher,
            stealer,
            self._ahead.refill,
            self._signals,
            self._clock,
            self._settings.node.steal_seconds,
        )

    @cached_property
    def _settle(self) -> SettleStage:
        return SettleStage(
            self._recorder, self._sweeper, self._signals, self._clock, self._settings.node
        )

    # What the store is asked for

    @cached_property
    def _store(self) -> PostgresDispatch:
        return PostgresDispatch(self._database, self._settings.node.timeout_grace_seconds)

    @cached_property
    def _roster_store(self) -> PostgresRoster:
        return PostgresRoster(self._database)

    @cached_property
    def _chores(self) -> PostgresChores:
        return PostgresChores(self._database, self._clock)

    @cached_property
    def _planning(self) -> PostgresPlanning:
        grace = self._settings.node.timeout_grace_seconds
        known = self._directory
        return PostgresPlanning(
            self._database, self._clock, grace, known.limiters, known.quotas, known.is_full
        )

    # What is due, and what of it may start

    @cached_property
    def _agenda(self) -> Agenda:
        return Agenda(self._ready_queue(), self._clock.now(), self._settings.node.window)

    def _ready_queue(self) -> FairQueue[Entry]:
        settings = self._settings
        reserved = settings.node.reserved_slots
        return FairQueue(
            LaneRound(
                {Lane[name]: weight for name, weight in settings.sharing.lane_weights.items()}
            ),
            timedelta(seconds=settings.sharing.aging_seconds),
            SlotShares(settings.node.slots - reserved, reserved, settings.sharing.tenant_share),
            self._directory.weight,
            self._directory.others_than,
        )

    @cached_property
    def _scanner(self) -> Scanner:
        flows = self._permits.flows
        scanner = Scanner(self._store, self._agenda, self._clock, self._settings.node, flows)
        scanner.unsure = self._signals.look.set
        return scanner

    @cached_property
    def _permits(self) -> Permits:
        wake = self._signals.ready.set
        return Permits(self._directory, self._agenda, self._held, self._clock, wake)

    @cached_property
    def _breakers(self) -> BreakerCheck:
        store = PostgresBreakers(self._database, self._lease.incarnation, self._name)
        ready = self._signals.ready.set
        return BreakerCheck(
            self._agenda, self._clock, store, ready, self._emit, self._troubles, self._rules
        )

    @cached_property
    def _pool(self) -> Pool:
        settings = self._settings
        return Pool(
            tenants=frozenset(settings.node.serve_tenants),
            types=frozenset(settings.node.serve_types),
            queues=frozenset(settings.node.serve_queues),
            lanes=frozenset(Lane[name] for name in settings.node.serve_lanes),
        )

    @cached_property
    def _checks(self) -> StartChecks:
        checks: list[StartCheck] = [self._breakers, self._permits]
        room = self._callers.least_room
        if room < self._settings.node.slots:
            checks.append(
                PlaceCheck(self._place_of, self._agenda, self._signals.ready.set, int(room))
            )
        if self._pool != EVERYTHING:
            checks.append(PoolCheck(self._pool, self._permits.flows))
        return StartChecks(checks)

    def _place_of(self, target: Target) -> Place | None:
        """What a task must have before it is claimed. Where there are no more slots than places,
        nobody waits for one."""
        place = self._callers.of(target).place(target)
        return None if place is None or place.room >= self._settings.node.slots else place

    # What starts tasks, runs them and records how they ended

    @cached_property
    def _dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self._store,
            self._planning,
            self._agenda,
            self._scanner,
            self._pipe,
            self._lease,
            self._clock,
            self._settings.node.batch,
            self._emit,
            self._checks,
            preemption=Preemption(self._pipe, self._runner, self._clock, self._emit),
            troubles=self._troubles,
            held=self._held,
        )

    @cached_property
    def _held(self) -> HeldTasks:
        processes, slots = self._settings.targets.quarantine_processes, self._settings.node.slots
        return HeldTasks(SuspectRoom(processes, slots, self._takes_suspects))

    @cached_property
    def _pipe(self) -> MemoryPipe:
        settings = self._settings
        return MemoryPipe(
            settings.node.slots,
            self._signals.made_room,
            settings.node.prefetch,
            settings.node.reserved_slots,
        )

    @cached_property
    def _runner(self) -> Runner:
        settings = self._settings
        return Runner(
            self._callers,
            self._payload,
            self._clock,
            settings.node.payload_memory_bytes,
            # The other half is for the claim to reach a slot, and for the report to be written.
            patience=settings.node.timeout_grace_seconds / 2,
            emit=self._emit,
            checks=self._checks,
        )

    async def _begin(self, incarnation: UUID, claimed: Sequence[Delivery]) -> set[TaskKey]:
        return await self._troubles.noting("begin", self._store.begin(incarnation, claimed))

    async def _payload(self, key: TaskKey) -> bytes | None:
        return await self._troubles.noting("payload", self._store.payload(key), about_task(key))

    @cached_property
    def _worker(self) -> Worker:
        starter = Starter(self._begin)
        slots = self._settings.node.slots
        return Worker(self._pipe, self._runner, starter, self._lease, self._clock, slots)

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder(
            self._store,
            self._pipe,
            self._dispatcher,
            self._scanner,
            self._clock,
            chance,
            self._troubles,
            worker=self._name,
            horizon_seconds=self._settings.node.horizon_seconds,
            on_ended=self._ended,
        )

    def _ended(self, jobs: Iterable[TaskKey]) -> None:
        self._planner.ended(jobs)
        self._signals.ended.set()

    # What keeps the rest going

    @cached_property
    def _planner(self) -> Planner:
        return Planner(
            self._planning,
            self._scanner,
            self._clock,
            self._settings.node,
            self._troubles,
            self._emit,
        )

    @cached_property
    def _permit_keeper(self) -> PermitKeeper:
        return PermitKeeper(
            PostgresLimits(self._database),
            self._permits,
            self._agenda,
            self._held,
            self._pipe,
            self._clock,
            self._lease.incarnation,
            self._troubles,
        )

    @cached_property
    def _sweeper(self) -> Sweeper:
        held, worker = self._held, self._worker
        return Sweeper(self._store, held, worker, self._lease, self._clock, chance, self._troubles)

    @cached_property
    def _accountant(self) -> Accountant:
        return Accountant(self._agenda, self._runner, self._clock, self._emit)

    @cached_property
    def _watchdog(self) -> Watchdog:
        watch = PostgresWatch(self._database, self._settings.node.timeout_grace_seconds)
        return Watchdog(watch, self._chores, self._lease, self._clock, self._emit, self._troubles)

    @cached_property
    def _pruner(self) -> Pruner:
        return Pruner(
            self._chores,
            self._lease,
            self._settings.database,
            self._clock,
            self._emit,
            self._troubles,
        )

    @cached_property
    def _storage_counter(self) -> StorageCounter:
        return StorageCounter(
            PostgresStorage(self._database, self._clock),
            self._chores,
            self._lease,
            self._directory,
            self._clock,
            self._troubles,
        )

    @cached_property
    def _room_watch(self) -> RoomWatch:
        store = PostgresRoom(self._database, self._settings.database.data_dir)
        return RoomWatch(store, self._settings.database, self._clock, self._lease.incarnation)

    @cached_property
    def _trouble_keeper(self) -> TroubleKeeper:
        process = str(self._lease.incarnation)
        store = PostgresTroubles(self._database, process, self._name)
        return TroubleKeeper(self._troubles, store, self._clock)
