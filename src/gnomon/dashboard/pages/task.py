"""One task: why it is where it is, its tries, its payload, and what can be done with it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.operation import PageRoute
from gnomon.api.http.reading import read_form
from gnomon.dashboard.form_fields import moment_of_field
from gnomon.dashboard.json_tree import shown_json
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.lifecycle import Status
from gnomon.model.task import Submission, Task, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.tasks import change_task
from gnomon.usecases.tasks.explain import explain_task
from gnomon.usecases.tasks.task_requests import PatchTask

TRIES = 50
_ENDED = tuple(status for status in Status if status.has_ended)
_WAITING = (Status.SCHEDULED, Status.READY, Status.FAILED)
# Which actions a status allows; what happens to a task in between is checked again.
_ALLOWED = {
    "retry": (*_ENDED, Status.FAILED),
    "cancel": (*_WAITING, Status.PAUSED, Status.BLOCKED, Status.RUNNING),
    "pause": _WAITING,
    "resume": (Status.PAUSED,),
    "reschedule": (*_WAITING, Status.PAUSED, Status.BLOCKED),
}


@PageRoute("GET", "/tasks/{task_id:str}", role=Role.READ)
async def show_task(request: Request) -> ASGIResponse:
    context = context_of(request)
    key = TaskKey(tenant_of(request), task_id_of(request))
    task, explanation = await explain_task(context.store, context.rules, key)
    tries = await context.store.last_executions(key, TRIES)
    return page(
        request,
        "task.html",
        task=task,
        target=msgspec.json.encode(task.target.masked()).decode(),
        explanation=explanation,
        tries=tries,
        payload=None if task.payload is None else shown_json(task.payload),
        result=None if task.result is None else shown_json(task.result),
        allowed=[name for name, statuses in _ALLOWED.items() if task.status in statuses],
    )


Act = Callable[[Request, Any], Awaitable[Task | Submission]]


async def _retry(request: Request, change: Any) -> Task | Submission:
    rules, by = context_of(request).rules, principal_of(request)
    return await change_task.retry(change, rules, by, task_id_of(request))


async def _cancel(request: Request, change: Any) -> Task:
    by, task_id = principal_of(request), task_id_of(request)
    return await change_task.cancel(change, by, task_id, interrupt=True)


async def _pause(request: Request, change: Any) -> Task:
    return await change_task.pause(change, principal_of(request), task_id_of(request))


async def _resume(request: Request, change: Any) -> Task:
    return await change_task.resume(change, principal_of(request), task_id_of(request))


@PageRoute("POST", "/tasks/{task_id:str}/reschedule", role=Role.OPERATE, grows=True)
async def reschedule(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    asked = PatchTask(execute_at=moment_of_field(form.get("execute_at", ""), "/execute_at"))
    context, by, task_id = context_of(request), principal_of(request), task_id_of(request)
    async with context.store.change(by.tenant_id) as change:
        await change_task.patch(change, context.rules, by, task_id, asked)
    return redirect(f"/tasks/{task_id}?done=reschedule")


def _action(name: str, act: Act, *, grows: bool = False) -> Any:
    @PageRoute("POST", f"/tasks/{{task_id:str}}/{name}", role=Role.OPERATE, grows=grows)
    async def handler(request: Request) -> ASGIResponse:
        await read_form(request, OVERHEAD_BYTES)
        async with context_of(request).store.change(tenant_of(request)) as change:
            found = await act(request, change)
        shown = found.id if isinstance(found, Submission) else found.task_id
        return redirect(f"/tasks/{shown}?done={name}")

    return handler


ROUTES = (
    show_task,
    _action("retry", _retry, grows=True),
    _action("cancel", _cancel),
    _action("pause", _pause),
    _action("resume", _resume),
    reschedule,
)
