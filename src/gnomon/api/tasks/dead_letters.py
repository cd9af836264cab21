"""`/dead-letters`: tasks that failed for good, until somebody retries or archives them."""

from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import (
    cursor_of,
    cursor_view,
    group_cursor_of,
    group_cursor_view,
    resolved_cursor_of,
    resolved_cursor_view,
)
from gnomon.api.http.requests.idempotency import Answer, answer, changed, changed_by, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.dead_letter_schemas import (
    DeadGroupPage,
    DeadLetterPage,
    DeadLetterQuery,
    DeadLetterView,
    GroupQuery,
    ResolveDeadLetter,
    dead_letter_view,
    group_view,
    read_text,
)
from gnomon.api.tasks.schemas import NoQuery, Nothing, TaskReceipt, TaskView
from gnomon.api.tasks.views import task_view
from gnomon.model.tasks.task import Resolution, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.tasks import dead_letters


@Operation(
    "GET",
    "/",
    name="list_dead_letters",
    role=Role.READ,
    summary="List the dead letters that are not resolved, newest first; or those that are",
    query=DeadLetterQuery,
    answers={200: DeadLetterPage},
)
async def list_dead_letters(request: Request) -> ASGIResponse:
    asked = queried(request, DeadLetterQuery)
    store, tenant, chosen = context_of(request).store, tenant_of(request), asked.chosen()
    if asked.resolved:
        before = resolved_cursor_of(asked.cursor)
        resolved = await store.dead_letters.resolved(tenant, chosen, before, asked.limit)
        tasks, after = resolved.tasks, resolved_cursor_view(resolved.next_cursor)
    else:
        page = await store.list_dead(tenant, chosen, cursor_of(asked.cursor), asked.limit)
        tasks, after = page.tasks, cursor_view(page.next_cursor)
    return respond(answer(200, DeadLetterPage([dead_letter_view(task) for task in tasks], after)))


@Operation(
    "GET",
    "/groups",
    name="list_dead_letter_groups",
    role=Role.READ,
    summary="List groups of unresolved dead letters by task type and error, newest death first",
    query=GroupQuery,
    answers={200: DeadGroupPage},
)
async def list_dead_letter_groups(request: Request) -> ASGIResponse:
    asked = queried(request, GroupQuery)
    page = await context_of(request).store.dead_letters.groups(
        tenant_of(request),
        asked.task_type,
        read_text(asked.fingerprint),
        group_cursor_of(asked.cursor),
        asked.limit,
    )
    view = DeadGroupPage(
        groups=[group_view(group) for group in page.groups],
        next_cursor=group_cursor_view(page.next_cursor),
        groups_capped=page.capped,
        ungrouped=page.ungrouped.count,
        ungrouped_capped=page.ungrouped.capped,
    )
    return respond(answer(200, view))


@Operation(
    "GET",
    "/{task_id:str}",
    name="get_dead_letter",
    role=Role.READ,
    summary="Read a dead letter, resolved or not",
    query=NoQuery,
    answers={200: DeadLetterView},
    errors=(404,),
)
async def get_dead_letter(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    task = await dead_letters.read(context_of(request).store, key)
    return respond(answer(200, dead_letter_view(task)))


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
    rules, by, task_id = context_of(request).rules, principal_of(request), task_id_of(request)

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return answer(202, task_view(await dead_letters.retry(change, rules, by, task_id)))

    return await changed_by(request, Nothing, act)


@Operation(
    "POST",
    "/{task_id:str}/archive",
    name="archive_dead_letter",
    role=Role.OPERATE,
    summary="Archive a dead letter that was dealt with",
    body=ResolveDeadLetter,
    answers={200: DeadLetterView},
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
    summary="Archive a dead letter that is not worth dealing with",
    body=ResolveDeadLetter,
    answers={200: DeadLetterView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def discard_dead_letter(request: Request) -> ASGIResponse:
    return await _resolve(request, Resolution.DISCARDED)


async def _resolve(request: Request, resolution: Resolution) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    note = decoded(body, ResolveDeadLetter).note

    async def act(change: PostgresTaskChange) -> Answer:
        resolved = await dead_letters.resolve(change, by, task_id, resolution, note)
        return answer(200, dead_letter_view(resolved))

    return await changed(request, body, act)


router = Router(
    "/api/v1/dead-letters",
    route_handlers=[
        list_dead_letters,
        list_dead_letter_groups,
        get_dead_letter,
        retry_dead_letter,
        archive_dead_letter,
        discard_dead_letter,
    ],
)
