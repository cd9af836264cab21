"""`/bulk-operations`: one action on all tasks that match a filter."""

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
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.dead_letter_schemas import FingerprintText, read_text
from gnomon.api.tasks.schemas import NoQuery, Nothing, TaskFilterQuery
from gnomon.model.bulk_errors import BulkOperationNotFound
from gnomon.model.errors import InvalidTask
from gnomon.model.fleet.room import DatabaseFull
from gnomon.model.outcomes.fingerprint import written
from gnomon.model.tasks.priority import Priority
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.bulk import (
    BulkAction,
    BulkFilter,
    BulkKey,
    BulkOperation,
    BulkStatus,
    BulkWork,
)
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.request_fields import (
    DEFAULT_LIMIT,
    Delay,
    Limit,
    Moment,
    ResolutionNote,
    Strict,
)
from gnomon.usecases.checks.text_check import check_line
from gnomon.usecases.tasks import bulk_operations
from gnomon.usecases.tasks.bulk_operations import BulkPreview
from gnomon.usecases.tasks.submit import asked_moment

ErrorText = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=500, description="A part of the task's last error"),
]
Expected = Annotated[
    int, msgspec.Meta(ge=0, description="Refused with 409 where another number of tasks matches")
]


class BulkTaskFilter(TaskFilterQuery):
    """A filter of tasks, as of their list, and by their last error; without a field: all that the
    action can apply to."""

    error: ErrorText | None = None
    fingerprint: FingerprintText | None = None

    def chosen(self) -> BulkFilter:
        check_line(self.error, "/error")
        found = msgspec.structs.asdict(super().chosen())
        return BulkFilter(
            **found | {"error": self.error, "fingerprint": read_text(self.fingerprint)}
        )


class CreateBulkOperation(Strict):
    """One action on all tasks that match."""

    action: BulkAction
    filter: BulkTaskFilter = msgspec.field(default_factory=BulkTaskFilter)
    interrupt: bool = False
    execute_at: Moment | None = None
    delay_seconds: Delay | None = None
    note: ResolutionNote | None = None
    expect: Expected | None = None
    dry_run: bool = False


class BulkListQuery(Strict):
    """The parameters of a list of bulk operations."""

    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class BulkFilterView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The filter of an operation, as far as it filters anything."""

    status: str | None = None
    task_type: str | None = None
    priority: Priority | None = None
    tag: str | None = None
    queue: str | None = None
    cron_job_id: UUID | None = None
    due_after: Moment | None = None
    due_before: Moment | None = None
    first_id: UUID | None = None  # of those that begin with `id_prefix`
    last_id: UUID | None = None
    error: str | None = None
    fingerprint: str | None = None


class BulkRefusal(msgspec.Struct):
    """Why tasks were not changed, and how many."""

    reason: str
    count: int


class BulkReceipt(msgspec.Struct):
    """What a caller who may not read is told."""

    operation_id: UUID | None
    status: BulkStatus
    total: int
    total_capped: bool


class BulkOperationView(msgspec.Struct, kw_only=True):
    """An operation, and how far it is. `total_capped`: at least so many matched at the start."""

    operation_id: UUID | None  # null: a dry run
    status: BulkStatus
    action: BulkAction
    filter: BulkFilterView
    interrupt: bool
    execute_at: Moment | None
    note: str | None
    total: int
    total_capped: bool
    done: int
    changed: int
    refused: int
    refusals: list[BulkRefusal]
    created_at: Moment
    created_by: str | None
    ended_at: Moment | None
    examples: list[UUID] = []


class BulkOperationPage(msgspec.Struct):
    """A page of bulk operations, newest first."""

    bulk_operations: list[BulkOperationView]
    next_cursor: str | None


@Operation(
    "POST",
    "/",
    name="create_bulk_operation",
    role=Role.OPERATE,
    summary="Change all tasks that match, by one action; or only count them",
    body=CreateBulkOperation,
    body_required=True,
    answers={200: BulkOperationView, 202: BulkOperationView},
    receipt=BulkReceipt,
    errors=(507,),
    keyed=True,
)
async def create_bulk_operation(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    asked, now = decoded(body, CreateBulkOperation), context.clock.now()
    work = bulk_operations.limited_work(_work(asked, request), by)
    if not asked.dry_run:
        check_room(request, work.action)

    async def act(change: PostgresTaskChange) -> Answer:
        if asked.dry_run:
            return answer(200, _view(await bulk_operations.preview(change, by, work, now)))
        started = await bulk_operations.start(change, by, work, asked.expect, now)
        return answer(202, _view(started))

    return await changed(request, body, act)


def check_room(request: Request, action: BulkAction) -> None:
    """Raises DatabaseFull where the action makes new work and there is no room for any."""
    if action is BulkAction.RETRY and context_of(request).directory.is_full():
        raise DatabaseFull


def _work(asked: CreateBulkOperation, request: Request) -> BulkWork:
    now = context_of(request).clock.now()
    try:
        chosen = asked.filter.chosen()
    except InvalidTask as error:
        raise error.within("/filter") from error
    return BulkWork(
        action=asked.action,
        chosen=chosen,
        interrupt=asked.interrupt,
        execute_at=asked_moment(asked.execute_at, asked.delay_seconds, now),
        note=asked.note or None,
    )


@Operation(
    "GET",
    "/",
    name="list_bulk_operations",
    role=Role.READ,
    summary="List bulk operations, newest first",
    query=BulkListQuery,
    answers={200: BulkOperationPage},
)
async def list_bulk_operations(request: Request) -> ASGIResponse:
    asked = queried(request, BulkListQuery)
    page = await context_of(request).bulk.list(
        tenant_of(request), cursor_of(asked.cursor), asked.limit
    )
    views = [_shown(each) for each in page.operations]
    return respond(answer(200, BulkOperationPage(views, cursor_view(page.next_cursor))))


@Operation(
    "GET",
    "/{operation_id:str}",
    name="get_bulk_operation",
    role=Role.READ,
    summary="Read a bulk operation: how far it is",
    query=NoQuery,
    answers={200: BulkOperationView},
    errors=(404,),
)
async def get_bulk_operation(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = BulkKey(tenant_of(request), operation_id_of(request))
    return respond(answer(200, _shown(await context_of(request).bulk.get(key))))


@Operation(
    "POST",
    "/{operation_id:str}/stop",
    name="stop_bulk_operation",
    role=Role.OPERATE,
    summary="Stop a bulk operation; what it has changed stays changed",
    body=Nothing,
    answers={200: BulkOperationView},
    receipt=BulkReceipt,
    errors=(404,),
    keyed=True,
)
async def stop_bulk_operation(request: Request) -> ASGIResponse:
    operation_id = operation_id_of(request)

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return answer(200, _shown(await change.bulk.stop(operation_id)))

    return await changed_by(request, Nothing, act)


def operation_id_of(request: Request) -> UUID:
    """The id in the path. Raises BulkOperationNotFound for text that is no id."""
    return id_of(request, "operation_id", BulkOperationNotFound)


def _view(found: BulkPreview) -> BulkOperationView:
    return msgspec.structs.replace(_shown(found.operation), examples=found.examples)


def _shown(operation: BulkOperation) -> BulkOperationView:
    work = operation.work
    dry = operation.status is BulkStatus.DRY_RUN
    return BulkOperationView(
        operation_id=None if dry else operation.operation_id,
        status=operation.status,
        action=work.action,
        filter=_filter_view(work.chosen),
        interrupt=work.interrupt,
        execute_at=work.execute_at,
        note=work.note,
        total=operation.total.count,
        total_capped=operation.total.capped,
        done=operation.changed + operation.refused,
        changed=operation.changed,
        refused=operation.refused,
        refusals=[BulkRefusal(reason, count) for reason, count in operation.reasons.items()],
        created_at=operation.started_at,
        created_by=operation.created_by,
        ended_at=operation.ended_at,
    )


def _filter_view(chosen: BulkFilter) -> BulkFilterView:
    first, last = chosen.ids or (None, None)
    return BulkFilterView(
        status=chosen.status,
        task_type=chosen.task_type,
        priority=None if chosen.priority is None else Priority(chosen.priority.name),
        tag=chosen.tag,
        queue=chosen.queue,
        cron_job_id=chosen.cron_job_id,
        due_after=chosen.due_after,
        due_before=chosen.due_before,
        first_id=first,
        last_id=last,
        error=chosen.error,
        fingerprint=None if chosen.fingerprint is None else written(chosen.fingerprint),
    )


router = Router(
    "/api/v1/bulk-operations",
    route_handlers=[
        create_bulk_operation,
        list_bulk_operations,
        get_bulk_operation,
        stop_bulk_operation,
    ],
)
