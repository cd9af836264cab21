"""Large payloads: fetched when their tasks run, as many at once as their bytes allow."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gnomon.chores import Troubles, about_task
from gnomon.model.tasks.task import TaskKey

FetchPayload = Callable[[TaskKey], Awaitable[bytes | None]]


class Payloads:
    """Reads payloads that are kept apart from their tasks. Holders are let in while their bytes
    fit into `memory`, first come first served; one that is larger than all of it, alone."""

    def __init__(self, fetch: FetchPayload, memory: int, troubles: Troubles) -> None:
        self._fetch = fetch
        self._troubles = troubles
        self.memory = memory
        self._used = 0
        self._freed = asyncio.Condition()

    async def fetch(self, key: TaskKey) -> bytes | None:
        return await self._troubles.noting("payload", self._fetch(key), about_task(key))

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait for so many bytes, and hold them."""
        size = min(size, self.memory)
        async with self._freed:
            await self._freed.wait_for(lambda: self._used + size <= self.memory)
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            async with self._freed:
                self._freed.notify_all()
