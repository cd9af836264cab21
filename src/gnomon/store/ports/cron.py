"""What the engine asks of its store about cron jobs: the contract that every store keeps.

The ledger. Each fire of a job is one entry `(cron_job_id, fire_at)`, made in the transaction that
moves the job on and inserts the task. So a fire leads to one task at the most, whoever plans it
and however often; the entry stays for as long as history does.

Planning. A job is moved on only from the version and the fire time that the plan was made with;
a plan that comes too late changes nothing.

Overlap. A job has one active task at a time: from its first start (or, where nobody else is
active, from its planning) to its end, waits for retries included. Who may start is decided with
the job's row locked, so two nodes cannot both find nobody running. Runs under `allow` are never
asked.

Locks. Whoever needs a job and its tasks locks the job first.
"""

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.cron.job import CronJob, CronRun, Definition


class CronFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list of jobs shows. None means all."""

    name: str | None = None  # a part of it, in any case
    tag: str | None = None
    paused: bool | None = None
    source: str | None = None
    next_fire_before: datetime | None = None


class CronPage(msgspec.Struct, frozen=True):
    """Newest first. A page does bounded work, so it may be short and still have a successor."""

    jobs: list[CronJob]
    next_cursor: UUID | None


class CronRunPage(msgspec.Struct, frozen=True):
    """Latest fire first."""

    runs: list[CronRun]
    next_cursor: datetime | None


class Put(Enum):
    """What an upsert did."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Backfilled(msgspec.Struct, frozen=True):
    """The fires of a range: those that get a run now, and those that have one already."""

    planned: list[datetime]
    existing: list[datetime]


class CronChange(Protocol):
    """Changes of jobs within one transaction of a tenant (`Change.cron`).

    `ref` is a job's id or its name; an unknown one raises CronJobNotFound. Every change of a
    definition withdraws the runs that were planned ahead, and their entries, and plans anew.
    """

    async def create(self, definition: Definition, created_by: str | None = None) -> CronJob:
        """Store a new job. Raises NameTaken."""

    async def put(
        self, definition: Definition, created_by: str | None = None
    ) -> tuple[CronJob, Put]:
        """Make the job of this name be as defined. The same definition again changes nothing."""

    async def patch(self, ref: str, edit: Callable[[Definition], Definition]) -> CronJob:
        """Change the definition. A new expression, zone or start never fires the past."""

    async def pause(self, ref: str, reason: str | None) -> CronJob:
        """Start nothing more on schedule, also not what was planned and has not started."""

    async def resume(self, ref: str) -> CronJob:
        """Go on with the next fire. What lay in the pause was not missed."""

    async def delete(self, ref: str) -> None:
        """Remove the job and every run that has not started. What runs, goes on."""

    async def trigger(self, ref: str) -> CronRun:
        """Run it now, whatever its schedule says. Raises Overlapping under `skip` while a run is
        active."""

    async def backfill(
        self, ref: str, first: datetime, last: datetime, most: int, *, dry_run: bool
    ) -> Backfilled:
        """Run the fires of the past from `first` to `last`, both included, oldest first; those in
        the ledger are left alone. Raises InvalidSchedule when there are more than `most`."""


class CronStore(Protocol):
    """What the API asks, besides changes."""

    async def get(self, tenant_id: str, ref: str) -> CronJob:
        """By id or name. Raises CronJobNotFound."""

    async def list(
        self, tenant_id: str, chosen: CronFilter, cursor: UUID | None, limit: int
    ) -> CronPage:
        """Jobs older than `cursor`, newest first."""

    async def runs(
        self, tenant_id: str, ref: str, cursor: datetime | None, limit: int
    ) -> CronRunPage:
        """What the ledger says, from the latest fire back, before `cursor`."""
