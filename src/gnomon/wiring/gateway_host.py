"""The life of a gateway within an API process: it starts with the first session."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from gnomon.chores import Service
from gnomon.clock import Clock, new_incarnation
from gnomon.model.errors import LeaseLost, StoreError
from gnomon.model.session_errors import GatewayUnready
from gnomon.node.dispatch.breaker_check import RULES
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.lease_keeper import LeaseKeeper
from gnomon.node.node import Node
from gnomon.node.remote.desk import SessionDesk
from gnomon.observe.events import Observer, fan_out, nobody, to_log
from gnomon.observe.failure_log import FailureLog
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.observe.metrics.gateway import GatewayMetrics
from gnomon.settings import Settings
from gnomon.store.activity_writer import ActivityWriter
from gnomon.store.postgres.database import DISPATCHING, Database
from gnomon.store.postgres.dispatch.roster import LeaseConnection
from gnomon.store.postgres.hints import Listener
from gnomon.store.tenant_cache import TenantCache
from gnomon.wiring.gateway import GatewayAssembly
from gnomon.wiring.node_inputs import NodeInputs

log = structlog.get_logger("gnomon.gateway")

_READY_SECONDS = 5.0  # that a request waits for the gateway to start
_REJOIN_SECONDS = 1.0


class GatewayHost:
    """The gateway of an API process: started with the first session, and one incarnation after the
    other from then on."""

    def __init__(
        self,
        settings: Settings,
        dsn: str,
        directory: TenantCache,
        activity: ActivityWriter,
        clock: Clock,
        metrics: ApiMetrics,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._dsn = dsn
        self._directory = directory
        self._activity = activity
        self._clock = clock
        self._emit: Observer = nobody
        self._wanted = asyncio.Event()
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._desk: SessionDesk | None = None

    async def desk(self) -> SessionDesk:
        """Raises GatewayUnready."""
        self._wanted.set()
        if self._desk is None and not self._stop.is_set():
            await self._clock.wait(self._ready, _READY_SECONDS)
        if self._desk is None:
            raise GatewayUnready
        return self._desk

    def stop(self) -> None:
        """Answer waiting polls, and end."""
        self._stop.set()
        self._wanted.set()

    async def run(self) -> None:
        """Serve until `stop`."""
        await self._wanted.wait()
        if self._stop.is_set():
            return
        self._emit = fan_out(
            GatewayMetrics(self._metrics.registry),
            self._metrics,
            to_log,
            FailureLog(self._clock.monotonic),
            self._activity.tally,
        )
        while not self._stop.is_set():
            try:
                await self._live()
            except* LeaseLost:
                log.warning("the gateway rejoins as a new incarnation: the old lease expired")
            except* StoreError as errors:
                log.warning("the gateway cannot join yet", why=str(errors.exceptions[0]))
                await self._clock.wait(self._stop, _REJOIN_SECONDS)
            except* Exception:  # the API goes on, and so does the next incarnation
                log.exception("the gateway has failed, and starts again")
                await self._clock.wait(self._stop, _REJOIN_SECONDS)

    async def _live(self) -> None:
        async with self._joined() as (node, assembly, listener, keeper):
            self._desk = assembly.desk
            self._ready.set()
            log.info("the gateway has joined", name=node.name)
            try:
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(node.chores.run(Service("listen", listener.run)))
                    await node.run(keeper, self._stop)
                    listening.cancel()
            finally:
                self._ready.clear()
                assembly.desk.close()
                self._desk = None

    @asynccontextmanager
    async def _joined(
        self,
    ) -> AsyncIterator[tuple[Node, GatewayAssembly, Listener, LeaseKeeper]]:
        async with AsyncExitStack() as stack:
            settings = self._settings
            of = settings.database
            database = Database(self._dsn, of.connections, of.direct_url, reserved=DISPATCHING)
            await database.open()
            stack.push_async_callback(database.close)
            inputs = NodeInputs(
                settings, database, None, _always, self._directory, self._clock, self._emit, RULES,
                self._activity,
            )  # fmt: skip
            lease = Lease(new_incarnation(), settings.node.lease_seconds)
            assembly = GatewayAssembly(inputs, lease)
            node = assembly.node()
            await node.membership.join()
            listener = Listener(
                database.direct,
                self._clock,
                assembly.on_due,
                assembly.on_cancel,
                settings.node.scan_seconds,
                assembly.on_steps,
            )
            renewal = LeaseConnection(database.direct)
            keeper = LeaseKeeper(lease, renewal, self._clock, node.on_lease_lost, self._emit)
            yield node, assembly, listener, keeper


def _always() -> bool:
    return True
