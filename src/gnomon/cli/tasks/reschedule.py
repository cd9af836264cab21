"""`gnomon tasks reschedule`: move tasks to another time, some or all that match."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import remote, values
from gnomon.cli.shared.options import (
    ApiUrl,
    AsJson,
    QueueFilter,
    TagFilter,
    TypeFilter,
    Yes,
    settings_of,
)
from gnomon.cli.shared.short_ids import task_id_of
from gnomon.cli.tasks import bulk

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

NewTime = Annotated[
    Any,
    typer.Option(
        "--at", parser=values.moment, metavar="TIME", help="Run at 'tomorrow 09:00', or a date."
    ),
]
NewDelay = Annotated[
    Any,
    typer.Option(
        "--delay", parser=values.duration, metavar="DURATION", help="Run after 90s, 5m, 2h or 1d."
    ),
]


def reschedule(
    ctx: typer.Context,
    task_ids: bulk.SomeTaskIds = None,
    at: NewTime = None,
    delay: NewDelay = None,
    everything: bulk.AllMatching = False,
    status: bulk.StatusFilter = None,
    task_type: TypeFilter = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    yes: Yes = False,
    no_wait: bulk.NoWait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Move tasks that have not started to another time.

    \b
    gnomon tasks reschedule ID --at "tomorrow 09:00"
    gnomon tasks reschedule --all --tag customer-42 --delay 2h
    """
    filters = bulk.given_filters(status=status, task_type=task_type, tag=tag, queue=queue)
    bulk.check_chosen(task_ids, filters, everything=everything)
    moved = _moved(at, delay)
    url = remote.api_url(settings_of(ctx), api)
    if not task_ids:
        bulk.run_all(url, "reschedule", filters, yes=yes, no_wait=no_wait, as_json=as_json, **moved)
        return

    async def act(client: "DocumentClient", task_id: str) -> tuple[str, "Json"]:
        task = await client.patch_task(task_id, moved)
        return f"{task_id} is {task['status']}, due {task['execute_at']}", task

    remote.for_each(url, task_ids, act, member="tasks", find=task_id_of, as_json=as_json)


def _moved(at: datetime | None, delay: float | None) -> dict[str, Any]:
    if (at is None) == (delay is None):
        raise typer.BadParameter("give the new time, either with --at or with --delay")
    if at is not None:
        return {"execute_at": values.rfc3339(at)}
    return {"delay_seconds": delay}
