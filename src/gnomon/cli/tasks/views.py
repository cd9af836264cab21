"""Tasks, their executions, and lists of tasks, for people."""

from collections.abc import AsyncIterable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gnomon.cli.shared import output
from gnomon.cli.shared.output import compact, moment, second, shortened, span
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.tasks import statuses, template

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

ROWS_AT_ONCE = 500  # a longer list is printed in pieces, as it comes in
BODY_SHOWN = 200

_TASKS = (
    Column("task", Fit.ID),
    Column("status", Fit.WHOLE),
    Column("type", lines=2, least=12),
    Column("priority", Fit.WHOLE, rank=4),
    Column("queue", rank=5),
    Column("due", Fit.WHOLE),
    Column("attempt", Fit.WHOLE, rank=2),
    Column("name", rank=3),
    Column("tags", rank=6),
)
_DEAD = (
    Column("task", Fit.ID),
    Column("type", lines=2),
    Column("executed", Fit.WHOLE),
    Column("attempt", Fit.WHOLE, rank=2),
    Column("error", lines=2, least=30),
    Column("queue", rank=3),
    Column("tags", rank=4),
)
_RESOLVED = (
    Column("task", Fit.ID),
    Column("type", lines=2),
    Column("resolution", Fit.WHOLE),
    Column("when", Fit.WHOLE),
    Column("who", rank=1),
    Column("note", lines=2, least=20),
    Column("error", rank=2),
)
_GROUPS = (
    Column("fingerprint", Fit.WHOLE),
    Column("count", Fit.WHOLE),
    Column("type", lines=2),
    Column("error", lines=2, least=30),
    Column("last", Fit.WHOLE),
    Column("first", Fit.WHOLE, rank=2),
    Column("example", Fit.ID, rank=3),
)
_EXECUTIONS = (
    Column("attempt", Fit.WHOLE),
    Column("outcome", Fit.WHOLE),
    Column("started", Fit.WHOLE),
    Column("took", Fit.WHOLE),
    Column("worker", Fit.WHOLE, rank=2),
    Column("HTTP", Fit.WHOLE, rank=1),  # errors tell it
    Column("detail", least=30),
)
_TRANSITIONS = (
    Column("at", Fit.WHOLE),
    Column("from", Fit.WHOLE),
    Column("to", Fit.WHOLE),
    Column("attempt", Fit.WHOLE),
    Column("node"),
)


def now() -> datetime:
    from gnomon.clock import SystemClock

    return SystemClock().now()


async def task_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each task."""
    await in_pieces(items, task_rows)


async def dead_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each dead letter, and its error."""
    await in_pieces(items, _dead_rows)


async def resolved_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each resolved dead letter: who, when and why."""
    await in_pieces(items, _resolved_rows)


async def group_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each group of dead letters."""
    await in_pieces(items, _group_rows)


async def transition_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each transition of a task."""
    await in_pieces(items, _transition_rows)


async def in_pieces(
    items: AsyncIterable["Json"], show_rows: Callable[[Sequence["Json"]], None]
) -> None:
    """Print a table while its rows come in."""
    rows: list[Json] = []
    found = 0
    async for item in items:
        rows.append(item)
        found += 1
        if len(rows) == ROWS_AT_ONCE:
            show_rows(rows)
            rows.clear()
    if rows:
        show_rows(rows)
    if not found:
        output.note("nothing found")


def task_rows(tasks: Sequence["Json"]) -> None:
    at = now()
    output.table(
        _TASKS,
        [
            (
                task["task_id"],
                statuses.short(task, at),
                task["task_type"],
                task["priority"],
                task["queue"] or "",
                second(task["next_retry_at"] or task["execute_at"]),
                str(task["attempt"]),
                task.get("name") or "",
                " ".join(task["tags"]),
            )
            for task in tasks
        ],
    )


def _dead_rows(tasks: Sequence["Json"]) -> None:
    at = now()
    output.table(
        _DEAD,
        [
            (
                task["task_id"],
                task["task_type"],
                output.age(task.get("started_at"), at),
                str(task["attempt"]),
                shortened(task.get("last_error") or "", BODY_SHOWN),
                task["queue"] or "",
                " ".join(task["tags"]),
            )
            for task in tasks
        ],
    )


def _resolved_rows(tasks: Sequence["Json"]) -> None:
    output.table(
        _RESOLVED,
        [
            (
                task["task_id"],
                task["task_type"],
                task["resolution"] or "",
                second(task["resolved_at"]),
                task["resolved_by"] or "",
                task["note"] or "",
                shortened(task.get("last_error") or "", BODY_SHOWN),
            )
            for task in tasks
        ],
    )


def _group_rows(groups: Sequence["Json"]) -> None:
    at = now()
    output.table(
        _GROUPS,
        [
            (
                group["fingerprint"],
                f"{group['count']}{'+' if group['count_capped'] else ''}",
                group["task_type"],
                group["error"],
                output.age(group["last_seen"], at),
                output.age(group["first_seen"], at),
                group["example"],
            )
            for group in groups
        ],
    )


async def read(client: "DocumentClient", task_id: str) -> "Json":
    """A task with its last executions, as one document."""
    task: Json = await client.get_task(task_id, include="executions")
    return task


def show(task: "Json", *, all_tracebacks: bool = False) -> None:
    """Print everything that is set on a task, a table of its executions, and where the last of
    them failed, or all."""
    output.fields(_facts(task))
    executions = task["executions"]
    if executions:
        output.echo()
        output.table(_EXECUTIONS, [_execution_row(each) for each in executions])
    failed = [each for each in executions if each.get("traceback")]
    for each in failed if all_tracebacks else failed[-1:]:
        output.echo()
        output.echo(f"traceback of attempt {each['attempt']}:")
        output.echo(each["traceback"])


def _transition_rows(transitions: Sequence["Json"]) -> None:
    rows = [
        (
            moment(each["at"]),
            each["from_state"] or "(new)",
            each["to_state"] or "(deleted)",
            str(each["attempt"]),
            each["node"] or "",
        )
        for each in transitions
    ]
    output.table(_TRANSITIONS, rows)


def _facts(task: "Json") -> list[tuple[str, str]]:
    at = now()
    return [
        ("task", task["task_id"]),
        ("name", task.get("name") or ""),
        ("status", statuses.sentence(task, at)),
        *template.facts(task),
        ("payload", _payload(task)),
        ("due", moment(task["execute_at"])),
        ("created", moment(task["created_at"])),
        ("started", moment(task.get("started_at"))),
        ("finished", moment(task.get("finished_at"))),
        ("attempt", _attempt(task)),
        ("progress", _progress(task.get("progress"))),
        ("next retry", moment(task.get("next_retry_at"))),
        ("last error", shortened(task.get("last_error") or "", BODY_SHOWN)),
        ("result", shortened(compact(task.get("result")), BODY_SHOWN)),
        ("retry of", task.get("retry_of") or ""),
        ("workflow run", task.get("workflow_run_id") or ""),
        ("batch", task.get("batch_id") or ""),
        ("node", task.get("node") or ""),
        ("correlation", _correlation(task)),
        ("trace", task.get("trace_id") or ""),
        ("resolved", _resolved(task)),
        ("note", task.get("note") or ""),
    ]


def _correlation(task: "Json") -> str:
    """Nothing where it is the task's own id, which stands above."""
    given = task.get("correlation_id") or ""
    return "" if given == task["task_id"] else given


def _resolved(task: "Json") -> str:
    if not task.get("resolved_at"):
        return task.get("resolution") or ""
    who = f" by {task['resolved_by']}" if task["resolved_by"] else ""
    return f"{task['resolution']}{who}, {moment(task['resolved_at'])}"


def _progress(progress: "Json | None") -> str:
    if progress is None:
        return ""
    share = f"{progress['fraction']:.0%} at {moment(progress['at'])}"
    return f"{share}: {progress['message']}" if progress["message"] else share


def _attempt(task: "Json") -> str:
    most = task["retry_policy"]["max_retries"] + 1
    done = task["attempt"]
    # Losses and re-drives count as attempts, and spend no retries.
    return f"{done} of {most}" if 0 < done <= most else str(done)


def _payload(task: "Json") -> str:
    if not task["payload_kept"]:
        return f"not kept (keep_payload: {task['keep_payload']})"
    return shortened(compact(task.get("payload")), BODY_SHOWN)


def _execution_row(each: "Json") -> tuple[str, ...]:
    detail = each.get("error") or each.get("response_body") or compact(each.get("result"))
    return (
        str(each["attempt"]),
        each["outcome"],
        second(each.get("started_at")),
        _took(each.get("started_at"), each.get("finished_at")),
        each.get("worker") or "",
        str(each.get("response_status") or ""),
        shortened(detail, BODY_SHOWN),
    )


def _took(started: str | None, finished: str | None) -> str:
    if started is None or finished is None:
        return ""
    took = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    seconds = max(0.0, took.total_seconds())
    if seconds >= 60:
        return span(round(seconds))
    return f"{seconds:.1f}s" if seconds >= 1 else f"{seconds * 1000:.0f}ms"
