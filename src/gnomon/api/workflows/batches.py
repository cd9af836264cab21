"""`/batches`: tasks that belong together, and what follows when all of them have ended."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, id_of, principal_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import cursor_of, cursor_view
from gnomon.api.http.requests.idempotency import Answer, answer, changed, changed_by, respond
from gnomon.api.http.requests.origins import requested_origin
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import Nothing
from gnomon.api.tasks.waiting import read_at_end
from gnomon.api.workflows.batch_views import (
    TaskBatchList,
    TaskBatchReceipt,
    TaskBatchView,
    batch_view,
)
from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import BatchNotFound
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, LONGEST_WAIT, Limit, Strict
from gnomon.usecases.workflows import batches
from gnomon.usecases.workflows.batch_requests import CancelBatch, OpenBatch
from gnomon.workflow.batch import BatchStatus

PATH = "/api/v1/batches"
BatchWaitSeconds = Annotated[
    float,
    msgspec.Meta(
        ge=0,
        le=LONGEST_WAIT,
        description="Answer when all members have ended, or after this long",
    ),
]


class GetBatchQuery(Strict):
    """How a batch is read."""

    wait: BatchWaitSeconds = 0.0


class BatchListQuery(Strict):
    """A filter of batches; without a parameter: all of them."""

    status: BatchStatus | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


@Operation(
    "POST",
    "/",
    name="open_batch",
    role=Role.SUBMIT,
    summary="Open a batch, to put tasks into it",
    body=OpenBatch,
    answers={201: TaskBatchView},
    receipt=TaskBatchReceipt,
    errors=(409,),
    grows=True,
    keyed=True,
    paced=True,
)
async def open_batch(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, 2 * context.rules.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, OpenBatch)
    batch = await batches.accept_batch(context.rules, by, asked, requested_origin(request))

    async def act(change: PostgresTaskChange) -> Answer:
        return answer(201, batch_view(await batches.open_batch(change, batch)))

    return await changed(request, body, act)


@Operation(
    "GET",
    "/",
    name="list_batches",
    role=Role.READ,
    summary="List batches, newest first",
    query=BatchListQuery,
    answers={200: TaskBatchList},
)
async def list_batches(request: Request) -> ASGIResponse:
    asked = queried(request, BatchListQuery)
    page = await context_of(request).batches.list(
        tenant_of(request), asked.status, cursor_of(asked.cursor), asked.limit
    )
    views = [batch_view(each) for each in page.batches]
    return respond(answer(200, TaskBatchList(views, cursor_view(page.more))))


@Operation(
    "GET",
    "/{batch_id:str}",
    name="get_batch",
    role=Role.READ,
    summary="Read a batch with its progress; with wait, once all members have ended",
    query=GetBatchQuery,
    answers={200: TaskBatchView},
    errors=(404,),
)
async def get_batch(request: Request) -> ASGIResponse:
    asked, context = queried(request, GetBatchQuery), context_of(request)
    key = TaskKey(tenant_of(request), batch_id_of(request))
    found = await read_at_end(
        request,
        context.batch_ends,
        key,
        asked.wait,
        lambda: context.batches.get(key.tenant_id, key.id),
        lambda batch: batch.finished_at is not None,
    )
    return respond(answer(200, batch_view(found)))


@Operation(
    "POST",
    "/{batch_id:str}/close",
    name="close_batch",
    role=Role.SUBMIT,
    summary="Close a batch: nothing more is put in, and its callbacks follow its members",
    body=Nothing,
    answers={200: TaskBatchView},
    receipt=TaskBatchReceipt,
    errors=(404, 409),
    keyed=True,
)
async def close_batch(request: Request) -> ASGIResponse:
    batch_id = batch_id_of(request)

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return answer(200, batch_view(await change.batches.close(batch_id)))

    return await changed_by(request, Nothing, act)


@Operation(
    "POST",
    "/{batch_id:str}/cancel",
    name="cancel_batch",
    role=Role.OPERATE,
    summary="Cancel a batch: members that have not started never do, and no callback starts",
    body=CancelBatch,
    answers={200: TaskBatchView},
    receipt=TaskBatchReceipt,
    errors=(404, 409),
    keyed=True,
)
async def cancel_batch(request: Request) -> ASGIResponse:
    batch_id, by = batch_id_of(request), principal_of(request)

    async def act(change: PostgresTaskChange, asked: CancelBatch) -> Answer:
        found = await batches.cancel_batch(change, by, batch_id, interrupt=asked.interrupt)
        return answer(200, batch_view(found))

    return await changed_by(request, CancelBatch, act)


def batch_id_of(request: Request) -> UUID:
    """The id in the path. Raises BatchNotFound for text that is no id."""
    return id_of(request, "batch_id", BatchNotFound)


router = Router(
    PATH, route_handlers=[open_batch, list_batches, get_batch, close_batch, cancel_batch]
)
