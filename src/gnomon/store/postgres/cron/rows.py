"""Rows of cron jobs and their ledger as the model's values, and back."""

from typing import Any

import asyncpg
import msgspec

from gnomon.cron.job import CronJob, CronRun, Definition, RunKind, Skipped
from gnomon.model.remembered import remembered_long
from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.store.postgres.rows import NO_TARGET, UNREADABLE

_KEPT_BYTES = 512 * 1024  # of one definition: payloads may be large
_MOST_BYTES = 16 * 1024 * 1024  # of all


class _Template(msgspec.Struct):
    """The one field that is kept as it was written. A decoder knows no optional raw values."""

    payload_template: msgspec.Raw = msgspec.Raw()


_template = msgspec.json.Decoder(_Template)


@remembered_long(_KEPT_BYTES, _MOST_BYTES)
def definition_of(text: str) -> Definition:
    """Frequent jobs are planned over and over: decoding them once is enough."""
    values = msgspec.json.decode(text, type=dict[str, Any])
    template = _template.decode(text).payload_template.copy()
    values["payload_template"] = None
    definition = msgspec.convert(values, Definition)
    return msgspec.structs.replace(definition, payload_template=template or None)


def stored_definition(definition: Definition) -> str:
    return msgspec.json.encode(definition).decode()


def job_of(row: asyncpg.Record) -> CronJob:
    """Raises ValueError."""
    try:
        definition = definition_of(row["definition"])
    except UNREADABLE as error:
        raise ValueError(f"its definition cannot be read: {error}") from error
    return _job(row, definition)


def governing_job_of(row: asyncpg.Record) -> CronJob:
    """A job as the overlap rules need it. One that cannot be read gets the default policy, `skip`:
    it must not keep the runs of other jobs from starting."""
    try:
        return job_of(row)
    except ValueError:
        return _job(row, Definition(name=row["name"], task_type="", target=NO_TARGET))


def _job(row: asyncpg.Record, definition: Definition) -> CronJob:
    return CronJob(
        id=row["id"],
        tenant_id=row["tenant_id"],
        definition=definition,
        version=row["version"],
        definition_version=row["definition_version"],
        next_fire_at=row["next_fire_at"],
        runs=row["runs"],
        active_task_id=row["active_task_id"],
        active_run=row.get("active_run"),
        paused_at=row["paused_at"],
        pause_reason=row["pause_reason"],
        paused_by=row["paused_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        created_by=row["created_by"],
    )


def run_of(row: asyncpg.Record) -> CronRun:
    """A row of runs.sql or latest_runs.sql."""
    state = None if row["state"] is None else State(row["state"])
    status = None
    if state is not None:
        status = status_of(state, row["due_at"], row["attempt"], row["now"])
    return CronRun(
        cron_job_id=row["cron_job_id"],
        fire_at=row["fire_at"],
        kind=RunKind(row["kind"]),
        task_id=row["task_id"],
        skipped=None if row["skipped"] is None else Skipped(row["skipped"]),
        missed=row["missed"],
        status=status,
        started_at=row["started_at"],
        # A dead letter's due time is when it died.
        finished_at=row["due_at"] if state is State.DEAD else row["finished_at"],
        attempt=row["attempt"],
        last_error=row["last_error"],
        sla_missed_at=row["sla_missed_at"],
    )
