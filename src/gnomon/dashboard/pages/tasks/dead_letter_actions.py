"""What can be done with one dead letter: run it again, or resolve it, with a note."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import read_form
from gnomon.dashboard.rendering import page, redirect
from gnomon.model.errors import InvalidTask, RoleMissing
from gnomon.model.outcomes import fingerprint
from gnomon.model.tasks.task import Resolution, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.tasks import dead_letters

HERE = "/dead-letters"
GROUPS = f"{HERE}/groups"


@PageRoute("POST", f"{HERE}/{{task_id:str}}/retry", role=Role.OPERATE, grows=True)
async def retry(request: Request) -> ASGIResponse:
    context, by, task_id = context_of(request), principal_of(request), task_id_of(request)
    form = await read_form(request, OVERHEAD_BYTES)
    async with context.store.change(by.tenant_id) as change:
        await dead_letters.retry(change, context.rules, by, task_id)
    return _back(form, "retry")


@PageRoute("POST", f"{HERE}/{{task_id:str}}/archive", role=Role.OPERATE)
async def archive(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.ARCHIVED, "archive")


@PageRoute("POST", f"{HERE}/{{task_id:str}}/discard", role=Role.OPERATE)
async def discard(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.DISCARDED, "discard")


async def _resolve(request: Request, resolution: Resolution, done: str) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)
    form = await read_form(request, OVERHEAD_BYTES)
    note = form.get("note", "").replace("\r\n", "\n").strip()  # as browsers send it
    try:
        async with context_of(request).store.change(by.tenant_id) as change:
            await dead_letters.resolve(change, by, task_id, resolution, note)
    except InvalidTask as error:
        return await _refused(request, done, form, str(error))
    return _back(form, done)


async def _refused(request: Request, action: str, form: dict[str, str], wrong: str) -> ASGIResponse:
    """The form again, with what was typed."""
    by = principal_of(request)
    if not by.may(Role.READ):
        raise RoleMissing(Role.READ, by.roles)
    key = TaskKey(tenant_of(request), task_id_of(request))
    task = await dead_letters.read(context_of(request).store, key)
    return page(
        request,
        "dead_refused.html",
        422,
        task=task,
        action=action,
        note=form.get("note", ""),
        group=form.get("group", ""),
        wrong=wrong,
    )


def _back(form: dict[str, str], done: str) -> ASGIResponse:
    """To the group that the form was in, or to all of them."""
    try:
        here = f"{GROUPS}/{fingerprint.written(fingerprint.read(form.get('group', '')))}"
    except InvalidTask:
        here = HERE
    return redirect(f"{here}?done={done}")


ROUTES = (retry, archive, discard)
