"""A lock for each of many things, which is there only while somebody wants it."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KeyedLocks:
    """Lets one in at a time for each key."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}  # and how many want it

    @asynccontextmanager
    async def alone(self, key: Hashable) -> AsyncIterator[None]:
        """Wait until nobody else is in for this key."""
        lock, number = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, number + 1
        try:
            async with lock:
                yield
        finally:
            lock, number = self._locks.pop(key)
            if number > 1:
                self._locks[key] = lock, number - 1

    def __len__(self) -> int:
        return len(self._locks)
