"""One task: why it is where it is, its tries, its payload, and what can be done with it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.answers.problems import RequestError
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import number_cursor_of, number_cursor_view
from gnomon.api.http.requests.reading import read_form
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.drawing.state_diagram import way_of
from gnomon.dashboard.forms import local_time
from gnomon.dashboard.rendering import POLICY, page, redirect
from gnomon.dashboard.text.json_tree import shown_json
from gnomon.model.errors import InvalidTask
from gnomon.model.insight.explanation import Hold, HoldKind
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Submission, Task, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.tasks import change_task
from gnomon.usecases.tasks.explain import explain_task
from gnomon.usecases.tasks.related import related_tasks
from gnomon.usecases.tasks.task_requests import PatchTask

TRIES = 50
_WAITING = (Status.SCHEDULED, Status.READY, Status.FAILED)
_HELD = (Status.PAUSED, Status.BLOCKED)
_ENDED = tuple(status for status in Status if status.has_ended)
# Which actions a status allows; what happens to a task in between is checked again.
_ALLOWED = {
    "retry": (*_ENDED, Status.FAILED),
    "resume": (Status.PAUSED,),
    "pause": _WAITING,
    "cancel": (*_WAITING, *_HELD, Status.RUNNING),
    "reschedule": (*_WAITING, *_HELD),
    "delete": tuple(status for status in Status if status is not Status.RUNNING),
}
_RAW = {"content-type": "application/json; charset=utf-8", "content-security-policy": POLICY}
_SOON = {"now": 0.0, "in-10-minutes": 600.0}  # seconds


@PageRoute("GET", "/tasks/{task_id:str}", role=Role.READ)
async def show_task(request: Request) -> ASGIResponse:
    return await _page(request)


async def _page(
    request: Request, status: int = 200, typed: Mapping[str, str] | None = None, wrong: str = ""
) -> ASGIResponse:
    context = context_of(request)
    key = TaskKey(tenant_of(request), task_id_of(request))
    task, explanation = await explain_task(context.store, context.rules, key)
    tries = await context.store.last_executions(key, TRIES)
    return page(
        request,
        "task.html",
        status,
        task=task,
        target=task.target.masked(),
        explanation=explanation,
        holds=[(hold, _place_of(request, hold)) for hold in explanation.held_by],
        warnings=[] if task.status.has_ended else context.handlers.warnings(task),
        way=way_of(task, tries),
        tries=tries,
        earlier=bool(tries) and tries[0].attempt > 1 and len(tries) == TRIES,
        payload=None if task.payload is None else shown_json(task.payload),
        result=None if task.result is None else shown_json(task.result),
        related=await related_tasks(context.store, task),
        allowed=[name for name, statuses in _ALLOWED.items() if task.status in statuses],
        resolvable=task.status is Status.DEAD_LETTERED and task.resolution is None,
        typed={"at": local_time.written(task.execute_at), "zone": "UTC"} | dict(typed or {}),
        wrong=wrong,
        zones=local_time.zone_names(),
    )


def _place_of(request: Request, hold: Hold) -> str:
    """The page that shows what holds a task up; empty where there is none."""
    match hold.kind:
        case HoldKind.TASK:
            return f"/tasks/{quote(hold.name, safe='')}"
        case HoldKind.HANDLER:
            waiting = filter_tokens.written({"status": "READY", "type": hold.name})
            return f"/tasks?{urlencode({'q': waiting})}"
        case HoldKind.NODE:  # of the installation: nobody of a tenant sees it
            return "/nodes" if context_of(request).authenticator is None else ""
        case HoldKind.LIMITER:
            return f"/limits/{quote(hold.name, safe='')}"
        case HoldKind.QUOTA:
            return "/usage"
        case HoldKind.BREAKER:
            return "/limits"


@PageRoute("GET", "/tasks/{task_id:str}/executions", role=Role.READ)
async def show_executions(request: Request) -> ASGIResponse:
    store, task_id = context_of(request).store, task_id_of(request)
    cursor = number_cursor_of(request.query_params.get("cursor") or None)
    found = await store.executions(TaskKey(tenant_of(request), task_id), None, cursor, TRIES)
    after = number_cursor_view(found.next_cursor)
    return page(
        request,
        "executions.html",
        task_id=task_id,
        tries=found.executions,
        first=cursor is None,
        more=after and f"/tasks/{task_id}/executions?{urlencode({'cursor': after})}",
    )


@PageRoute("GET", "/tasks/{task_id:str}/payload", role=Role.READ)
async def show_payload(request: Request) -> ASGIResponse:
    return _raw((await _task(request)).payload, "payload")


@PageRoute("GET", "/tasks/{task_id:str}/result", role=Role.READ)
async def show_result(request: Request) -> ASGIResponse:
    return _raw((await _task(request)).result, "result")


async def _task(request: Request) -> Task:
    return await context_of(request).store.get(TaskKey(tenant_of(request), task_id_of(request)))


def _raw(content: bytes | None, what: str) -> ASGIResponse:
    """JSON as it is."""
    if content is None:
        raise RequestError(404, f"the task has no {what}")
    return ASGIResponse(body=content, headers=_RAW)


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
    context, by, task_id = context_of(request), principal_of(request), task_id_of(request)
    try:
        asked = _new_time(form)
        async with context.store.change(by.tenant_id) as change:
            await change_task.patch(change, context.rules, by, task_id, asked)
    except InvalidTask as error:
        if not by.may(Role.READ):
            raise
        return await _page(request, 422, form, error.detail)
    return redirect(f"/tasks/{task_id}?done=reschedule")


def _new_time(form: Mapping[str, str]) -> PatchTask:
    if (delay := _SOON.get(form.get("when", ""))) is not None:
        return PatchTask(delay_seconds=delay)
    moment = local_time.moment_of(form.get("at", ""), form.get("zone", ""), "/execute_at")
    return PatchTask(execute_at=moment)


@PageRoute("POST", "/tasks/{task_id:str}/delete", role=Role.OPERATE)
async def delete(request: Request) -> ASGIResponse:
    await read_form(request, OVERHEAD_BYTES)
    by, task_id = principal_of(request), task_id_of(request)
    async with context_of(request).store.change(by.tenant_id) as change:
        await change_task.delete(change, by, task_id)
    return redirect("/tasks?done=delete")


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
    show_executions,
    show_payload,
    show_result,
    _action("retry", _retry, grows=True),
    _action("cancel", _cancel),
    _action("pause", _pause),
    _action("resume", _resume),
    reschedule,
    delete,
)
