"""`/tasks`: submit, read, change."""

import msgspec
from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, principal_of, task_id_of, tenant_of
from gnomon.api.http.bounds.pace import pace_headers
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.cursors import (
    cursor_of,
    cursor_view,
    number_cursor_of,
    number_cursor_view,
)
from gnomon.api.http.requests.idempotency import (
    Answer,
    answer,
    changed,
    changed_by,
    kept,
    key_of,
    once_of,
    repeated,
    replayed,
    respond,
    shown,
)
from gnomon.api.http.requests.producing import produced
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.tasks.schemas import (
    CancelTask,
    ExecutionPage,
    ExecutionQuery,
    GetTaskQuery,
    IncludedPart,
    NewTaskView,
    Nothing,
    TaskDetail,
    TaskPage,
    TaskQuery,
    TaskReceipt,
    TaskView,
    TransitionPage,
    TransitionQuery,
)
from gnomon.api.tasks.views import (
    NULL,
    execution_view,
    new_view,
    task_detail,
    task_view,
    transition_view,
)
from gnomon.api.tasks.waiting import awaited
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission, Task, TaskKey
from gnomon.settings import OVERHEAD_BYTES
from gnomon.store.ports.work.tasks import NewTask, Once
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.tasks import change_task
from gnomon.usecases.tasks.submit import AnsweredBefore, accept
from gnomon.usecases.tasks.task_requests import PatchTask, SubmitTask, SubmitWithCallbacks
from gnomon.usecases.workflows import callbacks

PATH = "/api/v1/tasks"
INCLUDED_EXECUTIONS = 50


@Operation(
    "POST",
    "/",
    name="submit_task",
    role=Role.SUBMIT,
    summary="Submit a task",
    body=SubmitWithCallbacks,
    body_required=True,
    answers={202: NewTaskView},
    receipt=TaskReceipt,
    echoes=True,
    errors=(404, 409),
    grows=True,
    keyed=True,
    paced=True,
)
async def submit_task(request: Request) -> ASGIResponse:
    body = await read_body(request, context_of(request).rules.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, SubmitWithCallbacks)
    origin, span = produced(request, asked.task_type)
    if span is None:
        return await _submit(request, body, asked, origin)
    with span:
        return await _submit(request, body, asked, origin)


async def _submit(
    request: Request, body: bytes, asked: SubmitWithCallbacks, origin: Origin | None
) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    key = key_of(request, asked.idempotency_key)
    once = None if key is None else repeated(key, "POST", PATH, body)
    now = context.clock.now()
    submission = await accept(context.store, context.rules, by, asked, now, once, origin)
    if isinstance(submission, AnsweredBefore):
        return _again(request, submission.answer, asked)
    view = new_view(submission, now, context.handlers.warnings(submission))
    if asked.has_callbacks:
        once = None if key is None else once_of(key, "POST", PATH, body)
        return await _submit_with_callbacks(request, asked, submission, view, once)
    if key is None:
        new = NewTask(submission)
    else:  # the repeated request brings the payload again
        once = once or once_of(key, "POST", PATH, body)
        bare = answer(202, msgspec.structs.replace(view, payload=NULL))
        new = NewTask(submission, once, kept(bare))
    receipt = await context.batcher.submit(new)
    if receipt.replay is not None:
        return _again(request, receipt.replay, asked)
    return respond(answer(202, view), headers=pace_headers(receipt.pace))


async def _submit_with_callbacks(
    request: Request,
    asked: SubmitWithCallbacks,
    submission: Submission,
    view: NewTaskView,
    once: Once | None,
) -> ASGIResponse:
    context, by = context_of(request), principal_of(request)
    run, _ = callbacks.accept_callbacks(context.rules, by, asked, submission)
    view = msgspec.structs.replace(view, workflow_run_id=run.id, node=callbacks.TASK)
    async with context.store.change(by.tenant_id, once) as change:
        if change.replay is not None:
            return _again(request, change.replay, asked)
        await callbacks.start(change, run)
        change.answer = kept(answer(202, msgspec.structs.replace(view, payload=NULL)))
    return respond(answer(202, view))


def _again(request: Request, replay: bytes, asked: SubmitTask) -> ASGIResponse:
    """The answer to an earlier request with the same key, with the payload of this one."""
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
        tenant_of(request), asked.chosen(), cursor_of(asked.cursor), asked.limit
    )
    tasks = [task_view(task) for task in page.tasks]
    return respond(answer(200, TaskPage(tasks, cursor_view(page.next_cursor))))


@Operation(
    "GET",
    "/{task_id:str}",
    name="get_task",
    role=Role.READ,
    summary="Read a task; with wait, once it has ended",
    query=GetTaskQuery,
    answers={200: TaskDetail},
    errors=(404,),
)
async def get_task(request: Request) -> ASGIResponse:
    asked = queried(request, GetTaskQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    task, executions = await awaited(request, key, asked.wait), None
    if _with_executions(asked.include, task.status):  # read later, so that none is missing
        executions = await context_of(request).store.last_executions(key, INCLUDED_EXECUTIONS)
    return respond(answer(200, task_detail(task, executions)))


def _with_executions(part: IncludedPart | None, status: Status) -> bool:
    if part is IncludedPart.FAILURE:
        return status.has_ended and status is not Status.COMPLETED
    return part is IncludedPart.EXECUTIONS


@Operation(
    "GET",
    "/{task_id:str}/executions",
    name="list_executions",
    role=Role.READ,
    summary="List the executions of a task, oldest first",
    query=ExecutionQuery,
    answers={200: ExecutionPage},
    errors=(404,),
)
async def list_executions(request: Request) -> ASGIResponse:
    asked = queried(request, ExecutionQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    page = await context_of(request).store.executions(
        key, asked.outcome, number_cursor_of(asked.cursor), asked.limit
    )
    executions = [execution_view(each) for each in page.executions]
    return respond(answer(200, ExecutionPage(executions, number_cursor_view(page.next_cursor))))


@Operation(
    "GET",
    "/{task_id:str}/transitions",
    name="list_transitions",
    role=Role.READ,
    summary="List the transitions of a task whose type logs them, oldest first",
    query=TransitionQuery,
    answers={200: TransitionPage},
    errors=(404,),
)
async def list_transitions(request: Request) -> ASGIResponse:
    asked = queried(request, TransitionQuery)
    key = TaskKey(tenant_of(request), task_id_of(request))
    page = await context_of(request).store.transitions(
        key, number_cursor_of(asked.cursor), asked.limit
    )
    transitions = [transition_view(each) for each in page.transitions]
    return respond(answer(200, TransitionPage(transitions, number_cursor_view(page.next_cursor))))


@Operation(
    "PATCH",
    "/{task_id:str}",
    name="patch_task",
    role=Role.OPERATE,
    summary="Change a waiting task",
    body=PatchTask,
    body_required=True,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    grows=True,
    keyed=True,
)
async def patch_task(request: Request) -> ASGIResponse:
    rules, by, task_id = context_of(request).rules, principal_of(request), task_id_of(request)
    body = await read_body(request, rules.max_payload_bytes + OVERHEAD_BYTES)
    asked = decoded(body, PatchTask)

    async def act(change: PostgresTaskChange) -> Answer:
        return _shown(200, await change_task.patch(change, rules, by, task_id, asked))

    return await changed(request, body, act)


@Operation(
    "DELETE",
    "/{task_id:str}",
    name="delete_task",
    role=Role.OPERATE,
    summary="Remove a task, its payload and its executions",
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
    summary="Cancel a task; a running one only with interrupt",
    body=CancelTask,
    answers={200: TaskView},
    receipt=TaskReceipt,
    errors=(404,),
    keyed=True,
)
async def cancel_task(request: Request) -> ASGIResponse:
    by, task_id = principal_of(request), task_id_of(request)

    async def act(change: PostgresTaskChange, asked: CancelTask) -> Answer:
        return _shown(200, await change_task.cancel(change, by, task_id, interrupt=asked.interrupt))

    return await changed_by(request, CancelTask, act)


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

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return _shown(200, await change_task.pause(change, by, task_id))

    return await changed_by(request, Nothing, act)


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

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return _shown(200, await change_task.resume(change, by, task_id))

    return await changed_by(request, Nothing, act)


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
    rules, by, task_id = context_of(request).rules, principal_of(request), task_id_of(request)

    async def act(change: PostgresTaskChange, _: Nothing) -> Answer:
        return _shown(202, await change_task.retry(change, rules, by, task_id))

    return await changed_by(request, Nothing, act)


def _shown(status: int, task: Task | Submission) -> Answer:
    if isinstance(task, Submission):
        return answer(status, new_view(task, task.due_at))
    return answer(status, task_view(task))


router = Router(
    PATH,
    route_handlers=[
        submit_task,
        list_tasks,
        get_task,
        list_executions,
        list_transitions,
        patch_task,
        delete_task,
        cancel_task,
        pause_task,
        resume_task,
        retry_task,
    ],
)
