"""Planning port: how a node plans cron jobs and claims their runs.

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

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.cron.job import CronJob, Skipped
from gnomon.cron.plan import Plan
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Claim, Entry


class OverlapAnswer(msgspec.Struct, frozen=True):
    """The answers of jobs to runs that asked whether they may start."""

    claim: Claim
    settled: list[TaskKey]  # skipped or queued: nothing is left to claim now
    started_queued: list[Entry]  # runs that were queued, and may start now
    skipped: list[Skipped] = []  # why, of each that was


UNPLANNABLE = "it cannot be planned:"  # how the reason of a pause begins that nobody asked for


class PlanningStore(Protocol):
    """Plans cron jobs and claims their runs for a node.

    `gnomon.testing.contracts.planning` tests it."""

    async def due(
        self, shards: Sequence[int], until: datetime, each: int, aside: Sequence[UUID] = ()
    ) -> list[CronJob]:
        """Jobs of these shards whose next fire is at or before `until`, at most `each` a shard; not
        those `aside`. One whose row cannot be read is paused, with the reason."""

    async def advance(self, plans: Sequence[Plan]) -> list[Entry]:
        """Carry out plans; those made from an older state of their job are left out."""

    async def park(self, job: CronJob, reason: str) -> None:
        """Pause a job that cannot be planned, unless it was changed meanwhile."""

    async def claim_runs(
        self,
        incarnation: UUID,
        keys: Sequence[TaskKey],
        flows: Sequence[int] = (),
        sessions: Sequence[UUID] = (),
    ) -> OverlapAnswer:
        """Claim first runs of jobs that forbid overlap, as far as their policies let them start
        now; queue or skip the others. `sessions`: as in a claim by a gateway."""

    async def start_queued(self, jobs: Sequence[TaskKey]) -> list[Entry]:
        """Start the next queued run of each of these jobs where no run is active any more."""

    async def queued(self, shards: Sequence[int], most: int) -> list[TaskKey]:
        """Jobs of these shards that have queued runs."""
