"""The API process: listens, owns its pool and its background work, ends in order. And the same
application within a process that submits for itself."""

import asyncio
import importlib.util
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from functools import partial

import msgspec
from litestar.types import ASGIApp

from gnomon.access.principal import Principal
from gnomon.api.app import create_app
from gnomon.api.auth.authentication import TrustedCaller
from gnomon.api.context import Context
from gnomon.api.http.answers.answering import AccessLog, Answering
from gnomon.api.http.answers.request_meter import RequestMeter
from gnomon.api.http.bounds.connections import AddressLimit, Connections
from gnomon.api.http.bounds.dropping import Dropping
from gnomon.api.http.bounds.refusals import MOST_WAITING
from gnomon.api.http.bounds.under_way import RequestsUnderWay, requests_at_once
from gnomon.api.http.listener import HttpServer, listen, room_for_connections
from gnomon.api.workers.pipe_listener import PipeBounds, PipeListener
from gnomon.chores import Chores, Service, TroubleKeeper, Troubles, every
from gnomon.chores.keeping import EVERY_SECONDS as TROUBLE_SECONDS
from gnomon.clock import Clock, new_incarnation
from gnomon.dashboard import routes as dashboard
from gnomon.model.errors import TenantNotFound
from gnomon.model.fleet.tenant import BUILT_IN_PLANS
from gnomon.observe.tally import ActivityTally
from gnomon.settings import Settings, SettingsError
from gnomon.store.activity_writer import CHORE as ACTIVITY
from gnomon.store.activity_writer import EVERY_SECONDS as ACTIVITY_SECONDS
from gnomon.store.activity_writer import ActivityWriter
from gnomon.store.crowd_watch import LOOK_SECONDS as CROWD_SECONDS
from gnomon.store.crowd_watch import CrowdWatch
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.crowding.crowding import CHORE as CROWDING
from gnomon.store.postgres.crowding.crowding import PostgresCrowding
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.troubles import PostgresTroubles
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.identity.installation import agreed
from gnomon.store.postgres.identity.role_grants import tell_rules
from gnomon.store.postgres.usage.room import PostgresRoom
from gnomon.store.room_watch import LOOK_SECONDS as ROOM_SECONDS
from gnomon.store.room_watch import RoomWatch
from gnomon.store.tenant_cache import LOOK_SECONDS, plans_of
from gnomon.usecases.tasks.live_handlers import LOOK_SECONDS as HANDLER_SECONDS
from gnomon.wiring.aligning import align
from gnomon.wiring.api_assembly import ApiAssembly
from gnomon.wiring.tracing import traced

ALIGN_SECONDS = 30.0
STOP_SECONDS = 5.0
_DIRECT_CONNECTIONS = 4  # many processes may submit for themselves


async def serve(
    settings: Settings,
    dsn: str,
    clock: Clock,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serve until cancelled. `on_started` is told the URL once requests are answered."""
    settings = await agreed(settings, dsn)
    await _tell_rules(settings, dsn)
    _check_pipe(settings)
    with closing(listen(settings)) as listener:
        most = room_for_connections(settings)
        requests = requests_at_once(most)
        async with _context(settings, dsn, clock, requests) as context:
            host, port = listener.getsockname()[:2]
            url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            connections = _connections(listener, most, context)
            app = RequestsUnderWay(
                create_app(context, [*dashboard.ROUTES]),
                context.under_way,
                context.bodies,
                requests,
                context.limits,
                Dropping(context.bodies, context.refusals),
                connections,
            )
            metered = RequestMeter(app, context.metrics.traffic, clock)
            answering = Answering(metered, new_incarnation(), _access_log(settings, clock))
            server = HttpServer(answering, listener, most, settings)
            with connections.watched():
                await _answer_requests(server, url, on_started, partial(_end_waits, context))


def _access_log(settings: Settings, clock: Clock) -> AccessLog | None:
    output = settings.output
    if not output.access_log and output.log_level != "debug":
        return None
    return AccessLog(clock.monotonic, is_wanted=output.access_log)


def _end_waits(context: Context) -> None:
    """Ends the requests that would last: nobody has to wait for them."""
    context.live.close()
    context.feed.close()
    context.transitions.close()
    context.ends.close()
    context.run_ends.close()
    context.batch_ends.close()
    context.gateway.stop()


def _connections(listener: socket.socket, most: int, context: Context) -> Connections:
    # However few connections there are in all, others have some of them, too.
    of_address = max(min(context.settings.api.address_connections, most // 2), 1)
    return Connections(
        listener,
        most,
        context.clock,
        context.under_way,
        context.bodies.end_slow,
        AddressLimit(of_address, context.limits.addresses),
        context.metrics.closed,
    )


async def _tell_rules(settings: Settings, dsn: str) -> None:
    """What is submitted by gnomon.submit is held to the settings of those who serve."""
    database = Database(dsn, 1)
    await database.open()
    try:
        plans = {**BUILT_IN_PLANS, **plans_of(settings.sharing)}
        api = settings.api
        await tell_rules(database, plans, api.max_payload_bytes, api.idempotency_seconds)
    finally:
        await database.close()


@asynccontextmanager
async def direct_api(
    settings: Settings, dsn: str, clock: Clock, by: Principal
) -> AsyncIterator[ASGIApp]:
    """The application for this process alone, without a listener: every request is of `by`. The
    database has to be prepared. Raises TenantNotFound."""
    settings = await agreed(settings, dsn)
    # Limits are for callers from outside, and checks of the installation for those who serve it.
    unlimited = msgspec.structs.replace(settings.api, unlimited_addresses=("127.0.0.0/8",))
    connections = min(settings.database.connections, _DIRECT_CONNECTIONS)
    database = msgspec.structs.replace(settings.database, connections=connections)
    settings = msgspec.structs.replace(settings, api=unlimited, database=database)
    requests = requests_at_once(settings.api.connections)
    trusted = TrustedCaller(by)
    async with _context(settings, dsn, clock, requests, trusted) as context:
        if not context.directory.knows(by.tenant_id):
            raise TenantNotFound(by.tenant_id)
        try:
            yield RequestsUnderWay(
                create_app(context),
                context.under_way,
                context.bodies,
                requests,
                context.limits,
                Dropping(context.bodies, context.refusals),
            )
        finally:
            context.ends.close()
            context.run_ends.close()
            context.batch_ends.close()


@asynccontextmanager
async def _context(
    settings: Settings,
    dsn: str,
    clock: Clock,
    requests: int,
    trusted: TrustedCaller | None = None,
) -> AsyncIterator[Context]:
    database = Database(dsn, settings.database.connections)
    await database.open()
    try:
        await align(database, clock)
        announcer = Announcer(dsn, clock, settings.node.horizon_seconds)
        activity = ActivityWriter(ActivityTally(clock), PostgresActivity(database))
        assembly = ApiAssembly(settings, database, announcer, activity, clock, requests)
        context, gateway = await assembly.context(trusted), assembly.gateway
        chores = Chores(clock, Troubles(clock, context.metrics))
        services = _services(context, database, announcer)
        services.append(every(ACTIVITY, activity.run_once, clock, ACTIVITY_SECONDS))
        if trusted is None:
            services += _installation_services(context, database, chores)
        try:
            async with (
                traced(settings.tracing, context.metrics) as tracing,
                asyncio.TaskGroup() as group,
            ):
                context = msgspec.structs.replace(context, tracing=tracing)
                if trusted is None and settings.pipe.url is not None:
                    services.append(_pipe(context, requests, chores.troubles))
                background = [group.create_task(chores.run(each)) for each in services]
                serving = group.create_task(gateway.run())
                try:
                    yield context
                finally:
                    gateway.stop()
                    await asyncio.wait([serving], timeout=STOP_SECONDS)
                    for task in (*background, serving):
                        task.cancel()
        finally:
            await activity.finish()
    finally:
        await database.close()


def _services(context: Context, database: Database, announcer: Announcer) -> list[Service]:
    clock = context.clock
    services = [
        Service("announce", announcer.run),
        Service("batcher", context.batcher.run),
        Service("ends", context.ends.look, context.ends.rest),
        Service("run-ends", context.run_ends.look, context.run_ends.rest),
        Service("batch-ends", context.batch_ends.look, context.batch_ends.rest),
        Service("live", context.live.look, context.live.rest),
        Service("feed", context.feed.look, context.feed.rest),
        Service("transitions", context.transitions.look, context.transitions.rest),
        every("directory", context.directory.load, clock, LOOK_SECONDS),
        every("handlers", context.handlers.load, clock, HANDLER_SECONDS),
        every("align", partial(align, database, clock), clock, ALIGN_SECONDS),
    ]
    if context.authenticator is not None:
        services.append(Service("authenticate", context.authenticator.run))
    return services


def _installation_services(context: Context, database: Database, chores: Chores) -> list[Service]:
    """What a process that serves the installation does for it."""
    settings, clock = context.settings, context.clock
    room = RoomWatch(
        PostgresRoom(database, settings.database.data_dir),
        settings.database,
        clock,
        new_incarnation(),
    )
    crowding = CrowdWatch(
        PostgresCrowding(database), settings.sharing, context.directory, clock, new_incarnation()
    )
    troubles = _trouble_keeper(chores, database, clock)
    return [
        every("room", room.run_once, clock, ROOM_SECONDS),
        every(CROWDING, crowding.run_once, clock, CROWD_SECONDS, yields=True),
        every("troubles", troubles, clock, TROUBLE_SECONDS),
    ]


def _check_pipe(settings: Settings) -> None:
    """Raises SettingsError where the broker cannot be used, or where anybody who can reach it would
    be let in."""
    pipe = settings.pipe
    if pipe.url is None:
        return
    place = pipe.place
    if importlib.util.find_spec(place.client) is None:
        raise SettingsError(
            f"pipe.url is set, and needs {place}: pip install 'gnomon[server,{place}]'"
        )
    if not settings.auth.enabled and not pipe.is_local:
        raise SettingsError(
            f"pipe.url is {pipe.where}, but without authentication workers are heard only through "
            f"a {place.label} on this machine; set auth.enabled to true (GNOMON_AUTH_ENABLED=true)"
        )


def _pipe(context: Context, requests: int, troubles: Troubles) -> Service:
    """Answers workers behind a broker, as they are answered over HTTP."""
    app = RequestsUnderWay(
        create_app(context, [*dashboard.ROUTES]),
        context.under_way,
        context.bodies,
        requests,
        context.limits,
        Dropping(context.bodies, context.refusals),
    )
    metered = RequestMeter(app, context.metrics.traffic, context.clock)
    settings = context.settings
    # Those that wait for a refusal are no requests in progress, and keep no others out.
    bounds = PipeBounds(requests + MOST_WAITING, settings.api.body_memory_bytes)
    place = settings.pipe.place
    seen = partial(context.metrics.pipe_seen, place)
    listener = PipeListener(metered, settings.pipe, context.clock, troubles, seen, bounds)
    return Service(place.chore, listener.run)


async def _answer_requests(
    server: HttpServer,
    url: str,
    on_started: Callable[[str], None] | None,
    on_stopping: Callable[[], None],
) -> None:
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve())
        try:
            await server.started.wait()
            if on_started is not None:
                on_started(url)
            await asyncio.shield(serving)
        finally:
            on_stopping()
            # Stops accepting, and waits for the requests under way, but not for ever.
            server.stop()  # type: ignore[no-untyped-call]
            await asyncio.wait([serving], timeout=STOP_SECONDS)
            serving.cancel()


def _trouble_keeper(
    chores: Chores, database: Database, clock: Clock
) -> Callable[[], Awaitable[object]]:
    name = f"{socket.gethostname()}:{os.getpid()}"
    store = PostgresTroubles(database, f"api {new_incarnation()}", f"API {name}")
    return TroubleKeeper(chores.troubles, store, clock).run_once
