"""Idle sessions of remote workers: opened together, they poll and beat until their time is over."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from typing import Any

import aiohttp
import httpx
import msgspec

from gnomon.clock import SystemClock
from gnomon.remote.pipe_transport import PipeTransport
from gnomon.settings import PipeSettings

CONNECTIONS = 10  # to a broker, which the sessions of a process share
_SECRET = "gnomon-session-secret"
_ROOT = "/api/v1/worker-sessions"
_AT_ONCE = 50  # sessions that are being opened
_POLL_SECONDS = 20.0
_PATIENCE = 60.0

Call = Callable[[str, str, dict[str, str], object], Awaitable[bytes]]  # raises what it fails by


class Asked(msgspec.Struct, frozen=True):
    """What is to be held, and where: at an API process, or behind a broker."""

    url: str
    sessions: int
    seconds: float


class Answered(msgspec.Struct):
    """What came of it."""

    opened: int = 0
    polls: int = 0
    failed: int = 0


class _Sessions:
    def __init__(self, asked: Asked) -> None:
        self._few = asyncio.Semaphore(_AT_ONCE)
        self._until = time.monotonic() + asked.seconds
        self.answered = Answered()

    async def hold(self, number: int, call: Call) -> None:
        body = {"name": f"idle-{number}", "handlers": ["noop"], "slots": 1}
        async with self._few:
            session = await self._said(call, "POST", _ROOT, {}, body)
        if session is None:
            return
        self.answered.opened += 1
        headers = {_SECRET: session["secret"]}
        path = f"{_ROOT}/{session['session_id']}"
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(call, path, headers, session["beat_seconds"]))
            group.create_task(self._poll(call, path, headers, session["epoch"]))
        await self._said(call, "DELETE", path, headers, None)

    async def _beat(self, call: Call, path: str, headers: dict[str, str], seconds: float) -> None:
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(min(seconds, left))
            await self._said(call, "POST", f"{path}/beat", headers, {})

    async def _poll(self, call: Call, path: str, headers: dict[str, str], epoch: str) -> None:
        sequence = 0
        while (left := self._until - time.monotonic()) > 0:
            sequence += 1
            waits = min(_POLL_SECONDS, left)
            body = {"sequence": sequence, "epoch": epoch, "slots": 1, "wait_seconds": waits}
            answer = await self._said(call, "POST", f"{path}/poll", headers, body)
            epoch = epoch if answer is None else answer["epoch"]

    async def _said(
        self, call: Call, method: str, path: str, headers: dict[str, str], body: object
    ) -> dict[str, Any] | None:
        self.answered.polls += 1
        try:
            said = await call(method, path, headers, body)
        except (aiohttp.ClientError, httpx.HTTPError, TimeoutError):
            self.answered.failed += 1
            return None
        return msgspec.json.decode(said) if said else {}


@asynccontextmanager
async def _over_http(url: str) -> AsyncIterator[list[Call]]:
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector) as http:

        async def call(method: str, path: str, headers: dict[str, str], body: object) -> bytes:
            async with http.request(method, path, json=body, headers=headers) as response:
                response.raise_for_status()
                return await response.read()

        yield [call]


@asynccontextmanager
async def _behind_a_broker(url: str) -> AsyncIterator[list[Call]]:
    def through(http: httpx.AsyncClient) -> Call:
        async def call(method: str, path: str, headers: dict[str, str], body: object) -> bytes:
            response = await http.request(method, path, json=body, headers=headers)
            return response.raise_for_status().content

        return call

    clock, settings = SystemClock(), PipeSettings(url=url)
    async with AsyncExitStack() as stack:
        calls = []
        for _ in range(CONNECTIONS):
            http = httpx.AsyncClient(
                transport=PipeTransport(settings, clock, b""),
                base_url="http://pipe",
                timeout=_PATIENCE,
            )
            calls.append(through(await stack.enter_async_context(http)))
        yield calls


async def hold(asked: Asked) -> Answered:
    way = _over_http if asked.url.startswith("http") else _behind_a_broker
    async with way(asked.url) as calls:
        sessions = _Sessions(asked)
        async with asyncio.TaskGroup() as group:
            for number, call in zip(range(asked.sessions), cycle(calls), strict=False):
                group.create_task(sessions.hold(number, call))
    return sessions.answered


if __name__ == "__main__":
    answered = asyncio.run(hold(msgspec.json.decode(sys.argv[1], type=Asked)))
    print(msgspec.json.encode(answered).decode())
