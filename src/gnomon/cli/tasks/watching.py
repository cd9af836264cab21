"""Watches a task until it has ended, and says at Ctrl-C that the task itself goes on."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from gnomon.cli.shared import output
from gnomon.cli.tasks import statuses, views
from gnomon.client.errors import ApiUnreachable, RateLimited, Unavailable

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

OVER = {"COMPLETED", "DEAD_LETTERED", "CANCELLED", "EXPIRED"}
INTERRUPTED = 130  # as shells tell of SIGINT
ABSENT = (ApiUnreachable, Unavailable, RateLimited)  # the API, for a while
_LOOK_SECONDS = 1.0  # the longest that a change goes untold


async def until_over(client: "DocumentClient", task_id: str, *, quiet: bool) -> "Json":
    """The task with its executions, once it has ended or is a dead letter. Every change until then
    is told on stderr, unless `quiet`."""
    with goes_on(task_id):
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


async def states(client: "DocumentClient", task_id: str) -> AsyncIterator["Json"]:
    """The task once a second, and at its end at once. It goes on when the API does not answer for
    a while."""
    from gnomon.clock import SystemClock

    clock = SystemClock()
    task = await client.get_task(task_id)
    yield task
    lost = False
    while task["status"] not in OVER:
        try:
            task = await client.get_task(task_id, wait=_LOOK_SECONDS)
        except ABSENT as error:
            if not lost:
                output.live(f"{error}; trying again", new=True)
            lost = True
            await clock.sleep(_LOOK_SECONDS)
            continue
        lost = False
        yield task


@contextmanager
def goes_on(task_id: str) -> Iterator[None]:
    """At Ctrl-C, says that only the waiting has ended. (asyncio cancels what runs.)"""
    import asyncio

    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        output.live_end()
        output.note(
            f"stopped waiting; the task goes on: gnomon tasks show {task_id} --watch\n"
            f"  to stop it as well: gnomon tasks cancel {task_id} --interrupt"
        )
        raise typer.Exit(INTERRUPTED) from None


def _line(task: "Json") -> str:
    at = views.now()
    error = None if task["status"] == "COMPLETED" else task.get("last_error")
    told = f"; {output.shortened(error, views.BODY_SHOWN)}" if error else ""
    attempt = f", attempt {task['attempt']}" if task["attempt"] else ""
    return f"{at:%H:%M:%S}Z {statuses.sentence(task, at)}{attempt}{told}"
