"""Saves and removes views of the list of tasks."""

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import read_form
from gnomon.api.tasks.saved_views import PutSavedView
from gnomon.api.tasks.schemas import TaskFilterQuery
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.addresses.task_list import columns_of, tasks_url
from gnomon.dashboard.pages.tasks.tasks import task_page
from gnomon.dashboard.rendering import redirect
from gnomon.model.errors import InvalidTask
from gnomon.model.saved_view_errors import TooManySavedViews
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.tasks import saved_views


@PageRoute("POST", "/tasks/views", role=Role.OPERATE, grows=True)
async def save(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    form = await read_form(request, OVERHEAD_BYTES)
    name, q = form.get("name", "").strip(), form.get("q", "")
    columns = columns_of([form.get("columns", "")])
    try:
        tokens = filter_tokens.parsed(q, without=filter_tokens.OF_BULK)
        asked = PutSavedView(
            filter=filter_tokens.query_of(tokens, TaskFilterQuery), columns=list(columns)
        )
        await saved_views.put(context.saved_views, by, name, asked.kept_filter(), columns)
    except (InvalidTask, TooManySavedViews) as error:
        if not by.may(Role.READ):
            raise
        status = 422 if isinstance(error, InvalidTask) else 409
        return await task_page(request, status, q, columns, wrong_view=str(error), typed=name)
    return redirect(tasks_url(q, columns, done="view"))


@PageRoute("POST", "/tasks/views/remove", role=Role.OPERATE)
async def remove(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    store, by = context_of(request).saved_views, principal_of(request)
    await saved_views.delete(store, by, form.get("name", ""))
    columns = columns_of([form.get("columns", "")])
    return redirect(tasks_url(form.get("q", ""), columns, done="no-view"))


ROUTES = (save, remove)
