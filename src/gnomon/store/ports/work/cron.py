"""Values of the cron stores: filters, pages, and the answers to changes."""

from datetime import datetime
from enum import Enum
from uuid import UUID

import msgspec

from gnomon.cron.job import CronJob, CronRun, Skipped
from gnomon.model.tasks.lifecycle import Status

SUCCESS_LOOKED_FOR = 100  # among so many of a job's latest fires


class CronFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list of jobs. None means all."""

    name: str | None = None  # a part of it, in any case
    tag: str | None = None
    paused: bool | None = None
    source: str | None = None
    next_fire_before: datetime | None = None


class CronPage(msgspec.Struct, frozen=True):
    """A page of jobs, newest first. It does bounded work, so it may be short without being the
    last."""

    jobs: list[CronJob]
    next_cursor: UUID | None


class CronRunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list of runs. None means all."""

    status: Status | None = None  # of the run's task
    skipped: tuple[Skipped, ...] | None = None  # why there is no run


class CronRunPage(msgspec.Struct, frozen=True):
    """A page of runs, latest fire first. It does bounded work, so it may be short without being
    the last."""

    runs: list[CronRun]
    next_cursor: datetime | None


class Put(Enum):
    """The effect of an upsert."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Backfilled(msgspec.Struct, frozen=True):
    """The fires of a range: those that get a run now, and those that have one already."""

    planned: list[datetime]
    existing: list[datetime]
