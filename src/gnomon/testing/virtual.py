"""An app on a virtual clock: days pass in milliseconds, through the real engine.

A real PostgreSQL, the real API, the real node; only time is turned. The clock stands still until
the test advances it, and then goes from one moment at which something is due to the next.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import msgspec

from gnomon.client.client import Client
from gnomon.client.types.tasks import ExecutionInfo, TaskInfo
from gnomon.clock import SystemClock
from gnomon.model.duration import Duration, seconds_of
from gnomon.node.dispatch.breaker_check import RULES
from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import current
from gnomon.sdk.submitting.handle import Handle
from gnomon.settings import Settings
from gnomon.store.postgres.database import connect
from gnomon.store.postgres.hints import Listener
from gnomon.testing import turned_clock
from gnomon.testing.crank import Crank, CrankPace
from gnomon.testing.databases import fresh_database
from gnomon.testing.records import RecordedTask, Records
from gnomon.testing.virtual_api import VirtualAccess, VirtualServer, virtual_link
from gnomon.testing.virtual_clock import VirtualClock
from gnomon.wiring.node_inputs import Served
from gnomon.wiring.processes import joined_node

PATIENCE_SECONDS = 30.0  # of real time: much, as a machine may be busy
_CENTURY = 100 * 365 * 86400.0

AnyTask = Handle[Any] | RecordedTask | TaskInfo | UUID


class VirtualGnomon(Records):
    """The app in a test, and its clock."""

    def __init__(self, app: Gnomon, clock: VirtualClock, database_url: str) -> None:
        super().__init__()
        self.app = app
        self.database_url = database_url
        self._clock = clock
        self._crank: Crank | None = None

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self._clock.now()

    @property
    def client(self) -> Client:
        """For everything else that the API can do."""
        return self.app.client

    async def advance(self, by: Duration | datetime) -> None:
        """Turn the clock on by a duration, or to a moment; on the way everything that becomes due
        is done at its time, and what it submits in turn. Returns at the new time."""
        if isinstance(by, datetime):
            if by.tzinfo is None:
                raise ValueError(f"{by.isoformat()} has no time zone")
            target = by.astimezone(UTC)
        else:
            target = self.now + timedelta(seconds=seconds_of(by))
        if target < self.now:
            raise ValueError(
                f"the clock only goes forward: it is {self.now.isoformat()} already, "
                f"which is after {target.isoformat()}"
            )
        await self._turned().advance(target)

    async def drain(self) -> None:
        """Do everything that is due at this moment, and what that submits in turn."""
        await self._turned().drain()

    async def tasks(self, **filters: Any) -> list[TaskInfo]:
        """All tasks, oldest first; filters are those of the API, such as `status="COMPLETED"`."""
        found = [task async for task in self.client.list_tasks(**filters)]
        return found[::-1]

    async def executions(self, task: AnyTask) -> list[ExecutionInfo]:
        """The executions of a task, oldest first."""
        return [each async for each in self.client.list_executions(_id_of(task))]

    def _turned(self) -> Crank:
        assert self._crank is not None
        if current.get() is not None:
            raise RuntimeError("a handler cannot turn the clock that it runs on")
        return self._crank


@asynccontextmanager
async def virtual_gnomon(
    app: Gnomon,
    *,
    start: datetime | None = None,
    database_url: str | None = None,
    patience: float = PATIENCE_SECONDS,
) -> AsyncIterator[VirtualGnomon]:
    """The app on a virtual clock that begins at `start`, or now. Its database is fresh, unless an
    URL is given: of a database that is migrated, and for this test alone.

    A handler runs in no virtual time. One that takes longer than `patience`, in real seconds, is
    no longer waited for: the clock goes on, and the handler times out when it has reached its
    timeout."""
    async with AsyncExitStack() as stack:
        if database_url is None:
            database_url = await stack.enter_async_context(fresh_database())
        clock = VirtualClock(SystemClock().now() if start is None else _aware(start))
        testing = VirtualGnomon(app, clock, database_url)
        connection = await connect(database_url)
        stack.callback(connection.terminate)
        await turned_clock.hold(cast("Any", connection), clock.now())
        settings = _settings(database_url)
        server = VirtualServer(settings, app.tenant, clock)
        access = VirtualAccess(settings, app.tenant, server)
        link = virtual_link(access, testing.submitted.append, testing.drain)
        stack.push_async_callback(link.close)
        crank, listener = await _crank(stack, app, settings, clock, connection, patience)
        # In this order: the API knows what is registered when it starts, and the lifespan may
        # submit as well.
        await crank.register()
        server.start()
        testing._crank = crank
        stack.enter_context(app.linked(link, clock.now))
        await stack.enter_async_context(app.running())
        await stack.enter_async_context(crank.running(listener.run))
        yield testing


async def _crank(
    stack: AsyncExitStack,
    app: Gnomon,
    settings: Settings,
    clock: VirtualClock,
    connection: Any,
    patience: float,
) -> tuple[Crank, Listener]:
    """A worker of the app that has joined, and its crank."""
    served = Served(handlers=frozenset(app.handlers), registers=True)
    told: list[Crank] = []

    def observe(event: object) -> None:
        for crank in told:
            crank.observe(event)

    dsn = settings.database.url or ""
    node, listener, _ = await stack.enter_async_context(
        joined_node(settings, dsn, clock, observe, RULES, app, served)
    )
    pace = CrankPace(
        timedelta(seconds=settings.node.plan_ahead_seconds),
        settings.node.timeout_grace_seconds,
        patience,
    )
    told.append(Crank(node, clock, connection, sorted(app.handlers), pace))
    return told[0], listener


def _settings(database_url: str) -> Settings:
    """The defaults, but for a lease that no turn of the clock outlives, and for what one test
    needs: no settings of this machine have a say."""
    given = Settings()
    replace = msgspec.structs.replace
    return replace(
        given,
        database=replace(given.database, url=database_url, connections=4),
        node=replace(given.node, name="test", slots=100, prefetch=0, lease_seconds=_CENTURY),
    )


def _aware(start: datetime) -> datetime:
    if start.tzinfo is None:
        raise ValueError(f"start={start.isoformat()} has no time zone")
    return start


def _id_of(task: AnyTask) -> UUID:
    match task:
        case UUID():
            return task
        case Handle():
            return task.id
        case _:
            return task.task_id
