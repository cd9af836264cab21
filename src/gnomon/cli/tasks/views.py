"""Tasks, their executions, and lists of tasks, for people."""

from collections.abc import AsyncIterable, Callable, Sequence
from typing import TYPE_CHECKING

from gnomon.cli.shared import output
from gnomon.cli.shared.output import compact, moment, shortened
from gnomon.cli.tasks import template

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

ROWS_AT_ONCE = 500  # a longer list is printed in pieces, as it comes in
BODY_SHOWN = 200


async def task_list(items: AsyncIterable["Json"]) -> None:
    """Print a table with a row for each task."""
    await in_pieces(items, _task_rows)


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


def _task_rows(tasks: Sequence["Json"]) -> None:
    output.table(
        ["task", "status", "type", "priority", "queue", "due", "attempt", "name", "tags"],
        [
            (
                task["task_id"],
                task["status"],
                task["task_type"],
                task["priority"],
                task["queue"] or "",
                moment(task["next_retry_at"] or task["execute_at"]),
                str(task["attempt"]),
                task.get("name") or "",
                " ".join(task["tags"]),
            )
            for task in tasks
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
        output.table(
            ["attempt", "outcome", "worker", "started", "finished", "status", "detail"],
            [_execution_row(each) for each in executions],
        )
    failed = [each for each in executions if each.get("traceback")]
    for each in failed if all_tracebacks else failed[-1:]:
        output.echo()
        output.echo(f"traceback of attempt {each['attempt']}:")
        output.echo(each["traceback"])


def _facts(task: "Json") -> list[tuple[str, str]]:
    return [
        ("task", task["task_id"]),
        ("name", task.get("name") or ""),
        ("status", task["status"]),
        ("resolution", task.get("resolution") or ""),
        *template.facts(task),
        ("payload", _payload(task)),
        ("due", moment(task["execute_at"])),
        ("created", moment(task["created_at"])),
        ("started", moment(task.get("started_at"))),
        ("finished", moment(task.get("finished_at"))),
        ("attempt", str(task["attempt"])),
        ("progress", _progress(task.get("progress"))),
        ("next retry", moment(task.get("next_retry_at"))),
        ("last error", shortened(task.get("last_error") or "", BODY_SHOWN)),
        ("result", shortened(compact(task.get("result")), BODY_SHOWN)),
        ("retry of", task.get("retry_of") or ""),
    ]


def _progress(progress: "Json | None") -> str:
    if progress is None:
        return ""
    share = f"{progress['fraction']:.0%} at {moment(progress['at'])}"
    return f"{share}: {progress['message']}" if progress["message"] else share


def _payload(task: "Json") -> str:
    if not task["payload_kept"]:
        return f"not kept (keep_payload: {task['keep_payload']})"
    return shortened(compact(task.get("payload")), BODY_SHOWN)


def _execution_row(each: "Json") -> tuple[str, ...]:
    detail = each.get("error") or each.get("response_body") or compact(each.get("result"))
    return (
        str(each["attempt"]),
        each["outcome"],
        each.get("worker") or "",
        moment(each.get("started_at")),
        moment(each.get("finished_at")),
        str(each.get("response_status") or ""),
        shortened(detail, BODY_SHOWN),
    )
