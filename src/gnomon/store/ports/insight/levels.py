"""Values of the store of service levels."""

from collections.abc import Iterable
from datetime import date, datetime
from uuid import UUID

import msgspec

LEVEL_WEEKS = 106  # that are kept: two years


class LevelEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A level that a task has missed, to be told."""

    tenant_id: str
    kind: str
    task_type: str
    cron_job_id: UUID | None
    task_id: UUID
    detail: dict[str, str | float | int | datetime | None]


class LevelCounts(msgspec.Struct):
    """Tasks that kept or missed their levels."""

    start_kept: int = 0
    start_missed: int = 0
    run_kept: int = 0
    run_missed: int = 0

    def add(self, *, start_kept: bool | None = None, run_kept: bool | None = None) -> None:
        """Add one task. None: it was not judged."""
        self.start_kept += start_kept is True
        self.start_missed += start_kept is False
        self.run_kept += run_kept is True
        self.run_missed += run_kept is False


def total_of(counts: Iterable[LevelCounts]) -> LevelCounts:
    """Their sum."""
    total = LevelCounts()
    for each in counts:
        total.start_kept += each.start_kept
        total.start_missed += each.start_missed
        total.run_kept += each.run_kept
        total.run_missed += each.run_missed
    return total


class LevelKey(msgspec.Struct, frozen=True, order=True):
    """A row of the report: a week (from Monday on, UTC) of a type, of a cron job or of none."""

    tenant_id: str
    week: date
    task_type: str
    cron_job_id: UUID


class LevelsJudged(msgspec.Struct, frozen=True):
    """What a look at watched tasks came to."""

    looked_at: int
    counts: LevelCounts
    told: int


class LevelWeek(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks of a type and job kept their levels in a week."""

    week: date
    task_type: str  # '': of further types
    cron_job_id: UUID | None
    cron_job: str | None  # its name; None where it is gone, or there is none
    counts: LevelCounts
