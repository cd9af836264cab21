"""Nodes in the test's own process, and receivers for their webhooks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.integration.support import submission
from tests.settings import settings_with

from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.task import Submission
from gnomon.node.dispatch.breaker_check import RULES, BreakerRules
from gnomon.observe.events import Observer
from gnomon.wiring.node_inputs import EVERYTHING, Served
from gnomon.wiring.processes import run_node

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

# Quick to look, so that tests are quick; whatever is found late is found, all the same.
SETTINGS = settings_with(
    node_slots=20,
    node_critical_slots=0,  # so that `slots` are for all
    node_prefetch=20,
    node_batch=100,
    node_window=5000,
    node_scan_seconds=0.05,
    node_sweep_seconds=0.1,
    node_lease_seconds=2.0,
    node_drain_seconds=10.0,
    node_timeout_grace_seconds=5.0,
    database_connections=4,
    targets_threads=4,
    targets_webhook_secret=SECRET,
    node_app="tests.integration.handlers:app",
)


class RunningNode:
    """A node that serves until it is stopped."""

    def __init__(self, task: "asyncio.Task[None]", stop: asyncio.Event) -> None:
        self.task = task
        self._stop = stop

    async def kill(self) -> None:
        """End it where it stands: it gives nothing back, and stays in the roster."""
        self.task.cancel()
        await asyncio.wait([self.task])

    def begin_to_stop(self) -> None:
        self._stop.set()

    async def stop(self) -> None:
        """Drain and leave. Raises what the node died of."""
        self._stop.set()
        if not self.task.cancelled():
            await self.task


@asynccontextmanager
async def running_node(dsn: str, **changes: Any) -> AsyncIterator[RunningNode]:
    """A node with these settings changed, and with these `rules` for breakers and `listeners`, if
    any. `served`: what it runs, if not whatever comes."""
    rules: BreakerRules = changes.pop("rules", RULES)
    listeners: Sequence[Observer] = changes.pop("listeners", ())
    served: Served = changes.pop("served", EVERYTHING)
    settings = settings_with(SETTINGS, **changes)
    stop, started = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        run_node(settings, dsn, lambda _: started.set(), stop, rules, listeners, served=served)
    )
    begun = asyncio.create_task(started.wait())
    try:
        await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
        node = RunningNode(task, stop)
        yield node
        await node.stop()
    finally:
        begun.cancel()
        task.cancel()
        await asyncio.gather(task, begun, return_exceptions=True)


class Call:
    """A request that came in."""

    def __init__(self, request: web.Request, body: bytes, at: datetime) -> None:
        self.method = request.method
        self.headers = request.headers.copy()
        self.body = body
        self.at = at  # by the database's clock


Answer = Callable[[web.Request, int], Awaitable[web.StreamResponse]]


class Receiver:
    """Keeps the calls, and answers them as the test wishes."""

    def __init__(self, clock: Callable[[], Awaitable[datetime]]) -> None:
        self._clock = clock
        self.calls: list[Call] = []
        self.url = ""
        self.answer: Answer = ok

    async def receive(self, request: web.Request) -> web.StreamResponse:
        at = await self._clock()
        self.calls.append(Call(request, await request.read(), at))
        return await self.answer(request, len(self.calls))


async def ok(request: web.Request, number: int) -> web.StreamResponse:
    return web.Response(text="ok")


def answers(*responses: int | web.Response) -> Answer:
    """These in turn, the last one for ever."""

    async def answer(request: web.Request, number: int) -> web.StreamResponse:
        chosen = responses[min(number, len(responses)) - 1]
        if isinstance(chosen, int):
            return web.Response(status=chosen)
        return web.Response(status=chosen.status, body=chosen.body, headers=chosen.headers)

    return answer


@asynccontextmanager
async def receiver_on(clock: Callable[[], Awaitable[datetime]]) -> AsyncIterator[Receiver]:
    receiver = Receiver(clock)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.receive)
    async with TestServer(app) as server:
        receiver.url = str(server.make_url("/hook"))
        yield receiver


def call_of(now: datetime, function: str, **values: Any) -> tuple[str, Submission]:
    """A task for a handler in `handlers`, and the name that its calls are kept under."""
    who = uuid4().hex
    values.setdefault("due_in", 0.0)
    payload = msgspec.json.encode({"who": who, **values.pop("payload", {})})
    return who, submission(now, target=PythonTarget(function), payload=payload, **values)


def webhook(now: datetime, receiver: Receiver, **values: Any) -> Submission:
    values.setdefault("due_in", 0.0)
    target = HttpTarget(receiver.url, values.pop("method", "POST"), values.pop("headers", {}))
    return submission(now, target=target, **values)
