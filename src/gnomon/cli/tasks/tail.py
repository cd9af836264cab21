"""`gnomon tasks tail`: what starts, fails and ends, as it happens."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import (
    ApiUrl,
    AsJson,
    QueueFilter,
    TagFilter,
    TypeFilter,
    settings_of,
)
from gnomon.cli.shared.output import shortened
from gnomon.cli.shared.tables import SHORT_ID, cut
from gnomon.cli.shared.waiting import ABSENT
from gnomon.cli.tasks import statuses, views
from gnomon.cli.tasks.watching import OVER
from gnomon.client.errors import NotFound

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

WINDOW = 200  # the newest tasks that are looked at
MOST_RUNNING = 200
MOST_REMEMBERED = 5_000
MOST_LOOKUPS = 50  # in one round, of tasks that are in neither list any more
INTERVAL_SECONDS = 1.0


class Follower:
    """Knows the last status of tasks, and tells the changes. Pure, and bounded: of more tasks than
    MOST_REMEMBERED, those that were seen least recently are forgotten."""

    def __init__(self, known: Iterable["Json"]) -> None:
        self._known: dict[str, tuple[str, int]] = {}
        for task in known:
            self._remember(task)

    def changes(self, tasks: Iterable["Json"]) -> Iterator["Json"]:
        """The tasks that have started, failed or ended since they were seen last."""
        for task in tasks:
            before = self._known.get(task["task_id"])
            told = before is None or before != _state(task)
            self._remember(task)
            if told and (task["attempt"] or task["status"] in OVER):
                yield task

    def running(self) -> list[str]:
        """The ids of tasks that were running when they were seen last."""
        return [each for each, state in self._known.items() if state[0] == "RUNNING"]

    def forget(self, task_id: str) -> None:
        self._known.pop(task_id, None)

    def _remember(self, task: "Json") -> None:
        self._known.pop(task["task_id"], None)
        self._known[task["task_id"]] = _state(task)
        if len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]


def tail(
    ctx: typer.Context,
    task_type: TypeFilter = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    lines: Annotated[
        int | None, typer.Option("--lines", min=1, help="End after this many lines.")
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Print a line whenever a task starts, fails or ends, until Ctrl-C.

    Asks once a second for the 200 newest tasks that match and for those that run. An older task
    that starts and ends between two questions is not seen. With --json each line is a document.

    \b
    gnomon tasks tail
    gnomon tasks tail --type email.send --json
    """
    filters = values.given(task_type=task_type, tag=tag, queue=queue)

    async def follow(client: "DocumentClient") -> None:
        left = lines
        async for task in _changes(client, filters):
            _tell(task, as_json=as_json)
            left = None if left is None else left - 1
            if left == 0:
                return

    remote.call(remote.api_url(settings_of(ctx), api), follow)


async def _changes(client: "DocumentClient", filters: dict[str, str]) -> AsyncIterator["Json"]:
    """What happens from now on. It goes on when the API does not answer for a while."""
    from gnomon.clock import SystemClock

    clock = SystemClock()
    follower = Follower(await _seen(client, filters))
    output.note("waiting for tasks to start, fail or end; Ctrl-C stops it")
    lost = False
    while True:
        await clock.sleep(INTERVAL_SECONDS)
        try:
            seen = await _seen(client, filters)
            seen += await _gone(client, follower, {task["task_id"] for task in seen})
        except ABSENT as error:
            if not lost:
                output.note(f"{error}; trying again")
            lost = True
            continue
        lost = False
        for task in follower.changes(seen):
            yield task


async def _seen(client: "DocumentClient", filters: dict[str, str]) -> list["Json"]:
    """The newest tasks and the running ones, a page of each, oldest first."""
    found: dict[str, Json] = {}
    for status, most in ((None, WINDOW), ("RUNNING", MOST_RUNNING)):
        listed = client.list_tasks(**filters, status=status, limit=most)
        async for page in listed.pages():
            found |= {task["task_id"]: task for task in page.items}
            break  # of a rare filter the next page could take as long as this one, and the next
    return [found[each] for each in sorted(found)]


async def _gone(client: "DocumentClient", follower: Follower, seen: set[str]) -> list["Json"]:
    """Tasks that ran, and are in neither list any more."""
    found = []
    for task_id in [each for each in follower.running() if each not in seen][:MOST_LOOKUPS]:
        try:
            found.append(await client.get_task(task_id))
        except NotFound:
            follower.forget(task_id)
    return found


def _state(task: "Json") -> tuple[str, int]:
    return task["status"], task["attempt"]


def _tell(task: "Json", *, as_json: bool) -> None:
    if as_json:
        output.echo(output.compact(task))
        return
    at = views.now()
    shown = task["task_id"][:SHORT_ID] if output.on_terminal() else task["task_id"]
    attempt = f"attempt {task['attempt']}" if task["attempt"] else ""
    error = task.get("last_error") if task["status"] in ("FAILED", "DEAD_LETTERED") else None
    status = statuses.short(task, at)
    parts = [f"{at:%H:%M:%S}Z", shown, status.ljust(22), task["task_type"], attempt]
    text = "  ".join(part for part in (*parts, shortened(error or "", views.BODY_SHOWN)) if part)
    room = output.width() if output.on_terminal() else len(text)
    output.line(cut(text, room), output.style_of(status))
