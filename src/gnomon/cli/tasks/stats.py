"""`gnomon tasks stats`: how many tasks there are, and what waits and runs where."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import (
    ApiUrl,
    AsJson,
    QueueFilter,
    TagFilter,
    TypeFilter,
    settings_of,
)
from gnomon.cli.shared.output import span
from gnomon.cli.tasks.template import PriorityName

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json


def stats(
    ctx: typer.Context,
    task_type: TypeFilter = None,
    priority: Annotated[
        PriorityName | None, typer.Option(case_sensitive=False, help="Only of this priority.")
    ] = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Count tasks by status, and what waits and runs by lane, type and queue.

    Counting stops at 10 000: 10000+ means that there are more.

    \b
    gnomon tasks stats
    gnomon tasks stats --type email.send
    """
    chosen = {"task_type": task_type, "priority": priority, "tag": tag, "queue": queue}
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.get_task_stats(**chosen), _show, as_json=as_json)


def _show(found: "Json") -> None:
    statuses = found["statuses"]
    output.table(["status", "tasks"], [(name, _count(each)) for name, each in statuses.items()])
    for title, key, loads in (
        ("priority", "priority", found["lanes"]),
        ("type", "task_type", found["task_types"]),
        ("queue", "queue", found["queues"]),
    ):
        if loads:
            output.echo()
            output.table(
                [title, "ready", "running", "oldest"],
                [(each[key] or "(none)", *_load(each)) for each in loads],
            )


def _load(each: "Json") -> tuple[str, str, str]:
    return _count(each["ready"]), _count(each["running"]), _age(each["oldest_ready_seconds"])


def _age(seconds: float | None) -> str:
    return "" if seconds is None else span(round(seconds, 0 if seconds >= 1 else 3))


def _count(count: "Json") -> str:
    return f"{count['count']}{'+' if count['capped'] else ''}"
