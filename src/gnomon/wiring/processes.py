"""The composition root: builds the processes out of their parts, and runs them."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
import msgspec
import structlog

from gnomon.access.webhook_secret import secret_bytes
from gnomon.chores import Service
from gnomon.clock import Clock, SystemClock, new_id, new_incarnation
from gnomon.file_limit import raise_file_limit
from gnomon.loop import unless
from gnomon.model.errors import LeaseLost, StoreError
from gnomon.node.dispatch.breaker_check import RULES, BreakerRules
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.node.node import Node
from gnomon.node.run.process_pool import ProcessPool
from gnomon.node.run.quarantine.pool import Quarantine
from gnomon.node.run.resolver import Resolver
from gnomon.node.run.targets import Callers, MayBegin
from gnomon.node.run.targets.allowed import AllowedCaller
from gnomon.node.run.targets.extra import ClosableCaller, ExtraCaller
from gnomon.node.run.targets.handlers import HandlerCaller
from gnomon.node.run.targets.http import HttpCaller
from gnomon.node.run.targets.mail import Mailer
from gnomon.node.run.targets.notification import NotificationCaller
from gnomon.node.run.targets.python import PythonCaller
from gnomon.node.run.targets.queue.caller import QueueCaller
from gnomon.node.run.targets.queue.publisher import QueuePublisher
from gnomon.node.run.targets.signing import Signatory
from gnomon.node.run.targets.workflow import WorkflowCaller
from gnomon.observe.events import Observer, fan_out, to_log
from gnomon.observe.failure_log import FailureLog
from gnomon.observe.health import NodeHealth
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.tally import ActivityTally
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.loading import load_app, path_of
from gnomon.sdk.errors import AppNotLoaded
from gnomon.settings import Settings, SettingsError
from gnomon.store.activity_writer import ActivityWriter
from gnomon.store.guards import Guards
from gnomon.store.postgres import migrate
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.database import DISPATCHING, Database, connect
from gnomon.store.postgres.dispatch.execution_starts import execution_start
from gnomon.store.postgres.dispatch.roster import LeaseConnection
from gnomon.store.postgres.hints import Listener
from gnomon.store.postgres.identity.installation import PostgresInstallation
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.identity.webhook_secrets import give_default
from gnomon.store.postgres.notify.notifier_store import PostgresChannels
from gnomon.store.postgres.refusals import translated
from gnomon.store.postgres.retention import partitions
from gnomon.store.tenant_cache import TenantCache, plans_of
from gnomon.wiring.aligning import align
from gnomon.wiring.node import Assembly
from gnomon.wiring.node_inputs import NodeInputs, Served
from gnomon.wiring.run_process import calm_the_collector, stop_on_signals
from gnomon.wiring.tracing import traced
from gnomon.wiring.worker import AppRegistrar
from gnomon.wiring.workflow_fires import CalledStore, workflow_fires

if TYPE_CHECKING:
    from gnomon.observe.tracing import Tracing

log = structlog.get_logger("gnomon")

Started = Callable[[str], None]

_REJOIN_SECONDS = 1.0


async def prepare(dsn: str, webhook_secret: str | None = None) -> None:
    """Bring the schema up to date, and make sure that today has its partitions, and the tenant
    `default` its webhook secret: the one given, where it has none yet."""
    connection = await connect(dsn)
    try:
        with translated():
            for migration in await migrate.up(connection):
                log.info("migrated", version=migration.version, name=migration.name)
            await connection.execute("SELECT gnomon.keep_pages()")
            await _partitions(connection)
            await _first_secret(connection, webhook_secret)
    finally:
        connection.terminate()


async def _prepared(settings: Settings, dsn: str, stop: asyncio.Event) -> bool:
    """Prepare the database. A migration can wait for minutes, so a stop ends that: False."""
    preparing = prepare(settings.database.direct_url or dsn, settings.targets.webhook_secret)
    return await unless(stop.wait(), preparing)


async def _first_secret(
    connection: "asyncpg.Connection[asyncpg.Record]", given: str | None
) -> None:
    try:
        if given is not None:
            secret_bytes(given)
    except ValueError as error:
        raise SettingsError(f"targets.webhook_secret cannot be used: {error}") from error
    made = await give_default(connection, new_id(SystemClock().now()), given)
    if made and given is not None:
        log.info("the setting targets.webhook_secret is now the first secret of the tenant default")
    if made is None:
        log.warning(
            "the setting targets.webhook_secret is not used: the tenant default has other secrets "
            "in the database; unset it, and see `gnomon secrets`"
        )


async def _partitions(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    now = await connection.fetchval("SELECT gnomon.now()")
    await partitions.make(connection, now.date())


async def run_api(
    settings: Settings, dsn: str, on_started: Started, stop: asyncio.Event | None = None
) -> None:
    """Serve the API until SIGTERM or SIGINT (or `stop`)."""
    # A node has no use for a web framework, which takes longer to import than all the rest.
    from gnomon.wiring.api import serve

    def calmly_started(url: str) -> None:
        _calm_the_collector_of_the_api()
        on_started(url)

    stop = stop or stop_on_signals()
    if not await _prepared(settings, dsn, stop):
        return
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve(settings, dsn, SystemClock(), calmly_started))
        stopping = group.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        stopping.cancel()


async def run_node(
    settings: Settings,
    dsn: str,
    on_started: Started,
    stop: asyncio.Event | None = None,
    rules: BreakerRules = RULES,
    listeners: Sequence[Observer] = (),
    app: Gnomon | None = None,
    served: Served | None = None,
) -> None:
    """Serve as a node until SIGTERM or SIGINT (or `stop`). A node that was declared dead joins
    again at once, as a new incarnation. `listeners` are told every event, like metrics and log. It
    runs the handlers of `app`, which is the one that the setting `node.app` names unless given.
    `served` is what it runs, if not all webhooks and these handlers."""
    app, settings = _with_app(settings, app)
    app.database = app.database or settings.database.handler_url
    served = served or Served(handlers=frozenset(app.handlers))
    stop = stop or stop_on_signals()
    raise_file_limit()  # each webhook that is under way has a connection
    calm_the_collector()
    if not await _prepared(settings, dsn, stop):
        return
    metrics, health = NodeMetrics(), NodeHealth(SystemClock(), stop)
    emit = fan_out(metrics, to_log, FailureLog(SystemClock().monotonic), *listeners)
    with metrics.served(settings.output, health), health.beating():
        async with app.running():
            await _live(settings, dsn, emit, on_started, health, rules, app, served)


def _with_app(settings: Settings, app: Gnomon | None) -> tuple[Gnomon, Settings]:
    """The app, and the settings with the path by which child processes find it."""
    path = settings.node.app
    if app is None and path is None:
        return Gnomon(), settings
    if app is None:
        assert path is not None
        try:
            return load_app(path), settings
        except AppNotLoaded as error:
            raise SettingsError(f"node.app cannot be used: {error}") from error
    if path is not None and _leads_to(path, app):
        return app, settings  # another path might leave out what that module does before
    path = path_of(app)
    if path is None:
        log.warning(
            "the app is no attribute of a module: no child process can import it, so tasks whose "
            "node died are left to other nodes, and handlers with process=True fail"
        )
    node = msgspec.structs.replace(settings.node, app=path)
    return app, msgspec.structs.replace(settings, node=node)


def _leads_to(path: str, app: Gnomon) -> bool:
    try:
        return load_app(path) is app
    except AppNotLoaded:
        return False


async def _live(
    settings: Settings,
    dsn: str,
    emit: Observer,
    on_started: Started,
    health: NodeHealth,
    rules: BreakerRules,
    app: Gnomon,
    served: Served,
) -> None:
    """One incarnation after the other."""
    stop = health.stop
    while not stop.is_set():
        try:
            async with joined_node(settings, dsn, SystemClock(), emit, rules, app, served) as (
                node,
                listener,
                keeper,
            ):
                health.lease = node.membership.lease
                on_started(node.name)
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(node.chores.run(Service("listen", listener.run)))
                    await node.run(keeper, stop)
                    listening.cancel()
        except* LeaseLost:
            health.lease = None
            log.warning("rejoining as a new incarnation: the old lease expired")
        except* StoreError as errors:
            health.lease = None
            log.warning("the roster cannot be joined yet", why=str(errors.exceptions[0]))
            await SystemClock().wait(stop, _REJOIN_SECONDS)


@asynccontextmanager
async def joined_node(
    settings: Settings,
    dsn: str,
    clock: Clock,
    emit: Observer,
    rules: BreakerRules,
    app: Gnomon,
    served: Served,
) -> AsyncIterator[tuple[Node, Listener, LeaseKeeper]]:
    """A node that has joined the roster, and what speaks to it from outside of its loop."""
    async with AsyncExitStack() as stack:
        of = settings.database
        database = Database(dsn, of.connections, of.direct_url, reserved=DISPATCHING)
        await database.open()
        stack.push_async_callback(database.close)
        await PostgresInstallation(database).agree(settings.auth.enabled)
        activity = ActivityWriter(ActivityTally(clock), PostgresActivity(database))
        stack.push_async_callback(activity.finish)
        emit = fan_out(emit, activity.tally)
        tenants = PostgresTenantReader(database, with_secrets=True)
        directory = TenantCache(tenants, clock, plans_of(settings.sharing))
        await directory.load()
        lease = Lease(new_incarnation(), settings.node.lease_seconds)
        quarantine = await stack.enter_async_context(Quarantine(settings, clock, lease, emit))
        store = CalledStore(database, directory, activity.tally.submitted)
        processes = await stack.enter_async_context(ProcessPool(settings, clock, lease, emit))
        may_begin = _trust(lease, clock)
        threads = settings.targets.threads
        python = stack.enter_context(PythonCaller(app, threads, may_begin))
        handlers = HandlerCaller(app, python, processes, quarantine)
        publisher = QueuePublisher(settings.targets.queues)
        stack.push_async_callback(publisher.close)
        callers = await _callers(stack, settings, store, handlers, publisher, clock, may_begin)
        tracing = await stack.enter_async_context(traced(settings.tracing, emit))
        if tracing is not None:
            callers = _traced_callers(callers, tracing, database, clock, may_begin)
        registrar = None
        if served.registers:
            inserted = activity.tally.submitted
            registrar = AppRegistrar(app, settings, database, directory, clock, inserted)
        inputs = NodeInputs(
            settings, database, callers, quarantine.is_open, directory, clock, emit, rules,
            activity, served, registrar, quarantine.killers, publisher,
        )  # fmt: skip
        await align(database, clock)  # the agenda begins at this time
        assembly = Assembly(inputs, lease)
        node = assembly.node()
        await node.membership.join()
        listener = _listener(assembly, database, clock, settings)
        renewal = LeaseConnection(database.direct)
        keeper = LeaseKeeper(lease, renewal, clock, node.on_lease_lost, emit)
        yield node, listener, keeper


def _listener(assembly: Assembly, database: Database, clock: Clock, settings: Settings) -> Listener:
    return Listener(
        database.direct,
        clock,
        assembly.on_due,
        assembly.on_cancel,
        settings.node.scan_seconds,
        assembly.on_steps,
    )


def _trust(lease: Lease, clock: Clock) -> MayBegin:
    return lambda: lease.is_trusted(clock.monotonic())


async def _callers(
    stack: AsyncExitStack,
    settings: Settings,
    store: CalledStore,
    handlers: HandlerCaller,
    publisher: QueuePublisher,
    clock: Clock,
    may_begin: MayBegin,
) -> Callers:
    directory, channels = store.directory, PostgresChannels(store.database)
    guards = Guards(directory, settings.targets.allow)
    signatory = Signatory(directory, clock)
    names, room = Resolver(clock), settings.targets.connections_per_host
    http = HttpCaller(clock, signatory, room, guards.of, names, may_begin)
    grpc = ExtraCaller("grpc", partial(_grpc, clock, names, guards, settings, may_begin), room)
    await stack.enter_async_context(http)
    await stack.enter_async_context(grpc)
    queue = QueueCaller(clock, signatory, publisher, room, may_begin)
    allowed = AllowedCaller(http, directory)
    mailer, heartbeat_url = Mailer(settings.notify, clock, may_begin), settings.notify.heartbeat_url
    return Callers(
        http=allowed,
        grpc=AllowedCaller(grpc, directory),
        queue=AllowedCaller(queue, directory),
        python=AllowedCaller(handlers, directory),
        notification=NotificationCaller(channels, allowed, mailer, heartbeat_url, may_begin),
        workflow=WorkflowCaller(workflow_fires(store, settings, guards, clock)),
    )


def _grpc(
    clock: Clock, names: Resolver, guards: Guards, settings: Settings, may_begin: MayBegin
) -> Callable[[], ClosableCaller]:
    from gnomon.node.run.targets.grpc.caller import GrpcCaller

    return partial(GrpcCaller, clock, names, guards.of, settings.targets, may_begin)


def _traced_callers(
    callers: Callers, tracing: "Tracing", database: Database, clock: Clock, may_begin: MayBegin
) -> Callers:
    from gnomon.node.run.targets.traced import TracedCaller

    start_of = partial(execution_start, database)
    http, grpc, queue, python = (
        TracedCaller(caller, tracing, clock, start_of, may_begin)
        for caller in (callers.http, callers.grpc, callers.queue, callers.python)
    )
    return Callers(
        http=http,
        grpc=grpc,
        queue=queue,
        python=python,
        notification=callers.notification,
        workflow=callers.workflow,
    )


def _calm_the_collector_of_the_api() -> None:
    """Modules that are loaded by now stay, and objects of a request die with it: there is
    little to find in looking through both at Python's default pace."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
