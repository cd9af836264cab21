"""A webhook receiver that reports every call, and fails calls on request."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import msgspec
from aiohttp import web

from gnomon.clock import Clock
from gnomon.file_limit import raise_file_limit
from gnomon.model.tasks.task import DEFAULT_TENANT

# Whether a tenant's call with these headers and this body, at that time, is signed; None: unknown.
Check = Callable[[str, Mapping[str, str], bytes, datetime], Awaitable[bool | None]]

MAX_BODY_BYTES = 64 * 1024 * 1024
STOP_SECONDS = 1.0


class Behaviour(msgspec.Struct, frozen=True):
    """How to answer."""

    fail: int = 0  # so many first calls of each task
    status: int = 503  # with this
    delay: float = 0.0  # seconds before any answer


class ReceivedCall(msgspec.Struct, frozen=True):
    """One received call, and how it was answered."""

    at: datetime
    method: str
    path: str
    webhook_id: str | None
    tenant: str | None
    attempt: int | None
    delay_seconds: float | None  # after gnomon-scheduled-for
    signature: str | None  # ok, BAD, or None where nothing was checked
    answered: int
    body: str


class Summary(msgspec.Struct, frozen=True):
    """Totals of a receiver."""

    calls: int
    tasks: int
    duplicates: int  # calls for a task that had been answered with success before


class Receiver:
    """Answers every path. Knows which tasks it has seen, and which it has accepted."""

    def __init__(
        self,
        behaviour: Behaviour,
        check: Check,
        clock: Clock,
        show: Callable[[ReceivedCall], None],
    ) -> None:
        self._behaviour = behaviour
        self._check = check
        self._clock = clock
        self._show = show
        self._calls = 0
        self._duplicates = 0
        self._seen: Counter[str] = Counter()
        self._accepted: set[str] = set()

    @property
    def summary(self) -> Summary:
        return Summary(self._calls, len(self._seen), self._duplicates)

    async def receive(self, request: web.Request) -> web.Response:
        now = self._clock.now()
        body = await request.read()
        webhook_id = request.headers.get("webhook-id")
        self._calls += 1
        answer = self._answer(webhook_id)
        if self._behaviour.delay:
            await self._clock.sleep(self._behaviour.delay)
        if webhook_id is not None and answer < 300:
            self._accepted.add(webhook_id)
        signature = await self._signature(request, body, now)
        self._show(_call(request, body, now, answer, signature))
        return web.Response(status=answer)

    def _answer(self, webhook_id: str | None) -> int:
        if webhook_id is None:
            return 200
        self._seen[webhook_id] += 1
        if webhook_id in self._accepted:
            self._duplicates += 1
        return self._behaviour.status if self._seen[webhook_id] <= self._behaviour.fail else 200

    async def _signature(self, request: web.Request, body: bytes, now: datetime) -> str | None:
        if "webhook-id" not in request.headers:
            return None
        tenant_id = request.headers.get("gnomon-tenant", DEFAULT_TENANT)
        good = await self._check(tenant_id, request.headers, body, now)
        return None if good is None else "ok" if good else "BAD"


def _call(
    request: web.Request, body: bytes, now: datetime, answer: int, signature: str | None
) -> ReceivedCall:
    attempt = request.headers.get("gnomon-attempt", "")
    return ReceivedCall(
        at=now,
        method=request.method,
        path=request.path_qs,
        webhook_id=request.headers.get("webhook-id"),
        tenant=request.headers.get("gnomon-tenant"),
        attempt=int(attempt) if attempt.isdecimal() else None,
        delay_seconds=_delay(request.headers.get("gnomon-scheduled-for"), now),
        signature=signature,
        answered=answer,
        body=body.decode(errors="replace"),
    )


async def serve(receiver: Receiver, port: int, on_started: Callable[[str], None]) -> None:
    """Receive on the loopback address until SIGINT or SIGTERM."""
    raise_file_limit()  # a node may call a thousand times at once
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", receiver.receive)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        on_started(f"http://127.0.0.1:{runner.addresses[0][1]}/")
        await stop.wait()
    finally:
        await runner.cleanup()


def _delay(scheduled_for: str | None, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(scheduled_for or "")).total_seconds()
    except (ValueError, TypeError):
        return None
