"""Partitions past retention: which are still needed, and how the others go.

Nobody waits for this, and nothing that was needed at the look is moved or hidden:

- A partition that nobody needs is detached concurrently, which waits for old readers without
  blocking anybody, examined once more (`detached`), and then dropped. A pass that was interrupted
  is finished by the next one, on any node.
- A partition that somebody needs stays. Needed is a day that live tasks were made on (their
  executions, payloads and ends belong there), or that holds a task that ended within retention. A
  day later, rows that are not needed in it are deleted in batches.
- Neighbours that nobody needs become one wide and empty partition, so that there are few.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.store.postgres.retention.detached import drop_detached
from gnomon.store.postgres.retention.needed import (
    LOOK_AGAIN,
    Memory,
    Past,
    any_needed,
    by_page,
    chunks,
    clearing,
    live_days,
    pages,
)
from gnomon.store.postgres.retention.partitions import (
    DAY,
    MARK,
    NOT_NOW,
    PARENTS,
    Partition,
    cover,
    holes,
    listed,
    marked,
    partition_name,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]

log = structlog.get_logger("gnomon.store")

# A task that is made just before midnight is committed by then.
_MARGIN = timedelta(hours=1)
_PASS_SECONDS = 60.0
_DETACH_SECONDS = 1.0
# Finishing a detach keeps the partition locked while it waits for old snapshots. Only those see it.
_FINISH_TIMEOUT = "SET LOCAL lock_timeout = '50ms'"
_MARK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"


async def drop(
    connection: "Connection", cutoff: datetime, clock: Clock, memory: Memory | None = None
) -> list[str]:
    """Drop what nobody needs of the days that ended before `cutoff`, and clear the others. Gives
    the days that went."""
    memory = memory or Memory()
    past = Past(cutoff, None, clock, clock.monotonic() + _PASS_SECONDS, memory)
    await _finish(connection, past)
    if await _is_news(connection, cutoff, memory):
        past = msgspec.structs.replace(past, live_days=await live_days(connection, cutoff))
    dropped = []
    for parent in PARENTS:
        dropped += await _drop_of(connection, parent, past)
    await _clear(connection, past)
    return dropped


async def _drop_of(connection: "Connection", parent: str, past: Past) -> list[str]:
    known = [p for p in await listed(connection, parent) if _has_ended(p, past.cutoff - _MARGIN)]
    going = {p.name for p in known if not await _is_needed(connection, p, past)}
    # The days first: what is left uncovered for a moment is then as little as can be.
    leaving = sorted((p for run in _runs(known, going) for p in run), key=lambda p: not p.is_day)
    dropped = []
    for partition in leaving:
        if not await _detach(connection, partition):
            break
        await drop_detached(connection, parent, partition.name, past)
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


async def _is_needed(connection: "Connection", partition: Partition, past: Past) -> bool:
    if past.memory.was_needed(partition, past.cutoff):
        return True
    if past.has_live(partition):
        past.memory.looked.pop(partition.name, None)
        past.memory.needed_at[partition.name] = past.cutoff
        return True
    if partition.parent in ("task_payload", "execution") and partition.is_day:
        # Executions and payloads of a day go with its tasks.
        day = partition_name("task_archive", partition.end - DAY)
        archive = [p for p in await listed(connection, "task_archive") if p.name == day]
        return any([await _is_needed(connection, p, past) for p in archive if not p.pending])
    needed = await any_needed(connection, partition, past)
    if needed:
        past.memory.needed_at[partition.name] = past.cutoff
    return needed is not False


async def _is_news(connection: "Connection", cutoff: datetime, memory: Memory) -> bool:
    """Whether there is a day of tasks past retention, or two wide partitions that could be one,
    that were not found to be needed lately."""
    for parent in PARENTS:
        if parent == "occurrence":
            continue
        known = await listed(connection, parent)
        going = [p for p in known if _has_ended(p, cutoff - _MARGIN) and not p.pending]
        news = {p.name for p in going if not memory.was_needed(p, cutoff)}
        if any(_runs(going, news)):
            return True
    return False


# Detaching


async def _detach(connection: "Connection", partition: Partition) -> bool:
    """False where it is not detached yet: somebody still reads it, or may not."""
    may_wait = partition.is_day and partition.parent != "occurrence"
    if not may_wait and await _is_read(connection, partition.parent):
        return False
    try:
        async with connection.transaction():
            await connection.execute(_MARK_TIMEOUT)
            await connection.execute(f"COMMENT ON TABLE gnomon.{partition.name} IS '{MARK}'")
        # In no transaction. It waits for those who may still read the partition, for as long as
        # we let it; nobody waits for it.
        await connection.execute(
            f"ALTER TABLE gnomon.{partition.parent}"
            f" DETACH PARTITION gnomon.{partition.name} CONCURRENTLY",
            timeout=_DETACH_SECONDS,
        )
    except NOT_NOW as error:
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


async def _finish(connection: "Connection", past: Past) -> None:
    """Finish what an earlier pass began and could not end, on whichever node."""
    for parent in PARENTS:
        for partition in await listed(connection, parent):
            if partition.pending:
                await _finish_detach(connection, partition)
    for parent in PARENTS:  # tasks come before what follows them
        tried: set[str] = set()
        # One that gets its rows back may take the name of another, which then has a new one.
        while left := set(await marked(connection, parent)) - tried:
            name = min(left)
            tried.add(name)
            await drop_detached(connection, parent, name, past)


async def _finish_detach(connection: "Connection", partition: Partition) -> None:
    try:
        async with connection.transaction():
            await connection.execute(_FINISH_TIMEOUT)
            await connection.execute(
                f"ALTER TABLE gnomon.{partition.parent}"
                f" DETACH PARTITION gnomon.{partition.name} FINALIZE"
            )
    except NOT_NOW:
        log.info("a partition waits for old transactions to end", partition=partition.name)


# Clearing


async def _clear(connection: "Connection", past: Past) -> None:
    """Delete what is past retention in partitions that stay."""
    for parent in PARENTS:
        for partition in await listed(connection, parent):
            since = past.memory.cleared_at.get(partition.name)
            recent = since is not None and past.cutoff < since + LOOK_AGAIN
            # A day that is needed for an hour more is better dropped than cleared.
            wait = DAY if partition.is_day else timedelta()
            if recent or partition.pending or not _has_ended(partition, past.cutoff - wait):
                continue
            if not await _clear_one(connection, partition, past):
                return
            past.memory.cleared_at[partition.name] = past.cutoff


async def _clear_one(connection: "Connection", partition: Partition, past: Past) -> bool:
    """A few pages at a time, with a rest as long in between. False where the time is over; the
    next pass goes on from there."""
    start = past.memory.cleared.pop(partition.name, 0)
    for low, high in chunks(await pages(connection, partition.name), start):
        began = past.clock.monotonic()
        if began >= past.deadline:
            past.memory.cleared[partition.name] = low
            return False
        async with by_page(connection):
            await connection.execute(clearing(partition, low, high), *past.args)
        await past.clock.sleep(min(past.clock.monotonic() - began, 1.0))
    return True
