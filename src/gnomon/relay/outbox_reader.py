"""An outbox in PostgreSQL: rows are taken in their order, and removed once they are submitted."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import asyncpg

from gnomon.store.postgres.database import PoolerConnection

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]

# One relay works at a time, so that tasks keep their order; others wait for its end.
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('gnomon_outbox'))"
MOST_BODY = 4 * 1024 * 1024  # bytes of a task: far more than is ever accepted
_TAKE = """\
SELECT position, id, CASE WHEN octet_length(body::text) <= $2 THEN body::text END AS body
FROM gnomon_outbox
WHERE refused IS NULL
ORDER BY position
LIMIT $1
FOR UPDATE"""
_REMOVE = "DELETE FROM gnomon_outbox WHERE position = ANY ($1::bigint[])"
_REFUSE = """\
UPDATE gnomon_outbox AS o SET refused = r.why
FROM unnest($1::bigint[], $2::text[]) AS r (position, why)
WHERE o.position = r.position"""


class OutboxRow(NamedTuple):
    """A task that waits. `id` is its idempotency key."""

    position: int
    id: UUID
    body: str | None  # JSON; None: it is too large to be read


class TakenRows:
    """Rows that nobody else takes before this transaction ends."""

    def __init__(self, connection: "Connection", rows: Sequence[OutboxRow]) -> None:
        self.rows = rows
        self._connection = connection

    async def submitted(self, rows: Sequence[OutboxRow]) -> None:
        """Remove them."""
        await self._connection.execute(_REMOVE, [row.position for row in rows])

    async def refused(self, reasons: Mapping[int, str]) -> None:
        """Set aside those that will never be accepted, by position."""
        if reasons:
            await self._connection.execute(_REFUSE, [*reasons], [*reasons.values()])


class OutboxReader:
    """Connects when it is asked, and again after an error."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None

    @asynccontextmanager
    async def taken(self, most: int) -> AsyncIterator[TakenRows]:
        """The first rows; none while another relay works. What is not said of them by the end of
        the block is rolled back where it raises."""
        connection = await self._connected()
        try:
            async with connection.transaction():
                rows: list[OutboxRow] = []
                if await connection.fetchval(_LOCK):
                    rows = [
                        OutboxRow(*row) for row in await connection.fetch(_TAKE, most, MOST_BODY)
                    ]
                yield TakenRows(connection, rows)
        except BaseException:
            self._drop()
            raise

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=5)
            self._connection = None

    async def _connected(self) -> "Connection":
        if self._connection is None or self._connection.is_closed():
            # As if a pooler were in between, whether or not: unnamed statements, and no setting
            # but those of a transaction.
            self._connection = await asyncpg.connect(
                self._dsn,
                timeout=10,
                command_timeout=60,
                statement_cache_size=0,
                connection_class=PoolerConnection,
            )
        return self._connection

    def _drop(self) -> None:
        """A connection that something went wrong on is not used again."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
