"""`/tasks`: submit, read, change."""

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.idempotency import (
    Answer,
    answer,
    changed,
    kept,
    key_of,
    once_of,
    repeated,
    replayed,
    respond,
    shown,
)
from gnomon.api.http.operation import Operation
from gnomon.api.http.pace import pace_headers
from gnomon.api.http.reading import decoded, queried, read_body
from gnomon.api.tasks.retrying import check_kept
from gnomon.api.tasks.schemas import (
    CancelTask,
    ExecutionPage,
    NoQuery,
    Nothing,
    PatchTask,
    SubmitTask,
    TaskPage,
    TaskQuery,
    TaskReceipt,
    TaskView,
)
from gnomon.api.tasks.submissions import (
    allowed,
    check_own,
    filter_of,
    patch_of,
    repetition_of,
    why_not_retried,
    with_secrets,
)
from gnomon.api.tasks.views import NULL, cursor_of, cursor_view, execution_page, new_view, task_view
from gnomon.model.errors import IdempotencyConflict, IllegalTransition, InvalidTask
from gnomon.model.lifecycle import Status
from gnomon.model.task import Task, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.tasks import NewTask
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases import change_task
from gnomon.usecases.authorization import check_startable, check_work
from gnomon.usecases.payload_check import check_schema
from gnomon.usecases.quota_check import check_payload
from gnomon.usecases.target_check import check_allowed, check_target

PATH = "/api/v1/tasks"

_FINISHED = (Status.COMPLETED, Status.CANCELLED, Status.EXPIRED)


@Operation(
    "POST",
    "/",
    name="submit_task",
    role=Role.SUBMIT,
    summary="Submit a task",
    body=SubmitTask,
    body_required=True,
    answers={202: TaskView},
    receipt=TaskReceipt,
    echoes=True,
    grows=True,
    keyed=True,
    paced=True,
)
async def submit(request: Request) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    body = await read_body(request, context.settings.api.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, SubmitTask)
    key = key_of(request, asked.idempotency_key)
    now = context.clock.now()
    try:
        submission = allowed(context, asked, by, now, key)
        if context.directory.schema(by.tenant_id, asked.task_type) is not None:
            await check_schema(context.rules, by.tenant_id, asked.task_type, submission.payload)
    except InvalidTask:
        # The rules may have changed since this was accepted; what is theirs to submit is no rule.
        check_own(by, asked)
        once = repeated(key, "POST", PATH, body)
        if once is None:
            raise
        known = await context.store.answered(by.tenant_id, [once])
        if once not in known:
            raise
        return _again(request, known[once], asked)
    view = new_view(submission, now)
    if key is None:
        receipt = await context.intake.submit(NewTask(submission))
        return respond(answer(202, view), headers=pace_headers(receipt.pace))
    once = once_of(key, "POST", PATH, body)
    # The repeated request brings the payload again.
    bare = answer(202, msgspec.structs.replace(view, payload=NULL))
    receipt = await context.intake.submit(NewTask(submission, once, kept(bare)))
    if receipt.conflict:
        raise IdempotencyConflict(key)
    if receipt.replay is None:
        return respond(answer(202, view), headers=pace_headers(receipt.pace))
    return _again(request, receipt.replay, asked)


def _again(request: Request, replay: bytes, asked: SubmitTask) -> ASGIResponse:
    """The answer to an earlier request like this one, which brings the payload again."""
    bare = replayed(replay)
    fields = msgspec.json.decode(bare.body, type=dict[str, msgspec.Raw])
    if asked.payload is not msgspec.UNSET:
        fields["payload"] = asked.payload
    return respond(shown(request, answer(bare.status, fields), again=True), again=True)


@Operation(
    "GET",
    "/",
    name="list_tasks",
    role=Role.READ,
    summary="List tasks, newest first",
    query=TaskQuery,
    answers={200: TaskPage},
)
async def list_tasks(request: Request) -> ASGIResponse:
    asked = queried(request, TaskQuery)
    page = await context_of(request).store.list(
        tenant_of(request), filter_of(asked), cursor_of(asked.cursor), asked.limit
    )
    tasks = [task_view(task) for task in page.tasks]
    return respond(answer(200, TaskPage(tasks, cursor_view(page.next_cursor))))


@Operation(
    "GET",
    "/{task_id:str}",
    name="get_task",
    role=Role.READ,
    summary="Read a task",
    query=NoQuery,
    answers={200: TaskView},
    errors=(404,),
)
async def get_task(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    return respond(answer(200, task_view(await context_of(request).store.get(key))))


@Operation(
    "GET",
    "/{task_id:str}/executions",
    name="list_executions",
    role=Role.READ,
    summary="List the tries of a task, oldest first",
    query=NoQuery,
    answers={200: ExecutionPage},
    errors=(404,),
)
async def list_executions(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    return respond(answer(200, execution_page(await context_of(request).store.executions(key))))


@Operation(
    "PATCH",
    "/{task_id:str}",
    name="patch_task",
    role=Role.OPERATE,
    summary="Change a task that waits",
    body=PatchTask,
    body_required=True,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    grows=True,
    keyed=True,
)
async def patch_task(request: Request) -> ASGIResponse:
    context = context_of(request)
    most_bytes = context.settings.api.max_payload_bytes
    task_id = task_id_of(request)
    body = await read_body(request, most_bytes + OVERHEAD_BYTES)
    asked, by = decoded(body, PatchTask), principal_of(request)

    async def act(change: PostgresTaskChange) -> Answer:
        check_target(context.rules.address_guard(by.tenant_id), asked)
        wanted = patch_of(asked, context.clock.now(), most_bytes)
        if wanted.payload is not msgspec.UNSET:
            check_payload(wanted.payload, context.directory.quotas(by.tenant_id))
        task = await change.get(task_id)
        check_work(by, task)
        if wanted.target is not msgspec.UNSET:
            allow = context.directory.tenant(by.tenant_id).allow
            check_allowed(allow, by, wanted.target, asked)
        wanted.check_delivery(task.delivery)
        if wanted.payload is not msgspec.UNSET:
            await check_schema(context.rules, task.tenant_id, task.task_type, wanted.payload)
        return _shown(200, await change.patch(task_id, with_secrets(wanted, task.target)))

    return await changed(request, body, act)


@Operation(
    "DELETE",
    "/{task_id:str}",
    name="delete_task",
    role=Role.OPERATE,
    summary="Remove a task, its payload and its tries",
    answers={204: None},
    errors=(404,),
    keyed=True,
)
async def delete_task(request: Request) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)

    async def act(change: PostgresTaskChange) -> Answer:
        await change_task.delete(change, by, task_id)
        return answer(204)

    return await changed(request, b"", act)


@Operation(
    "POST",
    "/{task_id:str}/cancel",
    name="cancel_task",
    role=Role.OPERATE,
    summary="Cancel a task; one that runs only with interrupt",
    body=CancelTask,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def cancel_task(request: Request) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    asked = decoded(body, CancelTask)

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(200, await change_task.cancel(change, by, task_id, interrupt=asked.interrupt))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{task_id:str}/pause",
    name="pause_task",
    role=Role.OPERATE,
    summary="Keep a task from running",
    body=Nothing,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def pause_task(request: Request) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(200, await change_task.pause(change, by, task_id))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{task_id:str}/resume",
    name="resume_task",
    role=Role.OPERATE,
    summary="Let a paused task run again",
    body=Nothing,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def resume_task(request: Request) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(200, await change_task.resume(change, by, task_id))

    return await changed(request, body, act)


@Operation(
    "POST",
    "/{task_id:str}/retry",
    name="retry_task",
    role=Role.OPERATE,
    summary="Run a task again; a finished one as a new task",
    body=Nothing,
    answers={202: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    grows=True,
    keyed=True,
)
async def retry_task(request: Request) -> ASGIResponse:
    context, task_id, by = context_of(request), task_id_of(request), principal_of(request)
    body = await read_body(request, OVERHEAD_BYTES)
    decoded(body, Nothing)

    async def act(change: PostgresTaskChange) -> Answer:
        await check_startable(change, context.rules, by, task_id)
        task = await change.get(task_id)
        if task.status in _FINISHED or task.resolution is not None:
            check_kept(task)
            now = context.clock.now()
            repetition = repetition_of(task, by, now)
            await change.insert([NewTask(repetition)])
            return answer(202, new_view(repetition, now))
        if task.status is Status.DEAD_LETTERED:
            return _shown(202, await change.redrive(task_id))
        if task.next_retry_at is None:
            raise IllegalTransition(task_id, task.status, "retried", why_not_retried(task))
        return _shown(202, await change.hasten(task_id))

    return await changed(request, body, act)


def _shown(status: int, task: Task) -> Answer:
    return answer(status, task_view(task))


router = Router(
    PATH,
    route_handlers=[
        submit,
        list_tasks,
        get_task,
        list_executions,
        patch_task,
        delete_task,
        cancel_task,
        pause_task,
        resume_task,
        retry_task,
    ],
)
