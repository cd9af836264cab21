"""Counts tasks for people who look at them, by bounded work whatever there is to count."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import asyncpg

from gnomon.model.targets.target_url import host_in
from gnomon.model.tasks.flow import Flow
from gnomon.model.tasks.lifecycle import State, Status
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.insight.stats import (
    MOST_COUNTED,
    CappedCount,
    DueFlow,
    DueFlows,
    Load,
    TaskStats,
)
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import lane_of
from gnomon.store.postgres.tasks.reading import ALL_IDS, MOST_RUNNING, filter_columns

MOST_FLOWS = 1_000
MOST_OF_FLOWS = 20_000  # tasks examined in all flows together
MOST_DUE_OF_FLOWS = 50_000  # the same, of due ones alone
STATEMENT_SECONDS = 2.0

_STATES = {
    State.PAUSED: Status.PAUSED,
    State.BLOCKED: Status.BLOCKED,
    State.DEAD: Status.DEAD_LETTERED,
    State.COMPLETED: Status.COMPLETED,
    State.CANCELLED: Status.CANCELLED,
    State.EXPIRED: Status.EXPIRED,
    State.RESOLVED: Status.DEAD_LETTERED,
}


class RunningGroup(NamedTuple):
    """So many tasks of a type and queue run."""

    task_type: str
    queue: str | None
    tasks: int


async def stats(database: Database, tenant_id: str, chosen: TaskFilter) -> TaskStats:
    """Raises StoreUnavailable where a statement takes too long."""
    filters = *filter_columns(chosen), *(chosen.ids or ALL_IDS)
    timeout = f"SET LOCAL statement_timeout = '{_milliseconds()}'"
    async with database.scoped(tenant_id) as connection:
        await connection.execute(timeout)
        waiting = await connection.fetch(
            query("count_by_flow"), tenant_id, MOST_FLOWS, MOST_COUNTED + 1, MOST_OF_FLOWS, *filters
        )
        others = await connection.fetch(
            query("count_others"), tenant_id, MOST_COUNTED + 1, *filters
        )
    counts = _Counts(chosen.status)
    counts.add_waiting(waiting)
    counts.add_running(await _count_running(database, tenant_id, filters))
    counts.add_others(others)
    return counts.done()


async def running(database: Database, tenant_id: str) -> list[RunningGroup]:
    """Lower bounds, where the installation runs more than are examined."""
    rows = await _count_running(database, tenant_id, (*filter_columns(TaskFilter()), *ALL_IDS))
    return [
        RunningGroup(row["task_type"], row["queue"], row["running"])
        for row in rows
        if row["lane"] is not None
    ]


async def _count_running(
    database: Database, tenant_id: str, filters: Sequence[Any]
) -> list[asyncpg.Record]:
    # The index of running tasks is of all tenants: they are counted from outside the wall.
    async with database.transaction() as connection:
        await connection.execute(f"SET LOCAL statement_timeout = '{_milliseconds()}'")
        return await connection.fetch(query("count_running"), tenant_id, MOST_RUNNING, *filters)


async def due_flows(database: Database, tenant_id: str) -> DueFlows:
    """Raises StoreUnavailable where the statement takes too long."""
    async with database.scoped(tenant_id) as connection:
        await connection.execute(f"SET LOCAL statement_timeout = '{_milliseconds()}'")
        rows = await connection.fetch(
            query("due_flows"), tenant_id, MOST_FLOWS, MOST_COUNTED + 1, MOST_DUE_OF_FLOWS
        )
    flows = [
        DueFlow(
            Flow(
                tenant_id=tenant_id,
                task_type=row["task_type"],
                queue=row["queue"],
                limit_keys=row["limit_keys"],
                host=None if row["url"] is None else host_in(row["url"]),
            ),
            row["due"],
            row["more"],
        )
        for row in rows
        if row["task_type"] is not None
    ]
    return DueFlows(flows, more=len(flows) < len(rows))


def _milliseconds() -> int:
    return round(STATEMENT_SECONDS * 1000)


class _Counts:
    """Adds up the rows. With a status, only what has it."""

    def __init__(self, status: Status | None) -> None:
        self._status = status
        wanted = Status if status is None else (status,)
        self._statuses: dict[Status, CappedCount] = dict.fromkeys(wanted, CappedCount())
        self._lanes: dict[Lane, Load] = dict.fromkeys(Lane, Load())
        self._types: dict[str, Load] = {}
        self._queues: dict[str | None, Load] = {}

    def add_waiting(self, rows: Iterable[asyncpg.Record]) -> None:
        for row in rows:
            self._add(Status.READY, row["ready"], more=row["ready_more"])
            self._add(Status.SCHEDULED, row["scheduled"], more=row["later_more"])
            self._add(Status.FAILED, row["failed"], more=row["later_more"])
            if Status.READY in self._statuses and (row["ready"] or row["ready_more"]):
                oldest = row["oldest"]
                age = None if oldest is None else (row["now"] - oldest).total_seconds()
                for loads, key in self._loads(row):
                    load = loads.get(key, Load())
                    loads[key] = load.with_ready(row["ready"], age, more=row["ready_more"])

    def add_running(self, rows: Sequence[asyncpg.Record]) -> None:
        more = any(row["lane"] is None for row in rows)
        for row in rows:
            self._add(Status.RUNNING, row["running"], more=more)
            if Status.RUNNING in self._statuses:
                for loads, key in self._loads(row):
                    load = loads.get(key, Load())
                    loads[key] = load.with_running(row["running"], more=more)

    def add_others(self, rows: Iterable[asyncpg.Record]) -> None:
        for row in rows:
            self._add(_STATES[State(row["state"])], row["number"], more=row["more"])

    def done(self) -> TaskStats:
        return TaskStats(
            statuses=self._statuses,
            lanes=self._lanes,
            task_types=self._types,
            queues=self._queues,
        )

    def _add(self, status: Status, count: int, *, more: bool) -> None:
        if status in self._statuses:
            self._statuses[status] = self._statuses[status].plus(count, more=more)

    def _loads(self, row: asyncpg.Record) -> tuple[tuple[dict[Any, Load], Any], ...]:
        if row["lane"] is None:  # it only says that there are more
            return ()
        return (
            (self._lanes, lane_of(row["lane"])),
            (self._types, row["task_type"]),
            (self._queues, row["queue"]),
        )
