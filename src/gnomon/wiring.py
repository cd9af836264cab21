"""The composition root: builds the processes out of their parts, and runs them."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import asyncpg
import structlog

from gnomon.clock import Clock, SystemClock, chance, new_incarnation
from gnomon.fair import FairQueue, LaneRound, Slots
from gnomon.model.addresses import AddressGuard
from gnomon.model.errors import LeaseLost, StoreUnavailable
from gnomon.model.lane import Lane
from gnomon.model.pool import EVERYTHING, Pool
from gnomon.model.target import HttpTarget, PythonTarget, Target
from gnomon.model.task import TaskKey
from gnomon.observe.events import Observer, fan_out, to_log
from gnomon.observe.metrics import NodeMetrics
from gnomon.pipe.memory import MemoryPipe
from gnomon.scheduler.accountant import Accountant
from gnomon.scheduler.admission import Admission, Admissions
from gnomon.scheduler.agenda import Agenda
from gnomon.scheduler.breakers import RULES, Breakers, Rules
from gnomon.scheduler.dispatcher import Dispatcher
from gnomon.scheduler.keeper import LeaseKeeper
from gnomon.scheduler.node import Node, Signals
from gnomon.scheduler.permit_keeper import PermitKeeper
from gnomon.scheduler.permits import Permits
from gnomon.scheduler.planner import Planner
from gnomon.scheduler.preemption import Preemption
from gnomon.scheduler.pruner import Pruner
from gnomon.scheduler.recorder import Recorder
from gnomon.scheduler.roster import Roster
from gnomon.scheduler.scanner import Scanner
from gnomon.scheduler.serving import Serving
from gnomon.scheduler.sweeper import Sweeper
from gnomon.scheduler.thief import Thief
from gnomon.scheduler.watchdog import Watchdog
from gnomon.settings import Settings
from gnomon.store.directory import Directory, plans_of
from gnomon.store.port import Entry
from gnomon.store.postgres import migrate, partitions
from gnomon.store.postgres.breakers import PostgresBreakers
from gnomon.store.postgres.database import Database, connect, translated
from gnomon.store.postgres.directory import PostgresDirectory
from gnomon.store.postgres.dispatching import PostgresDispatch
from gnomon.store.postgres.events import PostgresWatch
from gnomon.store.postgres.hints import Listener
from gnomon.store.postgres.limits import PostgresLimits
from gnomon.store.postgres.nodes import LeaseConnection, PostgresChores, PostgresRoster
from gnomon.store.postgres.recurring import PostgresPlanning
from gnomon.worker.gate import Gates
from gnomon.worker.lease import Lease
from gnomon.worker.runner import Runner
from gnomon.worker.starter import Starter
from gnomon.worker.targets import Caller
from gnomon.worker.targets.http import HttpCaller, signing_key
from gnomon.worker.targets.python import PythonCaller, load_functions
from gnomon.worker.worker import Worker

log = structlog.get_logger("gnomon")

Started = Callable[[str], None]
Callers = dict[type[Target], Caller]

_REJOIN_SECONDS = 1.0


async def prepare(dsn: str) -> None:
    """Bring the schema up to date, and make sure that today has its partitions."""
    connection = await connect(dsn)
    try:
        with translated():
            for step in await migrate.up(connection):
                log.info("migrated", version=step.version, name=step.name)
            await _partitions(connection)
    finally:
        connection.terminate()


async def _partitions(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    now = await connection.fetchval("SELECT gnomon.now()")
    await partitions.make(connection, now.date())


async def run_api(
    settings: Settings, dsn: str, on_started: Started, stop: asyncio.Event | None = None
) -> None:
    """Serve the API until SIGTERM or SIGINT (or `stop`)."""
    # A node has no use for a web framework, which takes longer to import than all the rest.
    from gnomon.api.serve import serve

    stop = stop or _stop_on_signals()
    await prepare(settings.direct_database_url or dsn)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve(settings, dsn, SystemClock(), on_started))
        stopping = group.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        stopping.cancel()


async def run_node(
    settings: Settings,
    dsn: str,
    on_started: Started,
    stop: asyncio.Event | None = None,
    rules: Rules = RULES,
) -> None:
    """Serve as a node until SIGTERM or SIGINT (or `stop`). A node that was declared dead begins
    a new life at once."""
    stop = stop or _stop_on_signals()
    _calm_the_collector()
    await prepare(settings.direct_database_url or dsn)
    metrics = NodeMetrics()
    with metrics.served(settings):
        await _live(settings, dsn, fan_out(metrics, to_log), on_started, stop, rules)


async def _live(
    settings: Settings,
    dsn: str,
    emit: Observer,
    on_started: Started,
    stop: asyncio.Event,
    rules: Rules,
) -> None:
    """One life after the other."""
    while not stop.is_set():
        try:
            async with _node(settings, dsn, SystemClock(), emit, rules) as (
                node,
                listener,
                keeper,
            ):
                on_started(node.name)
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(listener.run())
                    await node.run(keeper, stop)
                    listening.cancel()
        except* LeaseLost:
            log.warning("beginning a new life after being declared dead")
        except* StoreUnavailable as away:
            log.warning("the roster cannot be joined yet", why=str(away.exceptions[0]))
            await SystemClock().wait(stop, _REJOIN_SECONDS)


@asynccontextmanager
async def _node(
    settings: Settings, dsn: str, clock: Clock, emit: Observer, rules: Rules
) -> AsyncIterator[tuple[Node, Listener, LeaseKeeper]]:
    """A node that has joined the roster, and what speaks to it from outside of its loop."""
    async with AsyncExitStack() as stack:
        database = Database(dsn, settings.database_connections, settings.direct_database_url)
        await database.open()
        stack.push_async_callback(database.close)
        callers = await _callers(stack, settings, clock)
        tenants = PostgresDirectory(database, with_schemas=False)
        directory = Directory(tenants, clock, plans_of(settings))
        await directory.load()
        node = _assemble(settings, database, callers, clock, emit, directory, rules)
        await node.join()
        listener = Listener(
            database.direct, clock, node.heard_due, node.heard_cancel, settings.scan_seconds
        )
        renewal = LeaseConnection(database.direct)
        keeper = LeaseKeeper(node.lease, renewal, clock, node.heard_lost)
        yield node, listener, keeper


async def _callers(stack: AsyncExitStack, settings: Settings, clock: Clock) -> Callers:
    key = signing_key(settings.webhook_secret) if settings.webhook_secret else None
    guard = AddressGuard(settings.targets_allow) if settings.authentication else None
    http = HttpCaller(clock, key, settings.connections_per_host, guard)
    python = PythonCaller(load_functions(settings.functions), settings.threads)
    await stack.enter_async_context(http)
    stack.enter_context(python)
    return {HttpTarget: http, PythonTarget: python}


def _assemble(
    settings: Settings,
    database: Database,
    callers: Callers,
    clock: Clock,
    emit: Observer,
    directory: Directory,
    rules: Rules,
) -> Node:
    name = settings.node_name or f"{socket.gethostname()}:{os.getpid()}"
    signals = Signals()
    lease = Lease(new_incarnation(), settings.node_lease_seconds)
    store = PostgresDispatch(database, settings.timeout_grace_seconds)
    roster_store = PostgresRoster(database)
    agenda = Agenda(_ready_queue(settings, directory), clock.now(), settings.window)
    permits = Permits(directory, agenda, clock, signals.ready.set)
    scanner = Scanner(store, agenda, clock, settings, permits.flows)
    scanner.unsure = signals.look.set
    pool = _pool(settings)
    breaker_store = PostgresBreakers(database, lease.incarnation, name)
    breakers = Breakers(agenda, clock, breaker_store, signals.ready.set, emit, rules)
    pipe = MemoryPipe(settings.slots, signals.made_room, settings.prefetch, settings.reserved_slots)
    runner = Runner(
        callers,
        store.payload,
        clock,
        settings.payload_memory_bytes,
        # The other half is for the claim to reach a slot, and for the report to be written.
        patience=settings.timeout_grace_seconds / 2,
        emit=emit,
        gate=Gates([breakers, permits]),
    )
    planning = PostgresPlanning(database, clock, settings.timeout_grace_seconds, directory.limiters)
    planner = Planner(planning, scanner, clock, settings, emit)
    dispatcher = Dispatcher(
        store,
        planning,
        agenda,
        scanner,
        pipe,
        lease,
        clock,
        settings.batch,
        emit,
        Admissions(_doors(breakers, permits, pool)),
        preemption=Preemption(pipe, runner, clock, emit),
    )
    chores = PostgresChores(database)
    watch = PostgresWatch(database, settings.timeout_grace_seconds)
    worker = Worker(pipe, runner, Starter(store.begin), lease, clock, settings.slots)
    recorder = Recorder(
        store,
        pipe,
        dispatcher,
        scanner,
        clock,
        chance,
        worker=name,
        horizon_seconds=settings.horizon_seconds,
        on_ended=_ended(planner, signals),
    )
    return Node(
        settings=settings,
        clock=clock,
        lease=lease,
        signals=signals,
        roster_store=roster_store,
        roster=Roster(roster_store, lease, clock),
        agenda=agenda,
        scanner=scanner,
        dispatcher=dispatcher,
        thief=Thief(store, scanner, dispatcher, chance, settings),
        worker=worker,
        recorder=recorder,
        planner=planner,
        sweeper=Sweeper(store, dispatcher, worker, lease, clock, chance),
        pruner=Pruner(chores, lease, settings),
        watchdog=Watchdog(watch, chores, lease, clock, emit),
        accountant=Accountant(agenda, runner, clock, emit),
        directory=directory,
        breakers=breakers,
        pool=pool,
        permits=PermitKeeper(
            PostgresLimits(database), permits, agenda, dispatcher, pipe, clock, lease.incarnation
        ),
        name=name,
    )


def _doors(breakers: Breakers, permits: Permits, pool: Pool) -> list[Admission]:
    doors: list[Admission] = [breakers, permits]
    return doors if pool == EVERYTHING else [*doors, Serving(pool, permits.flows)]


def _pool(settings: Settings) -> Pool:
    return Pool(
        tenants=frozenset(settings.serve_tenants),
        types=frozenset(settings.serve_types),
        queues=frozenset(settings.serve_queues),
        lanes=frozenset(Lane[name] for name in settings.serve_lanes),
    )


def _ready_queue(settings: Settings, directory: Directory) -> FairQueue[Entry]:
    reserved = settings.reserved_slots
    return FairQueue(
        LaneRound({Lane[name]: weight for name, weight in settings.lane_weights.items()}),
        timedelta(seconds=settings.aging_seconds),
        Slots(settings.slots - reserved, reserved, settings.tenant_share),
        directory.weight,
        directory.others_than,
    )


def _ended(planner: Planner, signals: Signals) -> Callable[[Iterable[TaskKey]], None]:
    def ended(jobs: Iterable[TaskKey]) -> None:
        planner.ended(jobs)
        signals.ended.set()

    return ended


def _calm_the_collector() -> None:
    """Tens of thousands of short-lived records a second make cycles of none of them; looking for
    cycles among them at every 700th costs more than running the tasks."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
