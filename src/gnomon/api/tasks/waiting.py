"""Requests that are answered once their task has ended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gnomon.api.auth.access import admit_again
from gnomon.api.context import Request, context_of
from gnomon.api.http.answers.request_meter import not_measured
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.usecases.tasks.end_watch import EndWatch

_T = TypeVar("_T")
_BODY_HEADERS = (b"content-length", b"transfer-encoding")


async def awaited(request: Request, key: TaskKey, seconds: float) -> Task:
    """The task as it is when it has ended, or when the time is over. Raises TaskNotFound,
    Overloaded, WaitersFull."""
    context = context_of(request)

    async def read() -> Task:
        return await context.store.get(key)

    return await read_at_end(
        request, context.ends, key, seconds, read, lambda task: task.status.has_ended
    )


async def read_at_end(
    request: Request,
    ends: EndWatch,
    key: TaskKey,
    seconds: float,
    read: Callable[[], Awaitable[_T]],
    is_over: Callable[[_T], bool],
) -> _T:
    """What `read` gives of a task, a run or a batch when that has ended, or when the time is over.
    Raises Overloaded, WaitersFull."""
    found = await read()
    if seconds == 0 or is_over(found):
        return found
    await wait_for_end(request, ends, key, seconds)
    return await read()


async def wait_for_end(request: Request, ends: EndWatch, key: TaskKey, seconds: float) -> None:
    """Returns when the task or run has ended, the time is over, or the client has gone. Raises
    Overloaded, WaitersFull."""
    not_measured(request.scope)
    with ends.waiting(key) as ended:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_set_when_closed(request, ended))
            await context_of(request).clock.wait(ended, seconds)
            watching.cancel()
    await admit_again(request)  # the key may have been revoked meanwhile


async def _set_when_closed(request: Request, ended: asyncio.Event) -> None:
    """Sets the event when the client has closed the connection. A body, which nobody expects here,
    is left for whoever drops it."""
    if any(name in _BODY_HEADERS for name, _ in request.scope["headers"]):
        return
    while (await request.receive())["type"] != "http.disconnect":
        pass
    ended.set()
