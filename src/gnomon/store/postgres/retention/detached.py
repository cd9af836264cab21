"""Tables that were detached to be dropped: looked at once more, and dropped.

Until the detach began, others could write into a partition that had been looked at: a backfill
enters fires of long ago, say. Into what is detached nobody writes any more. So whatever is found to
be needed in it then comes back, into a wide partition, and nothing is lost with the table.
"""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import structlog

from gnomon.model.ids import created_at
from gnomon.store.postgres.retention.needed import NEEDED, Past, any_needed, live_days
from gnomon.store.postgres.retention.partitions import (
    DAY,
    NOT_NOW,
    PARENTS,
    Partition,
    attach,
    day_bounds,
    holes,
    listed,
    lock,
    marked,
    wide,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]

log = structlog.get_logger("gnomon.store")


async def drop_detached(connection: "Connection", parent: str, name: str, past: Past) -> None:
    """Drop a table that was detached, but for what is needed in it."""
    try:
        oid = await _oid(connection, name)
        if oid is None:
            return
        table = _partition(parent, name)
        needed = await _is_needed(connection, table, past, oid)
        if needed is None:
            return  # the next pass goes on
        async with connection.transaction():
            await lock(connection)
            # Names come back: somebody else may have dropped it, and made another one meanwhile.
            if name not in await marked(connection, parent) or await _oid(connection, name) != oid:
                return
            if needed:
                name = await _give_back(connection, table, past, oid)
            await connection.execute(f"DROP TABLE gnomon.{name}")
    except (*NOT_NOW, asyncpg.CheckViolationError) as error:
        log.info("a detached partition is not dropped yet", partition=name, why=str(error))


async def _oid(connection: "Connection", name: str) -> int | None:
    oid: int | None = await connection.fetchval(
        """
        SELECT oid FROM pg_class
        WHERE relnamespace = 'gnomon'::regnamespace AND relname = $1
        """,
        name,
    )
    return oid


def _partition(parent: str, name: str) -> Partition:
    """The partition that a detached table was. The end of a wide one is no longer known."""
    table = Partition(parent, name, None, date.max)
    if not table.is_day:
        return table
    text = name.removeprefix(f"{parent}_")[:8]
    day = datetime.strptime(text, "%Y%m%d").replace(tzinfo=UTC).date()
    return Partition(parent, name, day, day + DAY)


async def _is_needed(
    connection: "Connection", table: Partition, past: Past, oid: int
) -> bool | None:
    """None where it cannot be said yet."""
    if table.parent in ("task_payload", "execution") and table.is_day:
        if await _is_going(connection, "task_archive"):
            return None  # tasks may come back, and need what follows them
        if not await _has_tasks(connection, table, past):
            return False
    return await any_needed(connection, table, past, detached_as=f"{table.name}/{oid}")


async def _is_going(connection: "Connection", parent: str) -> bool:
    """Whether something of a parent is out of sight, and may be needed."""
    pending = any(partition.pending for partition in await listed(connection, parent))
    return pending or bool(await marked(connection, parent))


async def _has_tasks(connection: "Connection", day: Partition, past: Past) -> bool:
    """Whether there are tasks of a day whose executions and payloads are needed. Mostly there are
    none, which spares a look at each of those."""
    assert day.first is not None, "it is a day"
    if day.first in await live_days(connection, past.cutoff):
        return True
    found: bool = await connection.fetchval(
        """
        SELECT EXISTS (
            SELECT FROM gnomon.task_archive
            WHERE id >= $1::text::uuid AND id < $2::text::uuid AND finished_at >= $3
        )
        """,
        *day_bounds(day.first),
        past.cutoff,
    )
    return found


async def _give_back(connection: "Connection", table: Partition, past: Past, oid: int) -> str:
    """Make a place for what is needed, and put it there, all at once. Gives the name that the table
    has then."""
    await connection.execute(f"LOCK TABLE gnomon.{table.name}")
    end = table.end if table.is_day else await _end(connection, table)
    for first, until in list(holes(await listed(connection, table.parent), end)):
        if first is None or first < end:
            await attach(connection, wide(table.parent, first, min(until, end)))
    name: str = await connection.fetchval("SELECT relname::text FROM pg_class WHERE oid = $1", oid)
    columns = await connection.fetchval(
        """
        SELECT string_agg(quote_ident(c.attname), ', ')
        FROM pg_attribute AS c
        JOIN pg_attribute AS p ON p.attname = c.attname AND p.attnum > 0 AND NOT p.attisdropped
        WHERE c.attrelid = $1::oid AND c.attnum > 0 AND NOT c.attisdropped
          AND p.attrelid = ('gnomon.' || $2)::regclass
        """,
        oid,
        table.parent,
    )
    condition, args = (NEEDED[table.parent], past.args) if table.is_day else ("true", ())
    done = await connection.execute(
        f"INSERT INTO gnomon.{table.parent} ({columns})"  # noqa: S608
        f" SELECT {columns} FROM gnomon.{name} AS p WHERE {condition} ON CONFLICT DO NOTHING",
        *args,
    )
    log.info("rows came back from a detached partition", partition=name, rows=done.split()[-1])
    return name


async def _end(connection: "Connection", table: Partition) -> date:
    """The day after the last that there is a row of."""
    column = PARENTS[table.parent]
    last = await connection.fetchval(
        f"SELECT {column} FROM gnomon.{table.name} ORDER BY {column} DESC LIMIT 1"  # noqa: S608
    )
    moment: datetime = last if table.parent == "occurrence" else created_at(last)
    return moment.astimezone(UTC).date() + DAY
