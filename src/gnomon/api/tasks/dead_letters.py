"""`/dead-letters`: tasks whose retries are spent, until someone decides about them."""

from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.grant_errors import LimitedKey, TypeForbidden
from gnomon.access.principal import Role
from gnomon.api.auth.holding import check_held, check_startable
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.idempotency import Answer, answer, changed, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import (
    DeadLetterFilter,
    DeadLetterPage,
    NoQuery,
    Nothing,
    PageQuery,
    Redriven,
    TaskReceipt,
    TaskView,
)
from gnomon.api.tasks.submissions import check_type, filter_of
from gnomon.api.tasks.views import cursor_of, cursor_view, task_view
from gnomon.model.errors import TaskNotFound
from gnomon.model.lifecycle import Status
from gnomon.model.task import Resolution, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.tasks import TaskChange

MOST_REDRIVEN = 10_000  # in one request


@Operation(
    "GET",
    "/",
    name="list_dead_letters",
    role=Role.READ,
    summary="List the dead letters that are not resolved, newest first",
    query=PageQuery,
    answers={200: DeadLetterPage},
)
async def list_dead_letters(request: Request) -> ASGIResponse:
    asked = queried(request, PageQuery)
    page = await context_of(request).store.list_dead(
        tenant_of(request), filter_of(asked), cursor_of(asked.cursor), asked.limit
    )
    tasks = [task_view(task) for task in page.tasks]
    return respond(answer(200, DeadLetterPage(tasks, cursor_view(page.next_cursor))))


@Operation(
    "GET",
    "/{task_id:str}",
    name="get_dead_letter",
    role=Role.READ,
    summary="Read a dead letter, resolved or not",
    query=NoQuery,
    answers={200: TaskView},
    errors=(404,),
)
async def get_dead_letter(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    task = await context_of(request).store.get(key)
    if task.status is not Status.DEAD_LETTERED:
        raise TaskNotFound(key.id)
    return respond(answer(200, task_view(task)))


@Operation(
    "POST",
    "/{task_id:str}/retry",
    name="retry_dead_letter",
    role=Role.OPERATE,
    summary="Run a dead letter again, with a new retry budget",
    body=Nothing,
    answers={202: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    grows=True,
    keyed=True,
)
async def retry_dead_letter(request: Request) -> ASGIResponse:
    task_id = task_id_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: TaskChange) -> Answer:
        await check_startable(request, change, task_id)
        return answer(202, task_view(await change.redrive(task_id)))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{task_id:str}/archive",
    name="archive_dead_letter",
    role=Role.OPERATE,
    summary="Put a dead letter to rest: it was dealt with",
    body=Nothing,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def archive_dead_letter(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.ARCHIVED)


@Operation(
    "POST",
    "/{task_id:str}/discard",
    name="discard_dead_letter",
    role=Role.OPERATE,
    summary="Put a dead letter to rest: it is not worth dealing with",
    body=Nothing,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def discard_dead_letter(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.DISCARDED)


async def _resolve(request: Request, resolution: Resolution) -> ASGIResponse:
    task_id = task_id_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: TaskChange) -> Answer:
        await check_held(request, change, task_id)
        return answer(200, task_view(await change.resolve(task_id, resolution)))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/retry",
    name="retry_dead_letters",
    role=Role.OPERATE,
    summary="Run the dead letters that match again, at most 10 000 in one request",
    body=DeadLetterFilter,
    answers={202: Redriven},
    grows=True,
    keyed=True,
)
async def retry_dead_letters(request: Request) -> ASGIResponse:
    body = await read_body(request, OVERHEAD_BYTES)
    chosen = filter_of(decoded(body, DeadLetterFilter))
    by = principal_of(request)
    if by.allow.limits:
        raise LimitedKey("your key is held to some targets: retry dead letters one by one")
    if by.task_types is not None and chosen.task_type is None:
        detail = f"must be given: your key is only for {', '.join(sorted(by.task_types))}"
        raise TypeForbidden(detail, "/task_type")
    check_type(by, chosen.task_type or "")

    async def act(change: TaskChange) -> Answer:
        return answer(202, Redriven(*await change.redrive_matching(chosen, MOST_REDRIVEN)))

    return await changed(request, body, act)


router = Router(
    "/api/v1/dead-letters",
    route_handlers=[
        list_dead_letters,
        get_dead_letter,
        retry_dead_letter,
        archive_dead_letter,
        discard_dead_letter,
        retry_dead_letters,
    ],
)
