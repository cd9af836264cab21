"""The daily partitions of what is finished: made ahead, dropped by retention.

A partition holds the ids of one UTC day, or its fires. It is made stand-alone and then attached,
so that no writer waits behind a reader; every step gives up quickly rather than queue for a lock.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg

from gnomon.model.ids import lowest_id

DAYS_AHEAD = 8
# Parent table and the column it is cut by; payloads, tries and entries of the ledger follow their
# task's fate.
PARENTS = {
    "task_archive": "id",
    "task_payload": "task_id",
    "execution": "task_id",
    "occurrence": "fire_at",
}
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
# Any fixed number will do that nothing else in the database uses.
_LOCK = 0x676E6F6D6F70


class _StillNeededError(Exception):
    """Rolls back the dropping of a day that holds a task within retention."""


def day_bounds(day: date, parent: str = "task_archive") -> tuple[str, str]:
    """Where a day begins and ends in the column that its parent is cut by."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    end = start + timedelta(days=1)
    if parent == "occurrence":
        return start.isoformat(), end.isoformat()
    return str(lowest_id(start)), str(lowest_id(end))


def partition_name(parent: str, day: date) -> str:
    return f"{parent}_{day:%Y%m%d}"


async def make(connection: "asyncpg.Connection[Any]", today: date) -> list[str]:
    """Make the partitions up to a week ahead, without a gap; gives the new ones.

    They begin at the oldest that there is: what lies before it belongs to `old`, even yesterday
    where retention is short, and a gap that an idle time left may have ids from plain SQL.
    """
    day = min(await _days(connection), default=today - timedelta(days=1))
    existing = await _existing(connection)
    for parent in PARENTS:
        if partition_name(parent, day) not in existing:
            await _begin_at(connection, parent, day)
    made = []
    while day <= today + timedelta(days=DAYS_AHEAD):
        for parent in PARENTS:
            name = partition_name(parent, day)
            if name not in existing and await _make_one(connection, parent, name, day):
                made.append(name)
        day += timedelta(days=1)
    return made


async def days_ahead(connection: "asyncpg.Connection[Any]", today: date) -> int:
    """For how many days from today on, without a gap, all partitions exist."""
    existing = await _existing(connection)
    days = 0
    while all(partition_name(p, today + timedelta(days=days)) in existing for p in PARENTS):
        days += 1
    return days


async def drop(connection: "asyncpg.Connection[Any]", cutoff: datetime) -> list[str]:
    """Drop every day whose finished tasks all ended before `cutoff`, oldest first; payloads and
    tries of tasks that are still live move to the `old` partitions. Then clear those, too."""
    dropped = []
    for day in await _days(connection):
        if datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1) > cutoff:
            break
        try:
            dropped += await _drop_day(connection, day, cutoff)
        except _StillNeededError:
            break  # `old` takes all ids below its bound, so days go in order
    await _clear_old(connection, cutoff)
    return dropped


async def _existing(connection: "asyncpg.Connection[Any]") -> set[str]:
    rows = await connection.fetch(
        """
        SELECT c.relname
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relnamespace = 'gnomon'::regnamespace
        """
    )
    return {row["relname"] for row in rows}


async def _days(connection: "asyncpg.Connection[Any]") -> list[date]:
    names = (n.removeprefix("task_archive_") for n in await _existing(connection))
    return sorted(
        datetime.strptime(name, "%Y%m%d").replace(tzinfo=UTC).date()
        for name in names
        if name.isdigit()
    )


async def _begin_at(connection: "asyncpg.Connection[Any]", parent: str, day: date) -> None:
    """Give `old` all from before the first day: rows of plain SQL, and fires that are made up for
    long afterwards."""
    low, _ = day_bounds(day, parent)
    async with connection.transaction():
        await _keep_others_out(connection)
        if partition_name(parent, day) in await _existing(connection):
            return
        await connection.execute(
            f"""
            ALTER TABLE gnomon.{parent} DETACH PARTITION gnomon.{parent}_old;
            ALTER TABLE gnomon.{parent} ATTACH PARTITION gnomon.{parent}_old
                FOR VALUES FROM (MINVALUE) TO ('{low}');
            """
        )


async def _keep_others_out(connection: "asyncpg.Connection[Any]") -> None:
    """One process at a time makes partitions, until the end of the transaction."""
    await connection.execute(_LOCK_TIMEOUT)
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)


async def _make_one(
    connection: "asyncpg.Connection[Any]", parent: str, name: str, day: date
) -> bool:
    """False where another process was faster."""
    low, high = day_bounds(day, parent)
    column = PARENTS[parent]
    async with connection.transaction():
        await _keep_others_out(connection)
        if name in await _existing(connection):
            return False
        # The CHECK spares ATTACH its scan.
        await connection.execute(
            f"""
            CREATE TABLE gnomon.{name} (
                LIKE gnomon.{parent} INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
                CONSTRAINT day CHECK ({column} >= '{low}' AND {column} < '{high}')
            );
            ALTER TABLE gnomon.{parent} ATTACH PARTITION gnomon.{name}
                FOR VALUES FROM ('{low}') TO ('{high}');
            ALTER TABLE gnomon.{name} DROP CONSTRAINT day;
            """
        )
    return True


async def _drop_day(
    connection: "asyncpg.Connection[Any]", day: date, cutoff: datetime
) -> list[str]:
    """In one transaction: move what is still needed, drop the rest, widen `old` over the day."""
    names = []
    async with connection.transaction():
        await connection.execute(_LOCK_TIMEOUT)
        for parent in PARENTS:
            _, high = day_bounds(day, parent)
            name, old = partition_name(parent, day), f"{parent}_old"
            names.append(name)
            await connection.execute(
                f"""
                ALTER TABLE gnomon.{parent} DETACH PARTITION gnomon.{name};
                ALTER TABLE gnomon.{parent} DETACH PARTITION gnomon.{old};
                """
            )
            if parent == "task_archive":
                await _check_past(connection, name, cutoff)
            else:
                await connection.execute(
                    f"""
                    INSERT INTO gnomon.{old} SELECT p.* FROM gnomon.{name} p
                    WHERE EXISTS (
                        SELECT FROM gnomon.task t
                        WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id
                    )
                    """  # noqa: S608
                )
            await connection.execute(
                f"""
                ALTER TABLE gnomon.{parent} ATTACH PARTITION gnomon.{old}
                    FOR VALUES FROM (MINVALUE) TO ('{high}');
                DROP TABLE gnomon.{name};
                """
            )
    return names


async def _check_past(
    connection: "asyncpg.Connection[Any]", archive: str, cutoff: datetime
) -> None:
    """Asked under the lock, so that no task can finish into the partition afterwards."""
    young = await connection.fetchval(
        f"SELECT EXISTS (SELECT FROM gnomon.{archive} WHERE finished_at >= $1)",  # noqa: S608
        cutoff,
    )
    if young:
        raise _StillNeededError


async def _clear_old(connection: "asyncpg.Connection[Any]", cutoff: datetime) -> None:
    async with connection.transaction():
        # A fire of long ago that was made up for lately is as old as its task.
        await connection.execute(
            """
            DELETE FROM gnomon.occurrence_old o
            WHERE coalesce(o.task_id < $1, true)
              AND NOT EXISTS (
                SELECT FROM gnomon.task t WHERE t.tenant_id = o.tenant_id AND t.id = o.task_id
            )
            """,
            lowest_id(cutoff),
        )
        await connection.execute(
            "DELETE FROM gnomon.task_archive_old WHERE finished_at < $1", cutoff
        )
        for parent in ("task_payload", "execution"):
            await connection.execute(
                f"""
                DELETE FROM gnomon.{parent}_old o
                WHERE NOT EXISTS (
                    SELECT FROM gnomon.task t WHERE t.tenant_id = o.tenant_id AND t.id = o.task_id
                ) AND NOT EXISTS (
                    SELECT FROM gnomon.task_archive a
                    WHERE a.tenant_id = o.tenant_id AND a.id = o.task_id
                )
                """  # noqa: S608
            )
