"""The connections of a process that are kept for claims, settlements and permits."""

from typing import TYPE_CHECKING

import asyncpg

from gnomon.model.errors import StoreExhausted
from gnomon.store.postgres.refusals import translated

if TYPE_CHECKING:
    from asyncpg.pool import Pool, PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]


class Reserve:
    """So many connections of a pool of their own. Nobody waits until one is free: who finds none
    takes any other."""

    def __init__(self, pool: "Pool[asyncpg.Record]", size: int) -> None:
        self.pool = pool
        self.waiting = 0  # who have drawn one that is being opened again
        self._size = size
        self._drawn = 0

    async def draw(self, seconds: float, leaving: int) -> "Connection | None":
        """A connection, within so many seconds, to be given back. None: it cannot be had, or fewer
        than `leaving` others would stay free."""
        if self._drawn + leaving >= self._size:
            return None
        self._drawn += 1
        self.waiting += 1
        try:
            with translated():
                return await self.pool.acquire(timeout=seconds)
        except StoreExhausted:  # its connection was lost, and the server is full
            self._drawn -= 1
            return None
        except BaseException:
            self._drawn -= 1
            raise
        finally:
            self.waiting -= 1

    async def give_back(self, connection: "Connection") -> None:
        try:
            with translated():
                await self.pool.release(connection)
        finally:
            self._drawn -= 1
