"""Cron jobs. A `ref` is the id or the name of one."""

from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.cron import (
    BackfillInfo,
    BackfillSpec,
    CronJobEdit,
    CronJobInfo,
    CronJobSpec,
    DeclaredJob,
    DeclaredPut,
    PreviewInfo,
    PutInfo,
    RunInfo,
    ScheduleSpec,
)

Ref: TypeAlias = str | UUID
ChangedJob: TypeAlias = CronJobInfo | DeclaredJob

_JOBS = "/cron-jobs"


def create_cron_job(job: CronJobSpec, *, idempotency_key: str | None = None) -> Call[ChangedJob]:
    """Declares a recurring job."""
    return _changing("POST", _JOBS, body=job, key=idempotency_key)


def list_cron_jobs(
    *,
    name: str | None = None,
    tag: str | None = None,
    paused: bool | None = None,
    source: str | None = None,
    next_fire_before: datetime | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[CronJobInfo]:
    """Lists cron jobs, newest first; `name` is a part of the name."""
    query = {
        "name": name,
        "tag": tag,
        "paused": paused,
        "source": source,
        "next_fire_before": next_fire_before,
    }
    return Listing(
        path=_JOBS, member="cron_jobs", item=CronJobInfo, query=query, limit=limit, cursor=cursor
    )


def get_cron_job(ref: Ref) -> Call[CronJobInfo]:
    """Reads a cron job."""
    return Call(method="GET", path=_job(ref), answer=CronJobInfo)


def put_cron_job(
    ref: Ref, job: CronJobSpec, *, dry_run: bool = False, idempotency_key: str | None = None
) -> Call[PutInfo | DeclaredPut]:
    """Creates or replaces the cron job of this name; returns what that changed, or would."""
    return Call(
        method="PUT",
        path=_job(ref),
        query={"dry_run": True} if dry_run else {},
        body=job,
        answer=PutInfo,
        receipt=DeclaredPut,
        keyed=True,
        key=idempotency_key,
    )


def patch_cron_job(
    ref: Ref, changes: CronJobEdit, *, idempotency_key: str | None = None
) -> Call[ChangedJob]:
    """Changes a cron job."""
    return _changing("PATCH", _job(ref), body=changes, key=idempotency_key)


def delete_cron_job(ref: Ref, *, idempotency_key: str | None = None) -> Call[None]:
    """Removes a cron job and the runs that have not started."""
    return Call(method="DELETE", path=_job(ref), keyed=True, key=idempotency_key)


def pause_cron_job(
    ref: Ref, reason: str | None = None, *, idempotency_key: str | None = None
) -> Call[ChangedJob]:
    """Pauses a cron job: it starts no more runs on schedule."""
    body = {} if reason is None else {"reason": reason}
    return _changing("POST", f"{_job(ref)}/pause", body=body, key=idempotency_key)


def resume_cron_job(ref: Ref, *, idempotency_key: str | None = None) -> Call[ChangedJob]:
    """Resumes a cron job with its next fire."""
    return _changing("POST", f"{_job(ref)}/resume", key=idempotency_key)


def trigger_cron_job(ref: Ref, *, idempotency_key: str | None = None) -> Call[RunInfo]:
    """Runs a cron job now, whatever its schedule says."""
    return Call(
        method="POST",
        path=f"{_job(ref)}/trigger",
        answer=RunInfo,
        keyed=True,
        key=idempotency_key,
    )


def backfill_cron_job(
    ref: Ref, backfill: BackfillSpec, *, idempotency_key: str | None = None
) -> Call[BackfillInfo]:
    """Runs the fires of the past that have no run yet."""
    return Call(
        method="POST",
        path=f"{_job(ref)}/backfill",
        body=backfill,
        answer=BackfillInfo,
        keyed=True,
        key=idempotency_key,
    )


def list_cron_runs(
    ref: Ref, *, status: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Listing[RunInfo]:
    """Lists the runs of a cron job, latest fire first."""
    return Listing(
        path=f"{_job(ref)}/runs",
        member="runs",
        item=RunInfo,
        query={"status": status},
        limit=limit,
        cursor=cursor,
    )


def preview_cron_job(schedule: ScheduleSpec) -> Call[PreviewInfo]:
    """Previews the fires of a schedule, with a description in words. Nothing is stored."""
    path = f"{_JOBS}/preview"
    return Call(method="POST", path=path, body=schedule, answer=PreviewInfo, reads_only=True)


def _changing(
    method: str, path: str, *, body: Any = msgspec.UNSET, key: str | None
) -> Call[ChangedJob]:
    return Call(
        method=method,
        path=path,
        body=body,
        answer=CronJobInfo,
        receipt=DeclaredJob,
        keyed=True,
        key=key,
    )


def _job(ref: Ref) -> str:
    return f"{_JOBS}/{segment(ref)}"
