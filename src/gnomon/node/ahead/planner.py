"""Turns the fires of cron jobs into tasks, shortly before their time.

A run is on the agenda before it is due, like any delayed task, so it starts as exactly. Which node
plans a job is a matter of speed only: the store accepts each plan once, whoever brings it.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

import msgspec
import structlog

from gnomon.chores import Troubles, about_job, isolated, jobs_in
from gnomon.clock import Clock
from gnomon.cron.job import CronJob
from gnomon.cron.plan import Plan, plan
from gnomon.model.errors import InvalidSchedule, StoreError, Unstorable
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.scanner import Scanner
from gnomon.observe.events import FiresMissed, Observer, RunsPlanned, nobody
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.planning import UNPLANNABLE, PlanningStore

log = structlog.get_logger("gnomon.node")

_JOBS_AT_ONCE = 512
_ROUNDS = 100  # of one pass; what is left is for the next one
_RUNS_TOGETHER = 500  # in one transaction
_JOBS_TOGETHER = 100
_MOST_QUEUED = 1000
_NO_PARTITION = "23514"

PLAN, START_QUEUED = "plan", "start-queued"  # the chores
_PLAN_REMEDY = "its runs are not planned meanwhile: see `gnomon cron show`, change it or pause it"
_QUEUED_REMEDY = "its queued runs wait meanwhile: cancel them, or change its overlap_policy"


class PlanResult(msgspec.Struct, frozen=True):
    """How many jobs a pass planned, and how many runs of them."""

    jobs: int = 0
    runs: int = 0
    missed: int = 0


class Planner:
    """Plans for the shards that the scanner serves; what it plans goes straight on the agenda."""

    def __init__(
        self,
        store: PlanningStore,
        scanner: Scanner,
        clock: Clock,
        settings: NodeSettings,
        troubles: Troubles,
        emit: Observer = nobody,
    ) -> None:
        self._troubles = troubles
        self._store = store
        self._scanner = scanner
        self._clock = clock
        self._emit = emit
        self._ahead = timedelta(seconds=settings.plan_ahead_seconds)
        self._ended: set[TaskKey] = set()

    async def run_once(self) -> PlanResult:
        """Plan every job that fires soon."""
        jobs = runs = missed = 0
        began = self._clock.monotonic()
        for _ in range(_ROUNDS):
            due = await self._due()
            if not due:
                self._troubles.over_since(PLAN, began)
                break
            for plans in _together(await self._plans(due)):
                runs += await self._advance(plans)
                jobs += len(plans)
                missed += sum(p.missed for p in plans)
        if missed:
            log.warning("fires of cron jobs were missed", count=missed)
            self._emit(FiresMissed(missed))
        return PlanResult(jobs, runs, missed)

    async def _due(self) -> list[CronJob]:
        shards = sorted(self._scanner.territory.jobs)
        if not shards:
            return []
        until = self._clock.now() + self._ahead
        each = -(-_JOBS_AT_ONCE // len(shards))
        return await self._store.due(shards, until, each, jobs_in(self._troubles.aside(PLAN)))

    async def _plans(self, jobs: Sequence[CronJob]) -> list[Plan]:
        now = self._clock.now()
        plans = []
        for job in jobs:
            try:
                plans.append(plan(job, now, now + self._ahead))
            except InvalidSchedule as error:
                # It was valid once: its zone, say, is no longer in the database of zones.
                await self._park(job, error)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's alone
                self._set_aside(job, error)
        return plans

    async def _advance(self, plans: Sequence[Plan]) -> int:
        entries = await isolated(plans, self._store.advance, self._blame)
        self._scanner.hinted(entries)
        self._emit(RunsPlanned(len(entries)))
        return len(entries)

    async def _blame(self, refused: Plan, error: StoreError) -> list[Entry]:
        # A partition that is missing is no job's fault.
        if isinstance(error, Unstorable) and error.sqlstate != _NO_PARTITION:
            await self._park(refused.job, error)
        else:
            self._set_aside(refused.job, error)
        return []

    def _set_aside(self, job: CronJob, why: Exception) -> None:
        """Try a job again later; it does not fire meanwhile."""
        self._troubles.note(PLAN, why, about_job(job.tenant_id, job.id), _PLAN_REMEDY)

    async def _park(self, job: CronJob, why: Exception) -> None:
        """A job that cannot be planned must not keep the others of its shard from it."""
        name = job.definition.name
        log.error("a cron job cannot be planned, and is paused", job=name, why=str(why))
        await self._store.park(job, f"{UNPLANNABLE} {why}")

    # Queued runs

    def ended(self, jobs: Iterable[TaskKey]) -> None:
        """Runs of these jobs have ended: others may be waiting for that."""
        self._ended.update(jobs)

    async def start_queued(self) -> int:
        """Let queued runs start whose turn has come; gives how many."""
        jobs, self._ended = self._ended, set()
        if not jobs:
            return 0
        try:
            entries = await isolated(list(jobs), self._store.start_queued, self._blame_queued)
            return self._hinted(entries)
        except BaseException:
            self._ended |= jobs
            raise

    async def look_for_queued(self) -> int:
        """The same for jobs whose run ended unseen: cancelled, or on a node that died."""
        began = self._clock.monotonic()
        shards = sorted(self._scanner.territory.jobs)
        aside = set(self._troubles.aside(START_QUEUED))
        queued = await self._store.queued(shards, _MOST_QUEUED)
        self.ended(job for job in queued if about_job(job.tenant_id, job.id) not in aside)
        started = await self.start_queued()
        self._troubles.over_since(START_QUEUED, began)
        return started

    async def _blame_queued(self, job: TaskKey, error: StoreError) -> list[Entry]:
        about = about_job(job.tenant_id, job.id)
        self._troubles.note(START_QUEUED, error, about, _QUEUED_REMEDY)
        return []

    def _hinted(self, entries: list[Entry]) -> int:
        self._scanner.hinted(entries)
        return len(entries)


def _together(plans: Sequence[Plan]) -> Iterator[list[Plan]]:
    """Plans in batches that make transactions of a bearable size."""
    batch: list[Plan] = []
    runs = 0
    for each in plans:
        full = len(batch) == _JOBS_TOGETHER or runs + len(each.occurrences) > _RUNS_TOGETHER
        if batch and full:
            yield batch
            batch, runs = [], 0
        batch.append(each)
        runs += len(each.occurrences)
    if batch:
        yield batch
