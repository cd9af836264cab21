"""Recurring jobs, their runs and their fires, for people."""

from collections.abc import AsyncIterable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gnomon.cli.shared import output
from gnomon.cli.shared.output import compact, moment, second, shortened, span
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.tasks import template, views

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json


_JOBS = (
    Column("job", Fit.NAME),
    Column("status", Fit.WHOLE),
    Column("when"),
    Column("zone", Fit.WHOLE, rank=1),
    Column("last", Fit.WHOLE, rank=2),
    Column("last fire", Fit.WHOLE, rank=5),
    Column("last success", Fit.WHOLE, rank=6),
    Column("next", Fit.WHOLE),
    Column("runs", Fit.WHOLE, rank=7),
    Column("tags", rank=3),
    Column("source", rank=4),
)
_RUNS = (
    Column("fire", Fit.WHOLE),
    Column("status", Fit.WHOLE),
    Column("task", Fit.ID),
    Column("kind", Fit.WHOLE, rank=1),
    Column("started", Fit.WHOLE, rank=3),
    Column("finished", Fit.WHOLE, rank=4),
    Column("attempt", Fit.WHOLE, rank=2),
    Column("detail"),
)


async def job_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each job."""
    await views.in_pieces(items, _job_rows)


async def run_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each fire."""
    await views.in_pieces(items, run_rows)


def show(job: "Json", runs: Sequence["Json"]) -> None:
    """Print everything that is set on a job, and its latest runs."""
    output.fields([*_when(job), *_what(job), *_rules(job), *_state(job)])
    if runs:
        output.echo()
        run_rows(runs)


def run_rows(runs: Sequence["Json"]) -> None:
    output.table(
        _RUNS,
        [
            (
                second(run["fire_at"]),
                run["status"] or "",
                run["run_id"] or "",
                run["kind"],
                second(run["started_at"]),
                second(run["finished_at"]),
                str(run["attempt"] or ""),
                shortened(_detail(run), views.BODY_SHOWN),
            )
            for run in runs
        ],
    )


def fires(answer: "Json") -> None:
    """Print what a schedule means, and its next fires."""
    output.echo(answer["description"])
    if not answer["fires"]:
        output.note("it never fires again")
        return
    output.echo()
    fire_rows(answer["fires"])
    for warning in answer["warnings"]:
        output.note(warning)


def fire_rows(rows: Iterable["Json"]) -> None:
    output.table(
        ["local", "UTC", "note"],
        [(_local(row["local"]), moment(row["fire_at"]), row.get("note") or "") for row in rows],
    )


def _local(text: str) -> str:
    local = datetime.fromisoformat(text)
    return f"{local:%a} {local.isoformat(' ')}"


def _job_rows(jobs: Sequence["Json"]) -> None:
    output.table(
        _JOBS,
        [
            (
                job["name"],
                job["status"],
                job["cron_expression"] or f"every {span(job['interval_seconds'])}",
                job["timezone"],
                job["last_status"] or "",
                second(job["last_fire_at"]),
                second(job["last_success_at"]),
                second(job["next_fire_at"]),
                str(job["runs"]),
                " ".join(job["tags"]),
                job["source"] or "",
            )
            for job in jobs
        ],
    )


def _when(job: "Json") -> list[tuple[str, str]]:
    return [
        ("job", job["name"]),
        ("id", job["cron_job_id"]),
        ("status", job["status"]),
        ("paused", moment(job["paused_at"])),
        ("because", job["pause_reason"] or ""),
        ("paused by", job["paused_by"] or ""),
        ("when", job["description"]),
        ("cron", job["cron_expression"] or ""),
        ("every", span(job["interval_seconds"])),
        ("from", job["interval_from"] or ""),
        ("clock changes", _dst(job)),
        ("start", moment(job["start_date"])),
        ("end", moment(job["end_date"])),
        ("next", moment(job["next_fire_at"])),
        ("last fire", moment(job["last_fire_at"])),
        ("last status", job["last_status"] or ""),
        ("last success", moment(job["last_success_at"])),
    ]


def _dst(job: "Json") -> str:
    # An interval follows real time.
    return f"gap {job['dst']['gap']}, fold {job['dst']['fold']}" if job["cron_expression"] else ""


def _what(job: "Json") -> list[tuple[str, str]]:
    payload = shortened(compact(job["payload_template"]), views.BODY_SHOWN)
    return [*template.facts(job), ("payload", payload)]


def _rules(job: "Json") -> list[tuple[str, str]]:
    return [
        ("overlap", job["overlap_policy"]),
        ("missed", job["missed_run_policy"]),
        ("missed after", span(job["missed_after_seconds"])),
        ("backfill limit", str(job["backfill_limit"] or "")),
        ("backfill window", span(job["backfill_window_seconds"])),
        ("jitter", span(job["jitter_seconds"] or None)),
    ]


def _state(job: "Json") -> list[tuple[str, str]]:
    most = job["max_runs"]
    return [
        ("runs", f"{job['runs']} of {most}" if most else str(job["runs"])),
        ("active run", job["active_task_id"] or ""),
        ("source", job["source"] or ""),
        ("created", moment(job["created_at"])),
        ("updated", moment(job["updated_at"])),
    ]


def _detail(run: "Json") -> str:
    # The error of a run that was skipped says the reason, and which run it met.
    told = run["last_error"] or run["reason"]
    late = "later than the SLA allows" if run["sla_missed_at"] else ""
    return "; ".join(part for part in (told, late) if part)
