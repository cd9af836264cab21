"""Partitions past retention: which are still needed, and how the others go.

Nobody waits for this, and nothing that is kept is moved or hidden:

- A partition that nobody needs is detached concurrently, which waits for old readers without
  standing in anybody's way, and then dropped. What is interrupted in between is finished by the
  next pass, of whichever node.
- One that somebody needs stays. Needed is a day that live tasks were made on (their tries, payloads
  and ends belong there), or that holds a task that ended within retention. A day later, what is not
  needed in it is deleted in batches.
- Neighbours that nobody needs become one wide and empty partition, so that there are few.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.model.ids import lowest_id
from gnomon.store.postgres.partitions import (
    DAY,
    MARK,
    PARENTS,
    Partition,
    cover,
    holes,
    listed,
    marked,
)
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]

log = structlog.get_logger("gnomon.store")

# A task that is made just before midnight is committed by then.
_MARGIN = timedelta(hours=1)
# How long a needed partition is not looked at again.
_LOOK_AGAIN = timedelta(hours=1)
_CLEAR_SECONDS = 20.0
_PAGES = 512
_DETACH_SECONDS = 1.0
# Finishing a detach keeps the partition locked while it waits for old snapshots. Only those see it.
_FINISH_TIMEOUT = "SET LOCAL lock_timeout = '50ms'"
_DROP_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
# One plan for every chunk: its pages, and then by key.
_BY_PAGE = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off"
_BY_PAGE += "; SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off"

_NOT_NOW = (
    TimeoutError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # another of the parent is pending
    asyncpg.UndefinedTableError,  # somebody else was faster
)

# OFFSET: a probe for each, never a join.
_LIVE = """EXISTS (
    SELECT FROM gnomon.task AS t WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id OFFSET 0
)"""
# $1 the end of retention, $2 its lowest id.
_NEEDED = {
    "task_archive": "p.finished_at >= $1 AND $2::uuid IS NOT NULL",
    "task_payload": f"""$1::timestamptz IS NOT NULL AND $2::uuid IS NOT NULL AND (
        {_LIVE} OR EXISTS (
            SELECT FROM gnomon.task_archive AS a
            WHERE a.tenant_id = p.tenant_id AND a.id = p.task_id
            OFFSET 0
        )
    )""",
    # A fire of long ago that was made up for lately is as old as its task.
    "occurrence": f"""$1::timestamptz IS NOT NULL AND coalesce(
        p.task_id >= $2 OR {_LIVE}, false
    )""",
}
_NEEDED["execution"] = _NEEDED["task_payload"]


class Memory:
    """What a pruner remembers of the partitions that are needed, so that it does not look at them
    every minute. All of it can be lost."""

    def __init__(self) -> None:
        self.needed_at: dict[str, datetime] = {}
        self.cleared_at: dict[str, datetime] = {}
        self.page: dict[str, int] = {}  # where clearing goes on


class _Past(msgspec.Struct, frozen=True):
    """What is past retention."""

    cutoff: datetime
    live_days: Collection[date]

    @property
    def args(self) -> tuple[datetime, Any]:
        return self.cutoff, lowest_id(self.cutoff)

    def has_live(self, partition: Partition) -> bool:
        """Of what is cut by the id of a task: whether a live one belongs there."""
        if partition.parent == "occurrence":
            return False  # they are asked for one by one
        first = partition.first or date.min
        return any(first <= day < partition.end for day in self.live_days)


async def drop(
    connection: "Connection", cutoff: datetime, clock: Clock, memory: Memory | None = None
) -> list[str]:
    """Drop what nobody needs of the days that ended before `cutoff`, and clear the others. Gives
    the days that went."""
    memory = memory or Memory()
    await _finish(connection)
    past = _Past(cutoff, await _live_days(connection, cutoff))
    dropped = []
    for parent in PARENTS:
        dropped += await _drop_of(connection, parent, past, memory)
    await _clear(connection, past, clock, memory)
    return dropped


async def _drop_of(connection: "Connection", parent: str, past: _Past, memory: Memory) -> list[str]:
    known = [p for p in await listed(connection, parent) if _has_ended(p, past.cutoff - _MARGIN)]
    going = {p.name for p in known if not await _is_needed(connection, p, past, memory)}
    # The days first: what is left uncovered for a moment is then as little as can be.
    leaving = sorted((p for run in _runs(known, going) for p in run), key=lambda p: not p.is_day)
    dropped = []
    for partition in leaving:
        if not await _detach(connection, partition):
            break
        await _drop_detached(connection, partition.name)
        if partition.is_day:
            dropped.append(partition.name)
    if known:
        await _cover(connection, parent, known[-1].end)
    return dropped


async def _cover(connection: "Connection", parent: str, end: date) -> None:
    for first, until in list(holes(await listed(connection, parent), end)):
        if until <= end:
            await cover(connection, parent, first, until)


def _has_ended(partition: Partition, moment: datetime) -> bool:
    return datetime.combine(partition.end, datetime.min.time(), UTC) <= moment


def _runs(known: Sequence[Partition], going: Collection[str]) -> Iterator[list[Partition]]:
    """Neighbours that all may go; a wide one alone may as well stay."""
    run: list[Partition] = []
    for partition in [*known, None]:
        if partition is not None and partition.name in going and not partition.pending:
            run.append(partition)
            continue
        if len(run) > 1 or any(p.is_day for p in run):
            yield run
        run = []


async def _is_needed(
    connection: "Connection", partition: Partition, past: _Past, memory: Memory
) -> bool:
    if past.has_live(partition):
        return True
    seen = memory.needed_at.get(partition.name)
    if seen is not None and past.cutoff < seen + _LOOK_AGAIN:
        return True
    needed = await _any_needed(connection, partition, past)
    if needed:
        memory.needed_at[partition.name] = past.cutoff
    return needed


async def _any_needed(connection: "Connection", partition: Partition, past: _Past) -> bool:
    """Tries and payloads of a day go with its tasks; what is in a wide partition is asked for."""
    if partition.parent in ("task_payload", "execution") and partition.is_day:
        archive = f"task_archive_{partition.first:%Y%m%d}"
        found = [p for p in await listed(connection, "task_archive") if p.name == archive]
        return any([await _any_needed(connection, p, past) for p in found if not p.pending])
    condition = _NEEDED[partition.parent] if partition.is_day else "true"
    args = past.args if partition.is_day else ()
    for low, high in _chunks(await _pages(connection, partition.name)):
        async with _by_page(connection):
            if await connection.fetchval(
                f"""
                SELECT EXISTS (
                    SELECT FROM gnomon.{partition.name} AS p
                    WHERE p.ctid >= '({low},0)' AND p.ctid < '({high},0)' AND {condition}
                )
                """,  # noqa: S608
                *args,
            ):
                return True
    return False


async def _live_days(connection: "Connection", cutoff: datetime) -> set[date]:
    async with _by_page(connection):
        rows = await connection.fetch(query("live_days"), lowest_id(cutoff))
    return {date(1970, 1, 1) + row["day"] * DAY for row in rows}


# Detaching


async def _detach(connection: "Connection", partition: Partition) -> bool:
    """False where it is not detached yet: somebody still reads it, or may not."""
    may_wait = partition.is_day and partition.parent != "occurrence"
    if not may_wait and await _is_read(connection, partition.parent):
        return False
    try:
        async with connection.transaction():
            await connection.execute(_DROP_TIMEOUT)
            await connection.execute(f"COMMENT ON TABLE gnomon.{partition.name} IS '{MARK}'")
        # In no transaction. It waits for those who may still read the partition, for as long as
        # we let it; nobody waits for it.
        await connection.execute(
            f"ALTER TABLE gnomon.{partition.parent}"
            f" DETACH PARTITION gnomon.{partition.name} CONCURRENTLY",
            timeout=_DETACH_SECONDS,
        )
    except _NOT_NOW as error:
        log.info("a partition is not detached yet", partition=partition.name, why=str(error))
        return False
    return True


async def _is_read(connection: "Connection", parent: str) -> bool:
    """Whether a transaction of some age has a lock on the parent. A detach would wait for it, and
    meanwhile there were no place for fires that are made up for."""
    found: bool = await connection.fetchval(
        """
        SELECT EXISTS (
            SELECT FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
            WHERE l.locktype = 'relation' AND l.relation = ('gnomon.' || $1)::regclass
              AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND coalesce(a.pid <> pg_backend_pid(), true)
              AND coalesce(a.xact_start < clock_timestamp() - interval '0.2 s', true)
        )
        """,
        parent,
    )
    return found


async def _finish(connection: "Connection") -> None:
    """Finish what an earlier pass began and could not end, on whichever node."""
    for parent in PARENTS:
        for partition in await listed(connection, parent):
            if partition.pending:
                await _finish_detach(connection, partition)
    for name in await marked(connection):
        await _drop_detached(connection, name)


async def _finish_detach(connection: "Connection", partition: Partition) -> None:
    try:
        async with connection.transaction():
            await connection.execute(_FINISH_TIMEOUT)
            await connection.execute(
                f"ALTER TABLE gnomon.{partition.parent}"
                f" DETACH PARTITION gnomon.{partition.name} FINALIZE"
            )
    except _NOT_NOW:
        log.info("a partition waits for old transactions to end", partition=partition.name)


async def _drop_detached(connection: "Connection", name: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(_DROP_TIMEOUT)
            await connection.execute(f"DROP TABLE IF EXISTS gnomon.{name}")
    except _NOT_NOW as error:
        log.info("a detached partition is not dropped yet", partition=name, why=str(error))


# Clearing


async def _clear(connection: "Connection", past: _Past, clock: Clock, memory: Memory) -> None:
    """Delete what is past retention in partitions that stay, a few pages at a time, with a rest as
    long in between."""
    deadline = clock.monotonic() + _CLEAR_SECONDS
    for parent in PARENTS:
        for partition in await listed(connection, parent):
            since = memory.cleared_at.get(partition.name)
            recent = since is not None and past.cutoff < since + _LOOK_AGAIN
            # A day that is needed for an hour more is better dropped than cleared.
            wait = DAY if partition.is_day else timedelta()
            if recent or partition.pending or not _has_ended(partition, past.cutoff - wait):
                continue
            if not await _clear_one(connection, partition, past, clock, deadline, memory):
                return
            memory.cleared_at[partition.name] = past.cutoff


async def _clear_one(
    connection: "Connection",
    partition: Partition,
    past: _Past,
    clock: Clock,
    deadline: float,
    memory: Memory,
) -> bool:
    """False where the time is over; the next pass goes on from there."""
    pages = await _pages(connection, partition.name)
    for low, high in _chunks(pages, memory.page.pop(partition.name, 0)):
        started_at = clock.monotonic()
        if started_at >= deadline:
            memory.page[partition.name] = low
            return False
        async with _by_page(connection):
            await connection.execute(
                f"""
                DELETE FROM gnomon.{partition.name} AS p
                WHERE p.ctid >= '({low},0)' AND p.ctid < '({high},0)'
                  AND NOT ({_NEEDED[partition.parent]})
                """,  # noqa: S608
                *past.args,
            )
        await clock.sleep(min(clock.monotonic() - started_at, 1.0))
    return True


async def _pages(connection: "Connection", name: str) -> int:
    pages: int = await connection.fetchval(
        "SELECT pg_relation_size(('gnomon.' || $1)::regclass)"
        " / current_setting('block_size')::integer",
        name,
    )
    return pages


def _chunks(pages: int, start: int = 0) -> Iterator[tuple[int, int]]:
    for low in range(start, pages, _PAGES):
        yield low, low + _PAGES


@asynccontextmanager
async def _by_page(connection: "Connection") -> AsyncIterator[None]:
    async with connection.transaction():
        await connection.execute(_BY_PAGE)
        yield
