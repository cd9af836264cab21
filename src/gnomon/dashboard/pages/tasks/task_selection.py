"""Acts on the tasks that were selected in a list, one by one, and tells the result of each."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Principal, Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.answers.problems import described
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import read_form
from gnomon.dashboard.addresses.task_list import columns_of, tasks_url
from gnomon.dashboard.forms.form_fields import moment_of_field
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page
from gnomon.model.errors import GnomonError, InvalidTask
from gnomon.model.fleet.room import DatabaseFull
from gnomon.model.tasks.task import Submission
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.tasks import change_task
from gnomon.usecases.tasks.task_requests import PatchTask

MARK = "t-"  # begins the name of the field that selects a task
_DONE = {
    "retry": "It runs again.",
    "cancel": "It was cancelled, or is being interrupted.",
    "pause": "It is paused.",
    "resume": "It is resumed.",
    "reschedule": "Its time was changed.",
    "delete": "It was deleted.",
}


class SelectedResult(msgspec.Struct, frozen=True):
    """What became of one task."""

    task_id: UUID
    told: str
    done: bool
    new_id: UUID | None = None  # of the task that repeats it


class _Selected(msgspec.Struct, frozen=True, kw_only=True):
    action: str
    ids: list[UUID]
    interrupt: bool
    execute_at: datetime | None

    @classmethod
    def of(cls, form: Mapping[str, str]) -> "_Selected":
        """Raises InvalidTask."""
        action = form.get("action", "")
        if action not in _DONE:
            raise InvalidTask(f"is none of: {', '.join(_DONE)}", "/action")
        at = None
        if action == "reschedule":
            at = moment_of_field(form.get("execute_at", ""), "/execute_at")
        return cls(
            action=action,
            ids=_ids(form),
            interrupt=form.get("interrupt") == "on",
            execute_at=at,
        )


def _ids(form: Mapping[str, str]) -> list[UUID]:
    """Raises InvalidTask."""
    try:
        ids = [UUID(name.removeprefix(MARK)) for name in form if name.startswith(MARK)]
    except ValueError as error:
        raise InvalidTask("this is no id of a task") from error
    if not 1 <= len(ids) <= ROWS:
        raise InvalidTask(f"select 1 to {ROWS} tasks in the list, then press the button")
    return ids


@PageRoute("POST", "/tasks/selected", role=Role.OPERATE)
async def act_on_selected(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    back = tasks_url(form.get("q", ""), columns_of([form.get("columns", "")]))
    values: dict[str, Any] = {"form": form, "back": back, "results": [], "wrong": None}
    try:
        selected = _Selected.of(form)
    except InvalidTask as error:
        kept = {n: value for n, value in form.items() if n.startswith(MARK) and _is_id(n)}
        values |= {"wrong": str(error), "kept": kept, "action": form.get("action", "")}
        return page(request, "selected.html", 422, **values)
    results = [await _result(request, selected, task_id) for task_id in selected.ids]
    return page(
        request,
        "selected.html",
        **values | {"results": results, "kept": {}, "action": selected.action},
    )


def _is_id(name: str) -> bool:
    try:
        UUID(name.removeprefix(MARK))
    except ValueError:
        return False
    return True


async def _result(request: Request, selected: _Selected, task_id: UUID) -> SelectedResult:
    """Each in a transaction of its own: what is refused keeps none of the others back."""
    context, by = context_of(request), principal_of(request)
    try:
        if selected.action == "retry" and context.directory.is_full():
            raise DatabaseFull
        async with context.store.change(by.tenant_id) as change:
            new = await _act(request, change, by, selected, task_id)
    except GnomonError as error:
        problem, _ = described(error)
        if problem.status == 500:
            raise
        return SelectedResult(task_id, problem.detail, done=False)
    return SelectedResult(task_id, _DONE[selected.action], done=True, new_id=new)


async def _act(
    request: Request,
    change: Any,
    by: Principal,
    selected: _Selected,
    task_id: UUID,
) -> UUID | None:
    rules = context_of(request).rules
    match selected.action:
        case "retry":
            found = await change_task.retry(change, rules, by, task_id)
            return found.id if isinstance(found, Submission) else None
        case "cancel":
            await change_task.cancel(change, by, task_id, interrupt=selected.interrupt)
        case "pause":
            await change_task.pause(change, by, task_id)
        case "resume":
            await change_task.resume(change, by, task_id)
        case "delete":
            await change_task.delete(change, by, task_id)
        case _:
            assert selected.execute_at is not None, "it was checked"
            asked = PatchTask(execute_at=selected.execute_at)
            await change_task.patch(change, rules, by, task_id, asked)
    return None


ROUTES = (act_on_selected,)
