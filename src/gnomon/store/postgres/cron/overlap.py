"""Asks the overlap rules about runs, with their jobs' rows locked, and writes the answers.

Statements come one after the other, so that each sees what was committed before the lock was
granted. Tasks are only ever locked after their job.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.cron.job import CronJob
from gnomon.cron.overlap import (
    Active,
    DueRun,
    JobRuns,
    QueuedRun,
    Ruling,
    StopActive,
    Turn,
    rule,
    stop_active,
    superseded,
    turns,
)
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Claim, Entry
from gnomon.store.ports.planning import OverlapAnswer
from gnomon.store.postgres.cron.rows import governing_job_of
from gnomon.store.postgres.dispatch.dispatch_store import claim
from gnomon.store.postgres.hints import CANCEL_CHANNEL
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import lane_of

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


async def claim_runs(
    connection: "Connection",
    incarnation: UUID,
    keys: Sequence[TaskKey],
    grace: float,
    flows: Sequence[int] = (),
    sessions: Sequence[UUID] = (),
) -> OverlapAnswer:
    """Within a transaction: ask the jobs, and claim what may start."""
    rows = await connection.fetch(
        query("gated_runs"), [k.tenant_id for k in keys], [k.id for k in keys]
    )
    if not rows:
        return OverlapAnswer(Claim([], None), [], [])
    due = [_due_run(row) for row in rows]
    jobs = await locked(connection, {run.job for run in due})
    jobs = await _take_back_reservations(connection, jobs)
    ruling = rule(due, jobs)
    settled = await _write(connection, ruling)
    started = [turn.run for turn in ruling.start]
    claimed = Claim([], None)
    if started:
        chosen = dict(zip(keys, flows, strict=False))
        known = [chosen.get(key, UNKNOWN_FLOW) for key in started]
        takers = dict(zip(keys, sessions, strict=False))
        each = [takers[key] for key in started] if takers else ()
        claimed = await claim(connection, incarnation, started, grace, known, each, consented=True)
    replacing = [job.key for job in ruling.replace]
    started_queued = await start_queued(connection, replacing) if replacing else []
    skipped = [skip.skipped for skip in ruling.skip if skip.run in settled]
    return OverlapAnswer(claimed, list(settled), started_queued, skipped)


async def start_queued(connection: "Connection", keys: Iterable[TaskKey]) -> list[Entry]:
    """Within a transaction: start the first queued run of each job where none is active."""
    jobs = {key: job for key, job in (await locked(connection, keys)).items() if job.queued}
    if not jobs:
        return []
    # A plan that was made while a run was being queued may have reserved the place for a later one.
    jobs = await _take_back_reservations(connection, jobs)
    now_due, held = turns(await _queued_runs(connection, list(jobs)), jobs)
    for job in held:
        await _stop_active(connection, job)
    return await _start(connection, now_due)


async def take_place(connection: "Connection", job: CronJob, task_id: UUID) -> bool:
    """Within a transaction: make a new run the active one, unless it would overlap."""
    key = TaskKey(job.tenant_id, job.id)
    jobs = await locked(connection, [key])
    jobs = await _take_back_reservations(connection, jobs)
    if jobs[key].busy:
        return False
    await _set_active(connection, [Turn(TaskKey(job.tenant_id, task_id), key)])
    return True


async def locked(connection: "Connection", jobs: Iterable[TaskKey]) -> dict[TaskKey, JobRuns]:
    """Lock jobs, and read the state of their runs."""
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
    return {TaskKey(job.tenant_id, job.id): _job_runs(job, by_id[job.id]) for job in found}


async def _take_back_reservations(
    connection: "Connection", jobs: Mapping[TaskKey, JobRuns]
) -> dict[TaskKey, JobRuns]:
    """A run that comes before the reserved one goes first; the reserved one asks in its turn."""
    reserved = {job.reserved: job for job in jobs.values() if job.reserved is not None}
    if not reserved:
        return dict(jobs)
    rows = await connection.fetch(
        query("take_back_reservations"),
        [job.job.tenant_id for job in reserved.values()],
        list(reserved),
    )
    taken_back = {row["id"] for row in rows}
    kept = [job for task_id, job in reserved.items() if task_id not in taken_back]
    return {**jobs, **{job.key: job.with_reservation_due() for job in kept}}


async def _write(connection: "Connection", ruling: Ruling) -> set[TaskKey]:
    """Gives those that are skipped or queued now. One that is changed just then is neither, and
    asks again."""
    settled: list[asyncpg.Record] = []
    await _set_active(connection, ruling.start)
    for job in ruling.replace:
        ruling.skip.extend(superseded(await _queued_runs(connection, [job.key])))
        await _stop_active(connection, job)
    if ruling.skip:
        settled += await connection.fetch(
            query("skip_runs"),
            [skip.run.tenant_id for skip in ruling.skip],
            [skip.run.id for skip in ruling.skip],
            [skip.reason for skip in ruling.skip],
            [skip.skipped for skip in ruling.skip],
        )
    if ruling.queue:
        settled += await connection.fetch(
            query("queue_runs"),
            [run.tenant_id for run in ruling.queue],
            [run.id for run in ruling.queue],
        )
    return {TaskKey(tenant_id, task_id) for tenant_id, task_id in settled}


async def _set_active(connection: "Connection", started: Iterable[Turn]) -> None:
    chosen = [(turn.run, turn.job) for turn in started if turn.job is not None]
    if chosen:
        await connection.execute(
            query("set_active"),
            [job.tenant_id for _, job in chosen],
            [job.id for _, job in chosen],
            [run.id for run, _ in chosen],
        )


async def _stop_active(connection: "Connection", job: JobRuns) -> None:
    how = stop_active(job)
    if how is None or job.active is None:
        return
    run = job.job.tenant_id, job.active.task_id
    if await connection.fetchval(query("stop_workflow"), *run) is not None:
        return  # it ends when the run of its workflow has
    match how:
        case StopActive.INTERRUPT:
            await connection.fetch(query("interrupt_run"), *run, CANCEL_CHANNEL)
        case StopActive.END:
            await connection.fetch(query("end_waiting_run"), *run, "cancelled: the next run came")


async def _start(connection: "Connection", now_due: Sequence[Turn]) -> list[Entry]:
    if not now_due:
        return []
    await _set_active(connection, now_due)
    rows = await connection.fetch(
        query("start_queued"),
        [turn.run.tenant_id for turn in now_due],
        [turn.run.id for turn in now_due],
    )
    return [
        Entry(
            TaskKey(row["tenant_id"], row["id"]),
            row["due_at"],
            lane_of(row["lane"]),
            recurring=True,
            flow=row["flow"],
            by_handler=row["by_handler"],
        )
        for row in rows
    ]


async def _queued_runs(connection: "Connection", jobs: Sequence[TaskKey]) -> list[QueuedRun]:
    rows = await connection.fetch(
        query("queued_runs"), [k.tenant_id for k in jobs], [k.id for k in jobs]
    )
    return [QueuedRun(_key(row), _job_key(row), row["kind"]) for row in rows]


def _due_run(row: asyncpg.Record) -> DueRun:
    return DueRun(
        key=_key(row),
        job=_job_key(row),
        due_at=row["due_at"],
        execute_at=row["execute_at"],
        kind=row["kind"],
        expired=row["expired"],
        now=row["now"],
    )


def _job_runs(job: CronJob, row: asyncpg.Record) -> JobRuns:
    active = None
    if row["id"] is not None:
        active = Active(
            row["id"], State(row["state"]), row["attempt"], row["due_at"], row["cancel_requested"]
        )
    return JobRuns(job, active, row["queued"], row["now"])


def _key(row: asyncpg.Record) -> TaskKey:
    return TaskKey(row["tenant_id"], row["id"])


def _job_key(row: asyncpg.Record) -> TaskKey:
    return TaskKey(row["tenant_id"], row["cron_job_id"])
