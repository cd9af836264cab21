"""The partitions of what is finished: which there are, and how the days ahead are made.

A day's partition holds the ids of one UTC day, or its fires. What lies before the days that are
kept is covered by few wide partitions: `old`, from the beginning of time, and those between days
that are still needed (`gap`). A partition is made stand-alone and then attached, which takes no
lock that a reader or writer has to wait for. Next: `old_partitions`, how they go.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.ids import created_at, lowest_id

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

DAYS_AHEAD = 8
# Parent table and the column it is cut by; payloads, executions and entries of the ledger follow
# their task.
PARENTS = {
    "task_archive": "id",
    "task_payload": "task_id",
    "execution": "task_id",
    "occurrence": "fire_at",
}
DAY = timedelta(days=1)
# Only other changes of the schema and vacuum are waited for, and nobody else waits behind.
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
# Any fixed number will do that nothing else in the database uses.
_LOCK = 0x676E6F6D6F70
# Only what we have marked is dropped: somebody may have detached a partition to keep it.
MARK = "gnomon: past retention, to be dropped"
NOT_NOW = (
    TimeoutError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # another of the parent is pending
    asyncpg.UndefinedTableError,  # somebody else was faster
)
_BOUNDS = re.compile(r"FOR VALUES FROM \('?(.*?)'?\) TO \('?(.*?)'?\)")


class Partition(msgspec.Struct, frozen=True):
    """A partition of a parent, from its first day (None: all before the last) up to its end."""

    parent: str
    name: str
    first: date | None
    end: date
    pending: bool = False  # it is on its way out: new statements see it no more

    @property
    def is_day(self) -> bool:
        return self.name.removeprefix(f"{self.parent}_").split("_")[0].isdigit()


def day_bounds(day: date, parent: str = "task_archive") -> tuple[str, str]:
    """Where a day begins and ends in the column that its parent is cut by."""
    return bound(day, parent), bound(day + DAY, parent)


def bound(day: date, parent: str) -> str:
    """Where a day begins in the column that its parent is cut by."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start.isoformat() if parent == "occurrence" else str(lowest_id(start))


def partition_name(parent: str, day: date) -> str:
    return f"{parent}_{day:%Y%m%d}"


async def make(connection: "asyncpg.Connection[Any]", today: date) -> list[str]:
    """Make the partitions up to a week ahead, without a gap; gives the new days.

    Days begin with yesterday. What is not covered before it may have ids from plain SQL, and fires
    that are made up for long afterwards: that gets a gap partition.
    """
    made = []
    for parent in PARENTS:
        for first, end in holes(await listed(connection, parent), today + (DAYS_AHEAD + 1) * DAY):
            yesterday = max(today - DAY, first or date.min)
            if first is None or first < yesterday:
                await cover(connection, parent, first, min(end, yesterday))
            for day in days(yesterday, end):
                name = partition_name(parent, day)
                if await attach(connection, Partition(parent, name, day, day + DAY)):
                    made.append(name)
    return made


async def days_ahead(connection: "asyncpg.Connection[Any] | Connection", today: date) -> int:
    """For how many days from today on, without a gap, all partitions exist."""
    existing = {p.name for parent in PARENTS for p in await listed(connection, parent)}
    count = 0
    while all(partition_name(p, today + count * DAY) in existing for p in PARENTS):
        count += 1
    return count


async def waiting(connection: "asyncpg.Connection[Any]") -> list[str]:
    """Partitions on their way out, which wait for old transactions to end."""
    known = [p for parent in PARENTS for p in await listed(connection, parent)]
    return [partition.name for partition in known if partition.pending]


async def listed(
    connection: "asyncpg.Connection[Any] | Connection", parent: str
) -> list[Partition]:
    """The partitions of a parent, oldest first."""
    rows = await connection.fetch(
        """
        SELECT c.relname::text AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds,
            i.inhdetachpending AS pending
        FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = ('gnomon.' || $1)::regclass
        """,
        parent,
    )
    found = [Partition(parent, name, *_days(bounds), pending) for name, bounds, pending in rows]
    return sorted(found, key=lambda p: p.end)


def holes(partitions: Sequence[Partition], until: date) -> Iterator[tuple[date | None, date]]:
    """The ranges that no partition covers, up to `until`."""
    at: date | None = None
    for partition in partitions:
        first = partition.first
        if first is not None and (at is None or first > at):
            yield at, first
        at = partition.end
    if at is None or at < until:
        yield at, until


def days(first: date, end: date) -> Iterator[date]:
    return (first + n * DAY for n in range((end - first).days))


async def cover(
    connection: "asyncpg.Connection[Any]", parent: str, first: date | None, end: date
) -> None:
    """Give a place to what lies before the days, or between those that are kept. Not in the ledger
    while a part of it is detached: what is needed in that comes back first, or else a fire could be
    entered twice."""
    if parent == "occurrence" and await marked(connection, parent):
        return
    await attach(connection, wide(parent, first, end))


def wide(parent: str, first: date | None, end: date) -> Partition:
    """A partition for what lies before the days, or between those that are kept."""
    name = f"{parent}_old" if first is None else f"{parent}_gap_{first:%Y%m%d}"
    return Partition(parent, name, first, end)


async def attach(connection: "asyncpg.Connection[Any]", new: Partition) -> bool:
    """Make a partition. False where another process was faster."""
    column = PARENTS[new.parent]
    low = "MINVALUE" if new.first is None else f"'{bound(new.first, new.parent)}'"
    high = f"'{bound(new.end, new.parent)}'"
    after = "" if new.first is None else f"{column} >= {low} AND "
    async with connection.transaction():
        await lock(connection)
        if any(_meet(new, other) for other in await listed(connection, new.parent)):
            return False
        if new.name in await marked(connection, new.parent):
            # What it holds is looked at once more before it is dropped, under another name.
            oid = await connection.fetchval(f"SELECT 'gnomon.{new.name}'::regclass::oid")
            await connection.execute(f"ALTER TABLE gnomon.{new.name} RENAME TO {new.name}_{oid}")
        # The CHECK spares ATTACH its scan.
        await connection.execute(
            f"""
            CREATE TABLE gnomon.{new.name} (
                LIKE gnomon.{new.parent} INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
                CONSTRAINT day CHECK ({after}{column} < {high})
            );
            ALTER TABLE gnomon.{new.parent} ATTACH PARTITION gnomon.{new.name}
                FOR VALUES FROM ({low}) TO ({high});
            ALTER TABLE gnomon.{new.name} DROP CONSTRAINT day;
            """
        )
    return True


async def lock(connection: "asyncpg.Connection[Any]") -> None:
    """One process at a time makes or drops partitions, until the end of its transaction."""
    await connection.execute(_LOCK_TIMEOUT)
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)


async def marked(connection: "asyncpg.Connection[Any]", parent: str) -> list[str]:
    """Tables that were detached from a parent to be dropped."""
    rows = await connection.fetch(
        """
        SELECT c.relname::text AS name
        FROM pg_class AS c
        WHERE c.relnamespace = 'gnomon'::regnamespace AND c.relkind = 'r'
          AND starts_with(c.relname::text, $2 || '_')
          AND obj_description(c.oid, 'pg_class') = $1
          AND NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = c.oid)
        """,
        MARK,
        parent,
    )
    return [row["name"] for row in rows]


def _meet(one: Partition, other: Partition) -> bool:
    starts = (p.first or date.min for p in (one, other))
    return max(starts) < min(one.end, other.end)


def _days(bounds: str) -> tuple[date | None, date]:
    found = _BOUNDS.fullmatch(bounds)
    assert found is not None, f"partitions have two bounds, not {bounds}"
    end = _day(found[2])
    assert end is not None, "no partition is without end"
    return _day(found[1]), end


def _day(text: str) -> date | None:
    """The day that begins at a bound."""
    if text == "MINVALUE":
        return None
    if "-" in text[:8]:  # a time
        return datetime.fromisoformat(text).astimezone(UTC).date()
    return created_at(UUID(text)).date()
