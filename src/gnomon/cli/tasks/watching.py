"""Watches a task until it has ended, and says at Ctrl-C that the task itself goes on."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gnomon.cli.shared import output, waiting
from gnomon.cli.tasks import statuses, views

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

OVER = {"COMPLETED", "DEAD_LETTERED", "CANCELLED", "EXPIRED"}


async def until_over(client: "DocumentClient", task_id: str, *, quiet: bool) -> "Json":
    """The task with its executions, once it has ended or is a dead letter. Every change until then
    is told on stderr, unless `quiet`."""
    stop = f"tasks cancel {task_id} --interrupt"
    with waiting.goes_on("task", f"tasks show {task_id} --watch", stop):
        told = None
        async for task in states(client, task_id):
            change = task["status"], task["attempt"], task.get("next_retry_at")
            if not quiet:
                # On a terminal the last line is kept up to date: it says how long it still takes.
                output.live(_line(task), new=change != told)
            told = change
        if not quiet:
            output.live_end()
        return await views.read(client, task_id)


def states(client: "DocumentClient", task_id: str) -> AsyncIterator["Json"]:
    """The task until it has ended: see `waiting.states`."""

    async def read(seconds: float | None) -> "Json":
        found: Json = await client.get_task(task_id, wait=seconds)
        return found

    return waiting.states(read, lambda task: task["status"] in OVER)


def _line(task: "Json") -> str:
    at = views.now()
    error = None if task["status"] == "COMPLETED" else task.get("last_error")
    told = f"; {output.shortened(error, views.BODY_SHOWN)}" if error else ""
    attempt = f", attempt {task['attempt']}" if task["attempt"] else ""
    return f"{at:%H:%M:%S}Z {statuses.sentence(task, at)}{attempt}{told}"
