"""Stuck tasks on PostgreSQL: candidates, those that were told, and their events."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from gnomon.model.insight.event_kinds import TASK_STUCK, end_of
from gnomon.model.insight.stuck import OVERRUN_GRACE, STUCK_WORDS, Stuck
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.store.ports.insight.levels import LevelEvent
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.levels.level_store import BY_INDEX, enter_events
from gnomon.store.postgres.queries import query

_MOST_LANE = 2**15 - 1  # behind every lane


class FlowPlace(NamedTuple):
    """Where the reading of flows goes on."""

    tenant_id: str = ""
    lane: int = -1
    flow: int = 0

    @property
    def end_of_tenant(self) -> "FlowPlace":
        """Behind all flows of its tenant."""
        return FlowPlace(self.tenant_id, _MOST_LANE, 0)


class FlowHead(NamedTuple):
    """The first waiting task of a flow."""

    place: FlowPlace
    key: TaskKey


class PostgresStuck:
    """An event is entered with the row that says that it was: one for each beginning and end,
    whichever node looks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def overrun(self, most: int) -> list[TaskKey]:
        """Running tasks that somebody should have taken over."""
        grace = OVERRUN_GRACE.total_seconds()
        rows = await self._database.fetch("overrun_tasks", grace, most)
        return [TaskKey(row["tenant_id"], row["id"]) for row in rows]

    async def waiting(
        self, after: FlowPlace, seconds: float, most: int
    ) -> tuple[list[FlowHead], FlowPlace | None]:
        """The first tasks of the next flows that wait for so long; and where to go on, None at the
        end."""
        async with self._database.transaction() as connection:
            await connection.execute(BY_INDEX)
            rows = await connection.fetch(query("waiting_heads"), *after, most, seconds)
        found = [
            FlowHead(_place(row), TaskKey(row["tenant_id"], row["id"]))
            for row in rows
            if row["id"] is not None
        ]
        return found, None if len(rows) < most else _place(rows[-1])

    async def told(self, most: int) -> list[TaskKey]:
        """Tasks that were told to be stuck, and not yet that it is over."""
        async with self._database.transaction() as connection:
            await connection.execute(BY_INDEX)
            rows = await connection.fetch(query("stuck_tasks"), most)
        return [TaskKey(row["tenant_id"], row["task_id"]) for row in rows]

    async def begin(self, task: Task, found: Stuck) -> bool:
        """Tell that a task is stuck. False: it was told before."""
        key = task.tenant_id, task.task_id
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(query("enter_stuck"), *key, found.reason, found.since)
            if row is None:
                return False
            detail: dict[str, str | datetime] = {
                "task_type": task.task_type,
                "reason": found.reason,
                "why": STUCK_WORDS[found.reason],
                "since": found.since,
            }
            event = _event(TASK_STUCK, *key, detail)
            await enter_events(connection, [event], row["found_at"])
        return True

    async def end(self, key: TaskKey, status: str) -> bool:
        """Tell that a task is stuck no longer. False: that was told before."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(query("remove_stuck"), key.tenant_id, key.id)
            if row is None:
                return False
            detail = {"reason": row["reason"], "since": row["since"], "status": status}
            now = await connection.fetchval("SELECT gnomon.now()")
            event = _event(end_of(TASK_STUCK), key.tenant_id, key.id, detail)
            await enter_events(connection, [event], now)
        return True


def _place(row: asyncpg.Record) -> FlowPlace:
    return FlowPlace(row["tenant_id"], row["lane"], row["flow"])


def _event(
    kind: str, tenant_id: str, task_id: UUID, detail: Mapping[str, str | datetime]
) -> LevelEvent:
    return LevelEvent(
        tenant_id=tenant_id,
        kind=kind,
        task_type="",
        cron_job_id=None,
        task_id=task_id,
        detail={"task_id": str(task_id), **detail},
    )
