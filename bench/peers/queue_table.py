"""A queue in PostgreSQL, seen from outside: how much is unfinished, and what the server used."""

import asyncio
import time

import asyncpg
import msgspec

from bench.peers.port import Reading
from bench.usage import cpu_seconds
from gnomon.bench.results import BenchError

LOOK_SECONDS = 0.005
ALONE_SECONDS = 5.0
# Each update and each delete leaves a dead row; whether vacuum came by meanwhile changes nothing.
_DEAD = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables"
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"


class Statements(msgspec.Struct, frozen=True):
    """How to ask for unfinished jobs."""

    newest: str  # the key of an unfinished one, preferably the last to be taken
    alive: str  # a row if the one with the key $1 is unfinished
    count: str


def statements(table: str, unfinished: str = "true", key: str = "id") -> Statements:
    return Statements(
        f"SELECT {key} FROM {table} WHERE {unfinished} ORDER BY {key} DESC LIMIT 1",
        f"SELECT true FROM {table} WHERE {key} = $1 AND {unfinished}",
        f"SELECT count(*) FROM {table} WHERE {unfinished}",
    )


class QueueTable:
    """The table of one contender."""

    def __init__(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        server_pid: int,
        statements: Statements,
    ) -> None:
        self._connection = connection
        self._server_pid = server_pid
        self._ask = statements

    async def unfinished(self) -> int:
        return int(await self._connection.fetchval(self._ask.count))

    async def settled(self, timeout: float) -> float:
        """Watches one job at a time, by its key: counting would take the processor from what is
        measured."""
        deadline = time.monotonic() + timeout
        while True:
            key = await self._connection.fetchval(self._ask.newest)
            found_at = time.time()
            if key is None:
                return found_at
            while await self._connection.fetchval(self._ask.alive, key):
                if time.monotonic() > deadline:
                    left = await self.unfinished()
                    raise BenchError(f"{left} tasks were unfinished after {timeout:.0f} s")
                await asyncio.sleep(LOOK_SECONDS)

    async def reading(self, *, alone: bool = False) -> Reading:
        deadline = time.monotonic() + ALONE_SECONDS
        while alone and await self._connection.fetchval(_OTHERS):
            if time.monotonic() > deadline:
                raise BenchError("connections of the worker stayed open after its end")
            await asyncio.sleep(LOOK_SECONDS)
        return Reading(
            cpu=cpu_seconds(self._server_pid),
            wal=await self._connection.fetchval(_WAL),
            dead=await self._connection.fetchval(_DEAD),
        )
