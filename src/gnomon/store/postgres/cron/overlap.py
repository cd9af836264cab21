"""Who of a job may run: every decision is made with the job's row locked.

Statements come one after the other, so that each sees what was committed before the lock was
granted. Tasks are only ever locked after their job.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.cron.job import CronJob, Missed, Overlap, RunKind, Skipped
from gnomon.cron.overlap import Active, Decision, decide
from gnomon.model.flow import UNKNOWN_FLOW
from gnomon.model.lifecycle import State
from gnomon.model.task import TaskKey
from gnomon.store.ports.dispatch import Claim, Entry
from gnomon.store.ports.planning import OverlapAnswer
from gnomon.store.postgres.cron.rows import governing_job_of
from gnomon.store.postgres.dispatch.dispatch_store import claim
from gnomon.store.postgres.hints import CANCEL_CHANNEL
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import lane_of

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


class JobRuns(msgspec.Struct):
    """What a locked job's runs are doing."""

    job: CronJob
    active: Active | None  # as the row says; see `holds`
    queued: bool
    now: datetime

    @property
    def busy(self) -> bool:
        """Whether another run would overlap."""
        return self.queued or (self.active is not None and self.active.holds(self.now))

    @property
    def reserved(self) -> bool:
        """Whether the active one only waits for its time."""
        return (
            self.active is not None
            and not self.active.holds(self.now)
            and self.active.state is State.WAITING
        )


class _Ruling(msgspec.Struct):
    """What was decided about a batch of runs, to be written."""

    start: list[tuple[TaskKey, TaskKey | None]] = []  # with the job whose active run it becomes
    skip: list[tuple[TaskKey, str, Skipped]] = []
    queue: list[TaskKey] = []
    replace: list[JobRuns] = []


async def claim_runs(
    connection: "Connection",
    incarnation: UUID,
    keys: Sequence[TaskKey],
    grace: float,
    flows: Sequence[int] = (),
) -> OverlapAnswer:
    """Within a transaction: ask the jobs, and claim what may start."""
    rows = await connection.fetch(
        query("gated_runs"), [k.tenant_id for k in keys], [k.id for k in keys]
    )
    if not rows:
        return OverlapAnswer(Claim([], None), [], [])
    jobs = {TaskKey(row["tenant_id"], row["cron_job_id"]) for row in rows}
    standings = await locked(connection, jobs)
    await _take_back_reservations(connection, standings.values())
    ruling = _rule(rows, standings)
    settled = await _write(connection, ruling)
    started = [run for run, _ in ruling.start]
    claimed = Claim([], None)
    if started:
        chosen = dict(zip(keys, flows, strict=False))
        known = [chosen.get(key, UNKNOWN_FLOW) for key in started]
        claimed = await claim(connection, incarnation, started, grace, known, admitted=True)
    replacing = [TaskKey(s.job.tenant_id, s.job.id) for s in ruling.replace]
    started_queued = await start_queued(connection, replacing) if replacing else []
    skipped = [reason for run, _, reason in ruling.skip if run in settled]
    return OverlapAnswer(claimed, list(settled), started_queued, skipped)


async def start_queued(connection: "Connection", jobs: Iterable[TaskKey]) -> list[Entry]:
    """Within a transaction: let the first queued run of each job start, where none is active."""
    standings = await locked(connection, jobs)
    waiting = [key for key, standing in standings.items() if standing.queued]
    if not waiting:
        return []
    rows = await connection.fetch(
        query("queued_runs"), [k.tenant_id for k in waiting], [k.id for k in waiting]
    )
    queues: dict[TaskKey, list[TaskKey]] = defaultdict(list)
    for row in rows:
        job = TaskKey(row["tenant_id"], row["cron_job_id"])
        queues[job].append(TaskKey(row["tenant_id"], row["id"]))
    turns = []
    for job, queue in queues.items():
        standing = standings[job]
        if standing.active is not None and standing.active.holds(standing.now):
            await _insist(connection, standing)
        else:
            turns.append((queue[0], job))
    return await _start(connection, turns)


async def take_place(connection: "Connection", job: CronJob, task_id: UUID) -> bool:
    """Within a transaction: make a new run the active one, unless it would overlap."""
    key = TaskKey(job.tenant_id, job.id)
    standings = await locked(connection, [key])
    await _take_back_reservations(connection, standings.values())
    if standings[key].busy:
        return False
    await _set_active(connection, [(TaskKey(job.tenant_id, task_id), key)])
    return True


async def locked(connection: "Connection", jobs: Iterable[TaskKey]) -> dict[TaskKey, JobRuns]:
    """Lock jobs, and see what their runs are doing."""
    keys = list(jobs)
    rows = await connection.fetch(
        query("lock_jobs"), [k.tenant_id for k in keys], [k.id for k in keys]
    )
    found = [governing_job_of(row) for row in rows]
    active = await connection.fetch(
        query("active_runs"),
        [job.tenant_id for job in found],
        [job.id for job in found],
        [job.active_task_id for job in found],
    )
    by_id = {row["cron_job_id"]: row for row in active}
    return {TaskKey(job.tenant_id, job.id): _standing(job, by_id[job.id]) for job in found}


def _standing(job: CronJob, row: asyncpg.Record) -> JobRuns:
    active = None
    if row["id"] is not None:
        active = Active(
            row["id"], State(row["state"]), row["attempt"], row["due_at"], row["cancel_requested"]
        )
    return JobRuns(job, active, row["queued"], row["now"])


async def _take_back_reservations(connection: "Connection", standings: Iterable[JobRuns]) -> None:
    """A run that comes before the reserved one goes first; the reserved one asks in its turn."""
    reserved = {s.active.task_id: s for s in standings if s.reserved and s.active is not None}
    if not reserved:
        return
    rows = await connection.fetch(
        query("gate_runs"), [s.job.tenant_id for s in reserved.values()], list(reserved)
    )
    taken_back = {row["id"] for row in rows}
    for task_id, standing in reserved.items():
        if task_id not in taken_back and standing.active is not None:
            # It has become due, or is no longer there: only the next look can tell.
            standing.active = msgspec.structs.replace(standing.active, due_at=standing.now)


def _rule(rows: Sequence[asyncpg.Record], standings: dict[TaskKey, JobRuns]) -> _Ruling:
    ruling = _Ruling()
    for row in sorted(rows, key=lambda row: (row["due_at"], row["id"])):
        run = TaskKey(row["tenant_id"], row["id"])
        job = TaskKey(row["tenant_id"], row["cron_job_id"])
        standing = standings.get(job)
        if row["expired"] or standing is None:
            # Missed: it is claimed to be put to rest. Or its job is gone, and nobody minds.
            ruling.start.append((run, None))
            continue
        policy = standing.job.definition.overlap_policy
        match decide(policy, active=standing.busy, made_up=_makes_up(row, standing.job)):
            case Decision.START:
                ruling.start.append((run, job))
                standing.active = Active(run.id, State.WAITING, 1, standing.now)
            case Decision.SKIP:
                ruling.skip.append((run, _reason(standing), Skipped.OVERLAP))
            case Decision.QUEUE:
                ruling.queue.append(run)
                standing.queued = True
            case Decision.REPLACE:
                ruling.queue.append(run)
                ruling.replace.append(standing)
                standing.queued = True
    return ruling


def _makes_up(row: asyncpg.Record, job: CronJob) -> bool:
    """Whether the run makes up for one that nobody started in time."""
    if row["kind"] == RunKind.BACKFILL:
        return True
    definition = job.definition
    late = row["now"] - row["execute_at"] > timedelta(seconds=definition.missed_after_seconds)
    return late and definition.missed_run_policy is Missed.BACKFILL


def _reason(standing: JobRuns) -> str:
    if standing.active is None:
        return "skipped: runs before it are queued"
    return f"skipped: the run before it had not ended (task {standing.active.task_id})"


async def _write(connection: "Connection", ruling: _Ruling) -> set[TaskKey]:
    """Gives those that are skipped or queued now. One that is changed just then is neither, and
    asks again."""
    settled: list[asyncpg.Record] = []
    await _set_active(connection, ruling.start)
    for standing in ruling.replace:
        await _supersede(connection, standing, ruling)
    if ruling.skip:
        settled += await connection.fetch(
            query("skip_runs"),
            [run.tenant_id for run, _, _ in ruling.skip],
            [run.id for run, _, _ in ruling.skip],
            [reason for _, reason, _ in ruling.skip],
            [skipped for _, _, skipped in ruling.skip],
        )
    if ruling.queue:
        settled += await connection.fetch(
            query("queue_runs"),
            [run.tenant_id for run in ruling.queue],
            [run.id for run in ruling.queue],
        )
    return {TaskKey(tenant_id, task_id) for tenant_id, task_id in settled}


async def _set_active(
    connection: "Connection", runs: Iterable[tuple[TaskKey, TaskKey | None]]
) -> None:
    chosen = [(run, job) for run, job in runs if job is not None]
    if chosen:
        await connection.execute(
            query("set_active"),
            [job.tenant_id for _, job in chosen],
            [job.id for _, job in chosen],
            [run.id for run, _ in chosen],
        )


async def _supersede(connection: "Connection", standing: JobRuns, ruling: _Ruling) -> None:
    """Cancel the active run, and those that were queued to replace it before."""
    job = standing.job
    rows = await connection.fetch(query("queued_runs"), [job.tenant_id], [job.id])
    why = "skipped: the next run came before this one could start"
    for row in rows:
        if row["kind"] != RunKind.BACKFILL:  # what was asked for by name is not dropped
            run = TaskKey(row["tenant_id"], row["id"])
            ruling.skip.append((run, why, Skipped.SUPERSEDED))
    await _insist(connection, standing)


async def _insist(connection: "Connection", standing: JobRuns) -> None:
    """Under `cancel_running`, ask the active run to end; one that is not running ends now."""
    active, job = standing.active, standing.job
    if active is None or job.definition.overlap_policy is not Overlap.CANCEL_RUNNING:
        return
    if active.state is State.RUNNING:
        if not active.cancel_requested:
            await connection.fetch(
                query("interrupt_run"), job.tenant_id, active.task_id, CANCEL_CHANNEL
            )
        return
    await connection.fetch(
        query("end_waiting_run"), job.tenant_id, active.task_id, "cancelled: the next run came"
    )


async def _start(connection: "Connection", turns: Sequence[tuple[TaskKey, TaskKey]]) -> list[Entry]:
    if not turns:
        return []
    await _set_active(connection, turns)
    rows = await connection.fetch(
        query("start_queued"), [run.tenant_id for run, _ in turns], [run.id for run, _ in turns]
    )
    return [
        Entry(
            TaskKey(row["tenant_id"], row["id"]),
            row["due_at"],
            lane_of(row["lane"]),
            recurring=True,
            flow=row["flow"],
        )
        for row in rows
    ]
