"""Service levels on PostgreSQL: judges watched tasks, and adds up by the week."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.clock import new_id
from gnomon.model.insight.event_kinds import TASK_SLA_MISSED, TASK_SLOW
from gnomon.model.insight.service_level import (
    COMMIT,
    EndedTask,
    Judgement,
    LiveTask,
    PastExecution,
    WatchedTask,
    judge,
)
from gnomon.model.tasks.lifecycle import State
from gnomon.store.ports.insight.levels import (
    LevelCounts,
    LevelEvent,
    LevelKey,
    LevelsJudged,
    total_of,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

MOST_ROWS_A_WEEK = 1_000  # of a tenant; further types are added up as one
NO_JOB = UUID(int=0)
# One plan, whatever is known of the table: it may be full of dead rows, and never analyzed.
BY_INDEX = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"
)


class PostgresLevels:
    """Judges watched tasks, each look in one transaction: what was counted and told is what was
    judged, whoever dies in between."""

    def __init__(self, database: Database, slot_wait_seconds: float) -> None:
        self._database = database
        self._slot_wait = timedelta(seconds=slot_wait_seconds)

    async def judge(self, most: int, tells: Callable[[LevelEvent], bool]) -> LevelsJudged:
        """Look at watched tasks whose time has come, earliest first. A level that was missed gets
        an event, if `tells` says so."""
        async with self._database.transaction() as connection:
            await connection.execute(BY_INDEX)
            rows = await connection.fetch(query("watched_tasks"), most, COMMIT.total_seconds())
            if not rows:
                return LevelsJudged(0, LevelCounts(), 0)
            now: datetime = rows[0]["now"]
            tasks = [_watched(row) for row in rows]
            judged = [(task, judge(task, now, self._slot_wait)) for task in tasks]
            await _watch_on(connection, judged)
            sums = _sums(judged, now)
            await add_levels(connection, sums)
            events = [each for pair in judged for each in _events(*pair) if tells(each)]
            await enter_events(connection, events, now)
        return LevelsJudged(len(rows), total_of(sums.values()), len(events))


async def add_levels(connection: "Connection", sums: Mapping[LevelKey, LevelCounts]) -> None:
    """Add to the weeks of the report."""
    keys = sorted(sums)
    if not keys:
        return
    counts = [sums[key] for key in keys]
    await connection.execute(
        query("add_levels"),
        [key.tenant_id for key in keys],
        [key.week for key in keys],
        [key.task_type for key in keys],
        [key.cron_job_id for key in keys],
        [each.start_kept for each in counts],
        [each.start_missed for each in counts],
        [each.run_kept for each in counts],
        [each.run_missed for each in counts],
        MOST_ROWS_A_WEEK,
    )


async def enter_events(
    connection: "Connection", events: Sequence[LevelEvent], now: datetime
) -> None:
    """Enter events in the transaction that makes them true."""
    if not events:
        return
    await connection.execute(
        query("enter_events"),
        [each.tenant_id for each in events],
        sorted(new_id(now) for _ in events),
        [each.kind for each in events],
        [None for _ in events],
        [each.cron_job_id for each in events],
        [each.task_id for each in events],
        [msgspec.json.encode(each.detail).decode() for each in events],
    )


def week_of(moment: datetime) -> date:
    """The Monday of a moment's week."""
    day = moment.date()
    return day - timedelta(days=day.weekday())


async def _watch_on(
    connection: "Connection", judged: Sequence[tuple[WatchedTask, Judgement]]
) -> None:
    over = [task for task, found in judged if found.look_at is None]
    if over:
        keys = [task.tenant_id for task in over], [task.task_id for task in over]
        await connection.execute(query("unwatch_tasks"), *keys)
    again = [pair for pair in judged if pair[1].look_at is not None]
    if again:
        await connection.execute(
            query("watch_again"),
            [task.tenant_id for task, _ in again],
            [task.task_id for task, _ in again],
            [found.look_at for _, found in again],
            [found.start_kept is not None for _, found in again],
            [found.slow is not None for _, found in again],
            [None if found.slow is None else found.slow.fence for _, found in again],
        )


def _sums(
    judged: Sequence[tuple[WatchedTask, Judgement]], now: datetime
) -> dict[LevelKey, LevelCounts]:
    sums: dict[LevelKey, LevelCounts] = {}
    for task, found in judged:
        job = task.cron_job_id or NO_JOB
        if found.start_kept is not None:
            key = LevelKey(task.tenant_id, week_of(task.start_by or now), task.task_type, job)
            sums.setdefault(key, LevelCounts()).add(start_kept=found.start_kept)
        if found.run_kept is not None:
            at = now if found.slow is None else found.slow.started_at
            key = LevelKey(task.tenant_id, week_of(at), task.task_type, job)
            sums.setdefault(key, LevelCounts()).add(run_kept=found.run_kept)
    return sums


def _events(task: WatchedTask, found: Judgement) -> Iterator[LevelEvent]:
    if found.start_kept is False:
        yield _event(
            task,
            TASK_SLA_MISSED,
            sla_seconds=task.sla_seconds,
            start_by=task.start_by,
            started_at=found.started_at,
        )
    if found.slow is not None:
        yield _event(
            task,
            TASK_SLOW,
            warn_after_seconds=task.warn_after_seconds,
            attempt=found.slow.attempt,
            started_at=found.slow.started_at,
            finished_at=found.slow.finished_at,
        )


def _event(
    task: WatchedTask, kind: str, **detail: str | float | int | datetime | None
) -> LevelEvent:
    return LevelEvent(
        tenant_id=task.tenant_id,
        kind=kind,
        task_type=task.task_type,
        cron_job_id=task.cron_job_id,
        task_id=task.task_id,
        detail={"task_type": task.task_type, **detail},
    )


def _watched(row: asyncpg.Record) -> WatchedTask:
    live = ended = slow = None
    if row["live"]:
        live = LiveTask(
            due_at=row["due_at"],
            started_at=row["started_at"],
            attempt=row["attempt"],
            fence=row["fence"],
            running=row["running"],
            paused=row["state"] == State.PAUSED,
            dead=row["state"] == State.DEAD,
        )
    elif row["ended"]:
        ended = EndedTask(row["finished_at"], row["started_at"], row["cancelled"])
    if row["slow_fence"] is not None:
        slow = PastExecution(
            row["slow_fence"], row["slow_attempt"], row["slow_started_at"], row["slow_finished_at"]
        )
    return WatchedTask(
        tenant_id=row["tenant_id"],
        task_id=row["task_id"],
        task_type=row["task_type"] or "",
        cron_job_id=row["cron_job_id"],
        sla_seconds=row["sla_seconds"],
        warn_after_seconds=row["warn_after_seconds"],
        start_by=row["start_by"],
        start_judged=row["start_judged"],
        slow=row["slow"],
        told_fence=row["told_fence"],
        live=live,
        ended=ended,
        first_started_at=row["first_started_at"],
        last_slow=slow,
    )
