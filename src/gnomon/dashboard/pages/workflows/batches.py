"""Batches: all of them, one with its progress, and what can be done with it."""

from urllib.parse import quote, urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.reading import read_form
from gnomon.api.workflows.batch_views import TaskBatchView, batch_view
from gnomon.api.workflows.batches import BatchListQuery, batch_id_of
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.workflow_words import batch_summary
from gnomon.model.errors import InvalidTask
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.checks.validation import of_texts
from gnomon.usecases.workflows import batches
from gnomon.workflow.batch import BatchStatus

HERE = "/batches"
ROWS = 50
_ENDED = (BatchStatus.SUCCEEDED, BatchStatus.CANCELLED, BatchStatus.EXPIRED)


@PageRoute("GET", HERE, role=Role.READ)
async def show_batches(request: Request) -> ASGIResponse:
    chosen = request.query_params.get("status", "").replace("\0", "").strip()
    given = {"status": chosen} if chosen else {}
    wrong, status, after, cursor = None, 200, None, None
    found: list[TaskBatchView] = []
    try:
        asked = of_texts(given, BatchListQuery)
        cursor = cursor_of(request.query_params.get("cursor") or None)
        listed = await context_of(request).batches.list(
            tenant_of(request), asked.status, cursor, ROWS
        )
        found, after = [batch_view(each) for each in listed.batches], cursor_view(listed.more)
    except InvalidTask as error:
        wrong, status = f"{error.pointer.lstrip('/')} {error.detail}", 422
    here = given | ({} if cursor is None else {"cursor": cursor_view(cursor)})
    return page(
        request,
        "batches.html",
        status,
        batches=found,
        given=given,
        statuses=list(BatchStatus),
        wrong=wrong,
        first=cursor is None,
        here=f"{HERE}?{urlencode(here)}",
        more=None if after is None else f"{HERE}?{urlencode(given | {'cursor': after})}",
    )


@PageRoute("GET", f"{HERE}/{{batch_id:str}}", role=Role.READ)
async def show_batch(request: Request) -> ASGIResponse:
    batch_id = batch_id_of(request)
    found = await context_of(request).batches.get(tenant_of(request), batch_id)
    members = f"/tasks?q={quote(f'batch:{batch_id}')}"
    view, dead = batch_view(found), found.progress.dead
    ended = view.status in _ENDED or (view.status is BatchStatus.FAILED and not dead)
    return page(
        request,
        "batch.html",
        batch=view,
        summary=batch_summary(view.status, view.reason, view.progress.pending, dead),
        may_close=view.status is BatchStatus.OPEN,
        may_cancel=not ended,
        members=members,
        dead=f"/dead-letters?q={quote(f'batch:{batch_id}')}" if dead else None,
        here=f"{HERE}/{batch_id}",
    )


@PageRoute("POST", f"{HERE}/{{batch_id:str}}/close", role=Role.SUBMIT)
async def close(request: Request) -> ASGIResponse:
    await read_form(request, OVERHEAD_BYTES)
    by, batch_id = principal_of(request), batch_id_of(request)
    async with context_of(request).store.change(by.tenant_id) as change:
        await change.batches.close(batch_id)
    return redirect(f"{HERE}/{batch_id}?done=batch_closed")


@PageRoute("POST", f"{HERE}/{{batch_id:str}}/cancel", role=Role.OPERATE)
async def cancel(request: Request) -> ASGIResponse:
    form = await read_form(request, OVERHEAD_BYTES)
    by, batch_id = principal_of(request), batch_id_of(request)
    async with context_of(request).store.change(by.tenant_id) as change:
        await batches.cancel_batch(change, by, batch_id, interrupt=bool(form.get("interrupt")))
    return redirect(f"{HERE}/{batch_id}?done=cancel")


ROUTES = (show_batches, show_batch, close, cancel)
