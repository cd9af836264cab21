"""The report of service levels: how many tasks of each type and job kept theirs, by the week."""

from datetime import date, timedelta
from uuid import UUID

import msgspec

from gnomon.store.ports.insight.levels import LEVEL_WEEKS, LevelWeek
from gnomon.store.postgres.levels.level_report import PostgresLevelReport

DEFAULT_WEEKS = 4
MOST_WEEKS = LEVEL_WEEKS
MOST_ROWS = 5_000  # of an answer


class LevelReport(msgspec.Struct, frozen=True):
    """Weeks, the newest first."""

    first: date
    last: date  # the Monday of the present week
    rows: list[LevelWeek]
    truncated: bool  # there are more rows: ask for fewer weeks, or one type


async def report(
    store: PostgresLevelReport,
    tenant_id: str,
    weeks: int,
    task_type: str | None = None,
    cron_job_id: UUID | None = None,
) -> LevelReport:
    """The last weeks, the present one included."""
    today = await store.today()
    monday = today - timedelta(days=today.weekday())
    first, after = monday - timedelta(weeks=weeks - 1), monday + timedelta(weeks=1)
    rows = await store.weeks(tenant_id, first, after, task_type, cron_job_id, MOST_ROWS + 1)
    return LevelReport(first, monday, rows[:MOST_ROWS], len(rows) > MOST_ROWS)


def share(kept: int, missed: int) -> float | None:
    """The part that was kept, rounded down: one of a million that was missed is not 100 %."""
    judged = kept + missed
    return kept * 10_000 // judged / 10_000 if judged else None
