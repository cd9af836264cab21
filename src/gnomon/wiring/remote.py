"""A worker without a database, put together: it opens sessions with a gateway, one after the other.

Imports nothing that only the server needs.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import structlog

from gnomon.client.client import Client
from gnomon.client.errors import ApiProblem, ClientError, Conflict, RateLimited, Unavailable
from gnomon.client.http import ApiServer
from gnomon.clock import Clock, SystemClock, chance
from gnomon.file_limit import raise_file_limit
from gnomon.model.errors import LeaseLost
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.node.run.process_pool import ProcessPool
from gnomon.node.run.quarantine.pool import Quarantine
from gnomon.node.run.targets import Caller, Callers
from gnomon.node.run.targets.handlers import HandlerCaller
from gnomon.node.run.targets.python import PythonCaller
from gnomon.observe.events import Observer, fan_out, to_log
from gnomon.observe.failure_log import FailureLog
from gnomon.observe.health import NodeHealth
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.pipe.http.messages import SessionOpened, SessionOpening
from gnomon.remote.gateway_calls import BadAnswer, BeatConnection, GatewayCalls
from gnomon.remote.poller import HeldSession, PollBackoff
from gnomon.remote.polling_worker import PollingWorker
from gnomon.remote.registration import RemoteRegistration
from gnomon.sdk.app import Gnomon
from gnomon.settings import Settings, SettingsError
from gnomon.version import VERSION
from gnomon.wiring.run_process import calm_the_collector, stop_on_signals
from gnomon.wiring.tracing import traced

log = structlog.get_logger("gnomon.worker")

_REGISTER_SECONDS = 5.0
_RETRIED = (Conflict, RateLimited, Unavailable)  # answers after which a session is asked for again


class TransactionalHandler(SettingsError):
    """A handler that completes its task in a transaction needs the database."""


async def run_remote(
    settings: Settings,
    connect: Callable[[], ApiServer],
    on_started: Callable[[str], None],
    app: Gnomon,
    stop: asyncio.Event | None = None,
    listeners: Sequence[Observer] = (),
) -> None:
    """Run the app's handlers until SIGTERM or SIGINT (or `stop`). A session that has ended is
    followed by a new one. `connect` gives the API, with a transport of its own each time where it
    has one. `listeners` hear what the worker takes and ends. Raises ClientError where
    the gateway refuses the first session, and SettingsError."""
    _check(app)
    stop = stop or stop_on_signals()
    raise_file_limit()
    calm_the_collector()
    clock = SystemClock()
    metrics, health = NodeMetrics(), NodeHealth(clock, stop)
    emit = fan_out(metrics, to_log, *listeners)
    tell = fan_out(FailureLog(clock.monotonic), *listeners)
    with metrics.served(settings.output, health), health.beating():
        async with app.running(), asyncio.TaskGroup() as group:
            client = Client.of(connect())
            registering = group.create_task(_registered(app, settings, client))
            parts = _Parts(settings, connect, app, emit, tell)
            await _live(parts, on_started, health)
            registering.cancel()


class _Parts(msgspec.Struct, frozen=True):
    """The same for every session that a process has."""

    settings: Settings
    connect: Callable[[], ApiServer]
    app: Gnomon
    emit: Observer
    tell: Observer

    def request(self) -> SessionOpening:
        node = self.settings.node
        return SessionOpening(
            name=node.name or f"{socket.gethostname()}:{os.getpid()}",
            handlers=tuple(sorted(self.app.handlers)),
            slots=node.slots,
            queues=node.serve_queues or None,
            client=f"gnomon-python/{VERSION}",
        )


def _check(app: Gnomon) -> None:
    names = sorted({h.name for h in app.handlers.values() if getattr(h, "transactional", False)})
    if names:
        raise TransactionalHandler(
            f"a worker without a database cannot run handlers with transactional=True: "
            f"{', '.join(names)}; run them by a worker that has DATABASE_URL"
        )


async def _registered(app: Gnomon, settings: Settings, client: Client) -> None:
    """Tell the API what the app declares, as soon as it answers. Its handlers run meanwhile."""
    registration = RemoteRegistration(app, settings.node.app or "", client)
    clock = SystemClock()
    async with client:
        while True:
            try:
                if await registration.run():
                    return
            except Exception:
                log.exception("the app could not be registered")
                return
            await clock.sleep(_REGISTER_SECONDS)


async def _live(parts: _Parts, on_started: Callable[[str], None], health: NodeHealth) -> None:
    """One session after the other."""
    stop, backoff, first = health.stop, PollBackoff(chance), True
    async with GatewayCalls(parts.connect()) as gateway:
        while not stop.is_set():
            clock = SystemClock()
            opened = await _opened(gateway, parts.request(), health, backoff, clock, first=first)
            if opened is None:
                return
            first = False
            backoff.over()
            session, lease = opened
            try:
                async with _joined(parts, gateway, session, lease, clock) as (worker, keeper):
                    health.lease = lease
                    on_started(f"{gateway.url} as {parts.request().name}")
                    await worker.run(keeper, stop)
            except* LeaseLost:
                log.warning("opening a new session: the old one has ended")
                await clock.wait(stop, backoff.next())
            finally:
                health.lease = None


async def _opened(
    gateway: GatewayCalls,
    request: SessionOpening,
    health: NodeHealth,
    backoff: PollBackoff,
    clock: Clock,
    *,
    first: bool,
) -> tuple[SessionOpened, Lease] | None:
    """A new session, however long that takes; None: the worker is to stop. What the gateway refuses
    the first time ends the worker: its key or its settings are wrong."""
    while not health.stop.is_set():
        asked_at = clock.monotonic()
        try:
            session = await gateway.open(request)
        except (ClientError, BadAnswer) as error:
            if first and isinstance(error, ApiProblem) and not isinstance(error, _RETRIED):
                raise
            pause = backoff.next()
            log.warning(f"no session can be opened, retrying in {pause:.1f} s", why=str(error))
            await clock.wait(health.stop, pause)
            continue
        lease = Lease(session.session_id, session.lease_seconds, session.beat_seconds)
        lease.renewed(asked_at)
        return session, lease
    return None


@asynccontextmanager
async def _joined(
    parts: _Parts, gateway: GatewayCalls, session: SessionOpened, lease: Lease, clock: Clock
) -> AsyncIterator[tuple[PollingWorker, LeaseKeeper]]:
    """A worker of this session, and what renews its lease."""
    settings, emit = _leased(parts.settings, session), parts.emit

    def trusted() -> bool:
        return lease.is_trusted(clock.monotonic())

    async with AsyncExitStack() as stack:
        python = stack.enter_context(PythonCaller(parts.app, settings.targets.threads, trusted))
        quarantine = await stack.enter_async_context(Quarantine(settings, clock, lease, emit))
        processes = await stack.enter_async_context(ProcessPool(settings, clock, lease, emit))
        caller: Caller = HandlerCaller(parts.app, python, processes, quarantine)
        tracing = await stack.enter_async_context(traced(settings.tracing, emit))
        if tracing is not None:
            from gnomon.node.run.targets.traced import TracedCaller

            caller = TracedCaller(caller, tracing, clock, _start_unknown, trusted)
        callers = Callers(
            http=caller,
            grpc=caller,
            queue=caller,
            python=caller,
            notification=caller,
            workflow=caller,
        )
        held = HeldSession(gateway, session, lease)
        worker = PollingWorker(gateway, held, callers, settings, clock, chance, emit)
        worker.poller.use(worker.worker, worker.progress, parts.tell)
        beats = BeatConnection(parts.connect(), session)
        keeper = LeaseKeeper(lease, beats, clock, worker.on_lease_lost, emit)
        yield worker, keeper


def _leased(settings: Settings, session: SessionOpened) -> Settings:
    """The settings with the lease that the gateway gives: child processes end with it."""
    node = msgspec.structs.replace(settings.node, lease_seconds=session.lease_seconds)
    return msgspec.structs.replace(settings, node=node)


async def _start_unknown(*_: object) -> None:
    """When an execution before began is known to the database alone."""
