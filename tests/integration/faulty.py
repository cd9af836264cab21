"""A real PostgreSQL that refuses chosen statements, and a node that is cranked by hand on it."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, cast

from tests.integration import handlers
from tests.integration.nodes import SETTINGS
from tests.settings import settings_with

from gnomon.breakers.breaker import Rule
from gnomon.clock import SystemClock, new_incarnation
from gnomon.node.dispatch.breaker_check import BreakerRules
from gnomon.node.maintenance.usage_recorder import CHORE as USAGE
from gnomon.node.maintenance.usage_recorder import UsageRecorder
from gnomon.node.membership.lease import Lease
from gnomon.node.node import Node
from gnomon.node.run.targets import Callers
from gnomon.node.run.targets.http import HttpCaller
from gnomon.node.run.targets.python import PythonCaller
from gnomon.observe.events import fan_out
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.tally import ActivityTally
from gnomon.store.activity_writer import ActivityWriter
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.database import DISPATCHING, Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.queries import query, statements
from gnomon.store.tenant_cache import TenantCache
from gnomon.wiring.node import Assembly
from gnomon.wiring.node_inputs import NodeInputs

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# By the error classes that PostgreSQL has for them, and one that nobody has heard of.
CLASSES = {
    "untranslatable character": "22P05",
    "program limit exceeded": "54000",
    "serialization failure": "40001",
    "deadlock": "40P01",
    "out of memory": "53200",
    "disk full": "53100",
    "statement timeout": "57014",
    "unknown": "ZZ999",
}
# One failure opens a host's breaker; a tenant's never opens.
RULES = BreakerRules(host=Rule(share=0.5, calls=1, pause=30.0), tenant=Rule(share=2.0))
_NAMED = re.compile(
    r"""(?:query|fetch|fetchrow|fetchval|execute)\(\s*"(\w+)"|"(\w+)" if overdue else "(\w+)\""""
)
# What a node's chores ask the store through; what these ask in turn is found in them.
_MODULES = (
    "activity.activity", "bulk.bulk_store", "events.dead_letter_counts", "events.event_reader",
    "events.event_log", "events.event_writer", "events.looks",
    "cron.overlap", "cron.planning", "cron.planning_store", "dispatch.breakers",
    "dispatch.dispatch_store", "dispatch.roster", "dispatch.troubles", "identity.tenant_reader",
    "levels.level_store", "levels.stuck_store", "limits.permits", "notify.notifier_store",
    "overview.overview", "retention.expired_rows", "tasks.dead_letters",
)  # fmt: skip
_OF_SESSIONS = ("dispatch.worker_sessions", "dispatch.progress")


@cache
def names() -> Mapping[str, str]:
    """The names of all statements, by their text."""
    return {query(name): name for name in statements()}


def statements_of_a_node() -> set[str]:
    """Every statement that is named where a node's chores speak with the store."""
    return _named_in(_MODULES)


def statements_of_sessions() -> set[str]:
    """Those that a gateway asks about its worker sessions, and no other node does."""
    return _named_in(_OF_SESSIONS) | {"claim_for_sessions"}


def _named_in(modules: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for name in modules:
        path = import_module(f"gnomon.store.postgres.{name}").__file__
        assert path is not None
        for match in _NAMED.findall(Path(path).read_text()):
            found.update(filter(None, match))
    return found & set(names().values())


class Faults:
    """Which statements fail, how, and how often they did."""

    def __init__(self) -> None:
        self.chore = ""  # that is being done
        self.seen: dict[str, str] = {}  # statements, each with a chore that it was asked for in
        self.raised: Counter[str] = Counter()
        self._failing: dict[str, tuple[str, bool]] = {}

    def fail(self, name: str, sqlstate: str, *, once: bool = False) -> None:
        self._failing[name] = (sqlstate, once)

    def lift(self, *names: str) -> None:
        """These fail no more; without names: none does."""
        for name in names or tuple(self._failing):
            self._failing.pop(name, None)

    @contextmanager
    def also(self, name: str, sqlstate: str) -> Iterator[None]:
        """Fail for a while, if it does not anyway."""
        if name in self._failing:
            yield
            return
        self.fail(name, sqlstate)
        yield
        self.lift(name)

    def strike(self, text: str) -> str | None:
        """A statement that fails instead, if this one is to."""
        name = names().get(text)
        if name is None:
            return None
        self.seen[name] = self.chore
        if name not in self._failing:
            return None
        sqlstate, once = self._failing[name]
        self.raised[name] += 1
        if once:
            del self._failing[name]
        return f"DO $$ BEGIN RAISE 'a fault in {name}' USING ERRCODE = '{sqlstate}'; END $$"


class _FaultyConnection:
    """A connection whose server refuses some of the statements, by itself."""

    def __init__(self, connection: "Connection", faults: Faults) -> None:
        self._connection = connection
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def _asked(self, text: str) -> None:
        instead = self._faults.strike(text)
        if instead is not None:
            await self._connection.execute(instead)

    async def fetch(self, text: str, *args: Any) -> Any:
        await self._asked(text)
        return await self._connection.fetch(text, *args)

    async def fetchrow(self, text: str, *args: Any) -> Any:
        await self._asked(text)
        return await self._connection.fetchrow(text, *args)

    async def fetchval(self, text: str, *args: Any) -> Any:
        await self._asked(text)
        return await self._connection.fetchval(text, *args)

    async def execute(self, text: str, *args: Any) -> Any:
        await self._asked(text)
        return await self._connection.execute(text, *args)


class FaultyDatabase(Database):
    """The pool of a node that meets these faults."""

    def __init__(self, dsn: str, faults: Faults) -> None:
        super().__init__(dsn, 6, reserved=DISPATCHING)
        self._faults = faults

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator["Connection"]:
        async with super()._acquired() as connection:
            yield cast("Connection", _FaultyConnection(connection, self._faults))

    @asynccontextmanager
    async def reserved(self, leaving: int = 0) -> AsyncIterator["Connection"]:
        async with super().reserved(leaving) as connection:
            if not isinstance(connection, _FaultyConnection):  # else it is not of the reserve
                connection = cast("Connection", _FaultyConnection(connection, self._faults))
            yield connection


class Cranked:
    """A whole node whose chores are done when the test says so. Only slots and what records their
    reports run by themselves."""

    assembly: Assembly

    def __init__(self, node: Node, faults: Faults, metrics: NodeMetrics) -> None:
        self.node = node
        self.faults = faults
        self.metrics = metrics
        self.ahead = 0.0  # of its own monotonic clock
        self.clock = SystemClock(lambda: time.monotonic() + self.ahead)
        self.background: list[asyncio.Task[None]] = []

    @property
    def lease(self) -> Lease:
        return self.node.membership.lease

    def wait(self, seconds: float) -> None:
        """Let time pass, in which only the lease is renewed."""
        until = self.ahead + seconds
        while self.ahead < until:
            self.ahead += self.lease.ttl / 4
            self.lease.renewed(self.clock.monotonic())

    async def turn(self, times: int = 1, *, prune: bool = False) -> None:
        """Do every chore once. Fails where an error of one would have ended the node."""
        node = self.node
        for _ in range(times):
            self.lease.renewed(self.clock.monotonic())
            for service in node.services:
                name = service.name
                if service.wait is None or (name == "prune" and not prune):
                    continue  # the one runs by itself, the other is rare
                self.faults.chore = name
                await node.chores.run_once(name, service.once)
            await asyncio.sleep(0)  # let the slots have their turn
            ended = [task for task in self.background if task.done()]
            assert not ended, [task.exception() for task in ended]

    def an_hour_passes(self) -> None:
        """For the chore that does something once an hour."""
        service = next(each for each in self.node.services if each.name == USAGE)
        cast("UsageRecorder", cast("MethodType", service.once).__self__).recorded = None

    def errors(self, chore: str) -> float:
        found = self.metrics.registry.get_sample_value(
            "gnomon_chore_errors_total", {"chore": chore}
        )
        return found or 0.0


@asynccontextmanager
async def cranked(
    dsn: str, faults: Faults, assemble: type[Assembly] = Assembly, **changes: Any
) -> AsyncIterator[Cranked]:
    settings = settings_with(SETTINGS, node_steal_seconds=0.2, **changes)
    metrics = NodeMetrics()
    async with AsyncExitStack() as stack:
        crank = Cranked(cast("Node", None), faults, metrics)
        clock = crank.clock
        database = FaultyDatabase(dsn, faults)
        await database.open()
        stack.push_async_callback(database.close)
        http = await stack.enter_async_context(HttpCaller(clock, None, 10))
        python = stack.enter_context(PythonCaller(handlers.app, 2))
        tenants = PostgresTenantReader(database)
        directory = TenantCache(tenants, clock, {})
        await directory.load()
        activity = ActivityWriter(ActivityTally(clock), PostgresActivity(database))
        inputs = NodeInputs(
            settings,
            database,
            Callers(http, http, http, python, http, http),
            lambda: True,
            directory,
            clock,
            fan_out(metrics, activity.tally),
            RULES,
            activity,
        )
        crank.assembly = assemble(inputs, Lease(new_incarnation(), settings.node.lease_seconds))
        crank.node = node = crank.assembly.node()
        await node.membership.join()
        crank.background = [
            asyncio.create_task(node.worker.run()),
            *(
                asyncio.create_task(node.chores.run(service))
                for service in node.services
                if service.wait is None
            ),
        ]
        try:
            yield crank
        finally:
            for task in crank.background:
                task.cancel()
            await asyncio.gather(*crank.background, return_exceptions=True)
