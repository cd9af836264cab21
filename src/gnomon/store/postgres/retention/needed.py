"""Finds the rows of a partition past retention that are still needed, page by page."""

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from gnomon.clock import Clock
from gnomon.model.ids import lowest_id
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.partitions import DAY, Partition

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]

# How long a needed partition is not looked at again.
LOOK_AGAIN = timedelta(hours=1)
_PAGES = 512
# One plan for every chunk: its pages, and then by key.
BY_PAGE = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off"
BY_PAGE += "; SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off"

# OFFSET: a probe for each, never a join.
_LIVE = """EXISTS (
    SELECT FROM gnomon.task AS t WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id OFFSET 0
)"""
# Which rows are needed. $1 the end of retention, $2 its lowest id.
NEEDED = {
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
NEEDED["execution"] = NEEDED["task_payload"]


class Memory:
    """A pruner's notes on partitions, so that it does not examine all of them every minute. They
    can be lost."""

    def __init__(self) -> None:
        self.needed_at: dict[str, datetime] = {}
        self.cleared_at: dict[str, datetime] = {}
        # The page where looking or clearing goes on.
        self.looked: dict[str, int] = {}
        self.cleared: dict[str, int] = {}

    def was_needed(self, partition: Partition, cutoff: datetime) -> bool:
        """Within the last hour."""
        seen = self.needed_at.get(partition.name)
        return seen is not None and cutoff < seen + LOOK_AGAIN


class Past(msgspec.Struct, frozen=True):
    """The end of retention, and other inputs of a pass."""

    cutoff: datetime
    live_days: Collection[date] | None  # None: not asked for, since all were needed lately
    clock: Clock
    deadline: float
    memory: Memory

    @property
    def args(self) -> tuple[datetime, Any]:
        return self.cutoff, lowest_id(self.cutoff)

    def has_live(self, partition: Partition) -> bool:
        """Of what is cut by the id of a task: whether a live one belongs there."""
        if partition.parent == "occurrence":
            return False  # they are asked for one by one
        if self.live_days is None:
            return True
        first = partition.first or date.min
        return any(first <= day < partition.end for day in self.live_days)


async def live_days(connection: "Connection", cutoff: datetime) -> set[date]:
    """The days past retention that live tasks were made on."""
    async with by_page(connection):
        rows = await connection.fetch(query("live_days"), lowest_id(cutoff))
    return {date(1970, 1, 1) + row["day"] * DAY for row in rows}


async def any_needed(
    connection: "Connection", partition: Partition, past: Past, detached_as: str = ""
) -> bool | None:
    """None where the time is over: the next pass goes on from there. Nothing is added to what was
    looked at, since nothing live belongs there; and nothing at all to what was detached."""
    args = past.args if partition.is_day else ()
    known_as = detached_as or partition.name
    start = past.memory.looked.pop(known_as, 0)
    for low, high in chunks(await pages(connection, partition.name), start):
        began = past.clock.monotonic()
        if began >= past.deadline:
            # Fires of long ago are entered any time.
            if detached_as or partition.parent != "occurrence":
                past.memory.looked[known_as] = low
            return None
        async with by_page(connection):
            if await connection.fetchval(asking(partition, low, high), *args):
                return True
        await past.clock.sleep(min(past.clock.monotonic() - began, 1.0))
    return False


def asking(partition: Partition, low: int, high: int) -> str:
    """Whether anything on some pages is needed. What is left in a wide partition is."""
    condition = NEEDED[partition.parent] if partition.is_day else "true"
    return f"SELECT EXISTS (SELECT FROM {_chunk(partition, low, high)} AND {condition})"  # noqa: S608


def clearing(partition: Partition, low: int, high: int) -> str:
    """Deletes what is past retention on some pages."""
    needed = NEEDED[partition.parent]
    return f"DELETE FROM {_chunk(partition, low, high)} AND NOT ({needed})"  # noqa: S608


def _chunk(partition: Partition, low: int, high: int) -> str:
    return f"gnomon.{partition.name} AS p WHERE p.ctid >= '({low},0)' AND p.ctid < '({high},0)'"


async def pages(connection: "Connection", name: str) -> int:
    """How many pages a table has; none, if somebody else has dropped it."""
    count: int | None = await connection.fetchval(
        "SELECT pg_relation_size(('gnomon.' || $1)::regclass)"
        " / current_setting('block_size')::integer",
        name,
    )
    return count or 0


def chunks(count: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Pages that are read at once."""
    for low in range(start, count, _PAGES):
        yield low, low + _PAGES


@asynccontextmanager
async def by_page(connection: "Connection") -> AsyncIterator[None]:
    """A transaction whose statements read some pages each."""
    async with connection.transaction():
        await connection.execute(BY_PAGE)
        yield
