"""An API process's end of a pipe and a worker's, in this process, with an application that answers
every call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from litestar.types import Receive, Scope, Send

from gnomon.api.workers.pipe_listener import PipeBounds, PipeListener
from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_secret
from gnomon.observe.events import nobody
from gnomon.remote.pipe_transport import PipeTransport
from gnomon.settings import PipeSettings

PATH = "/api/v1/worker-sessions/s/poll"


async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
    asked: Any = await receive()
    start: Any = {"type": "http.response.start", "status": 200, "headers": []}
    await send(start)
    body: Any = {"type": "http.response.body", "body": asked["body"]}
    await send(body)


class PipeEnds:
    """What a worker asks by, and what the listener has told."""

    def __init__(self, http: httpx.AsyncClient, troubles: Troubles) -> None:
        self._http = http
        self.troubles = troubles
        self.up: asyncio.Queue[bool] = asyncio.Queue()

    async def ask(self, text: str) -> str:
        """Raises httpx.TransportError."""
        return (await self._http.post(PATH, content=text)).text

    async def answered(self, text: str) -> bool:
        """Whether a call is answered: to be asked until it is."""
        try:
            return await self.ask(text) == text
        except httpx.TransportError:
            return False


@asynccontextmanager
async def pipe_ends(
    url: str, *, worker: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[PipeEnds]:
    """`settings`: of the pipe, for both. `worker`: what the worker has otherwise."""
    clock, namespace = SystemClock(), f"test-{new_secret(8).hex()}"
    shared = {"url": url, "namespace": namespace, "silence_seconds": 2.0, **settings}
    troubles = Troubles(clock, nobody)
    transport = PipeTransport(PipeSettings(**(shared | (worker or {}))), clock, b"")
    async with (
        asyncio.TaskGroup() as group,
        httpx.AsyncClient(transport=transport, base_url="http://pipe", timeout=20) as http,
    ):
        ends = PipeEnds(http, troubles)
        bounds = PipeBounds(1_000, 64 << 20)
        listener = PipeListener(
            echo, PipeSettings(**shared), clock, troubles, ends.up.put_nowait, bounds
        )
        listening = group.create_task(listener.run())
        yield ends
        listening.cancel()
