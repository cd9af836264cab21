"""The broker of a world's pipe: what can be done to it, and the proxies of workers to it."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from proof.campaigns.pipe_servers import PipeName, make_pipe_server
from proof.campaigns.proxy import Proxy


class Broker:
    """Entered, it serves."""

    def __init__(self, pipe: PipeName, folder: Path, workers: Sequence[str]) -> None:
        folder.mkdir()
        self._workers = tuple(workers)
        self._server = make_pipe_server(pipe, folder, self._workers)
        self._stack = AsyncExitStack()
        self.proxies: dict[str, Proxy] = {}  # by worker

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        """With the proxies of workers, whose ports a Kafka must know."""
        for name in self._workers:
            proxy = Proxy(("127.0.0.1", self._server.place_of(name)), of_postgres=False)
            self.proxies[name] = await self._stack.enter_async_context(proxy)
        ports = {name: proxy.port for name, proxy in self.proxies.items()}
        self._stack.callback(self._server.kill)
        await asyncio.to_thread(self._server.start, ports)

    def settings(self, port: int | None = None) -> dict[str, object]:
        """Settings of the pipe, by way of another loopback port."""
        return {"pipe_url": self._server.url(port), "pipe_silence_seconds": 1.5}

    async def restart(self, down: float) -> None:
        """`kill -9`, and start it without data after so many seconds."""
        self._server.kill()
        await asyncio.sleep(down)
        await asyncio.to_thread(self._server.restart)

    def cut(self) -> int:
        """Close all connections to it, or all of workers; gives how many there were."""
        count = self._server.cut()
        if count is None:
            count = sum(proxy.cut() for proxy in self.proxies.values())
        return count

    async def fill(self, *, full: bool) -> None:
        await asyncio.to_thread(self._server.fill, full=full)

    def pause(self) -> None:
        self._server.send(signal.SIGSTOP)

    async def heal(self) -> None:
        self._server.send(signal.SIGCONT)
        await self.fill(full=False)
