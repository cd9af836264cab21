"""Bulk operations: all of them, and one with its progress. See bulk_confirm for new ones."""

from typing import Any
from urllib.parse import urlencode

from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.reading import read_form
from gnomon.api.tasks.bulk_operations import operation_id_of
from gnomon.dashboard.addresses import filter_tokens
from gnomon.dashboard.pages.tasks import bulk_confirm
from gnomon.dashboard.pages.tasks.bulk_confirm import HERE
from gnomon.dashboard.pages.tasks.tasks import ROWS
from gnomon.dashboard.rendering import page, redirect
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.bulk import BulkKey, BulkOperation


@PageRoute("GET", HERE, role=Role.READ)
async def show_operations(request: Request) -> ASGIResponse:
    cursor = cursor_of(request.query_params.get("cursor") or None)
    found = await context_of(request).bulk.list(tenant_of(request), cursor, ROWS)
    here, after = request.query_params.get("cursor", ""), cursor_view(found.next_cursor)
    return page(
        request,
        "bulk_operations.html",
        operations=[_shown(each) for each in found.operations],
        refresh=HERE + (f"?{urlencode({'cursor': here})}" if here else ""),
        first=cursor is None,
        more=None if after is None else f"{HERE}?{urlencode({'cursor': after})}",
    )


@PageRoute("GET", f"{HERE}/{{operation_id:str}}", role=Role.READ)
async def show_operation(request: Request) -> ASGIResponse:
    key = BulkKey(tenant_of(request), operation_id_of(request))
    found = await context_of(request).bulk.get(key)
    return page(request, "bulk_operation.html", **_shown(found))


def _shown(operation: BulkOperation) -> dict[str, Any]:
    tokens = filter_tokens.tokens_of(operation.work.chosen)
    # The list of tasks has no condition for their errors.
    listed = not any(name in tokens for name in filter_tokens.OF_BULK)
    query = urlencode({"q": filter_tokens.written(tokens)})
    return {
        "operation": operation,
        "tokens": tokens,
        "done_tasks": operation.changed + operation.refused,
        "tasks_url": f"/tasks?{query}" if tokens and listed else None,
    }


@PageRoute("POST", f"{HERE}/{{operation_id:str}}/stop", role=Role.OPERATE)
async def stop(request: Request) -> ASGIResponse:
    operation_id = operation_id_of(request)
    await read_form(request, OVERHEAD_BYTES)
    async with context_of(request).store.change(tenant_of(request)) as change:
        await change.bulk.stop(operation_id)
    return redirect(f"{HERE}/{operation_id}?done=stop")


ROUTES = (show_operations, *bulk_confirm.ROUTES, show_operation, stop)
