"""The few routes of the API that an app needs to submit tasks and to read their results, answered
by running the handlers."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import httpx
import msgspec

from gnomon.client.types.tasks import ExecutionInfo, SubmittedTask, TaskInfo, TaskSpec
from gnomon.clock import SystemClock, new_id, new_incarnation
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TIMEOUT, DeliveryMode, KeepPayload, TaskKey
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.handler import Runs
from gnomon.sdk.executing.context import TaskContext, stored_result
from gnomon.sdk.executing.failure import describe, traceback_of
from gnomon.sdk.signals import Retry, Snooze, signal_in
from gnomon.testing.errors import NothingRuns, NotInThisMode
from gnomon.testing.records import RecordedTask, recorded

_TASKS = "/api/v1/tasks"
_NODE = new_incarnation()
_decode_spec = msgspec.json.Decoder(TaskSpec, strict=False).decode


class Mode(Enum):
    """What becomes of a submission."""

    RAISE = "run, and raise what the handler raises"
    KEEP = "run, and keep what the handler raises"
    RECORD = "only record"


class InlineTask(msgspec.Struct, kw_only=True):
    """`ClaimedTask`, as its handler may know it."""

    key: TaskKey
    task_type: str
    execute_at: datetime
    idempotency_key: str | None
    mode: DeliveryMode
    retries_left: int
    fence: int = 1
    incarnation: UUID = _NODE
    attempt: int = 1
    correlation_id: str = ""
    workflow_node: None = None  # it is in no run


class _Batch(msgspec.Struct):
    tasks: list[msgspec.Raw]
    correlation_id: str | None = None


class InlineTaskState(msgspec.Struct):
    """A task, the one execution that it had, and what that raised."""

    info: TaskInfo
    execution: ExecutionInfo | None = None
    error: BaseException | None = None


class InlineApi:
    """Answers the requests of one app."""

    def __init__(self, app: Gnomon, mode: Mode, record: Callable[[RecordedTask], None]) -> None:
        self._app = app
        self._mode = mode
        self._record = record
        self._clock = SystemClock()
        self._tasks: dict[UUID, InlineTaskState] = {}
        self._keys: dict[str, UUID] = {}

    def executed(self, task_id: UUID) -> InlineTaskState:
        if task_id not in self._tasks:
            raise KeyError(f"no task {task_id} was submitted here")
        return self._tasks[task_id]

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """Raises what handlers raise, where that is the mode."""
        method, path = request.method, request.url.path
        if (method, path) == ("POST", _TASKS):
            return _answered(202, await self._submit(request.content))
        if (method, path) == ("POST", f"{_TASKS}/batch"):
            specs = msgspec.json.decode(request.content, type=_Batch)
            told = [await self._submit(bytes(spec), specs.correlation_id) for spec in specs.tasks]
            submitted = [SubmittedTask(task_id=t.task_id, status=t.status) for t in told]
            return _answered(202, {"tasks": submitted})
        task_id, _, rest = path.removeprefix(f"{_TASKS}/").partition("/")
        if method == "GET" and path.startswith(f"{_TASKS}/") and rest in ("", "executions"):
            return self._read(UUID(task_id), rest, request.url.params)
        raise NotInThisMode(
            f"{method} {path} has no answer here: inline() and recording() submit tasks and read "
            "their results; use virtual_gnomon() for all else"
        )

    def _read(self, task_id: UUID, rest: str, asked: httpx.QueryParams) -> httpx.Response:
        state = self._tasks.get(task_id)
        if state is None:
            return _answered(404, {"title": "Not found", "detail": f"task {task_id} not found"})
        executions = [] if state.execution is None else [state.execution]
        if rest:
            return _answered(200, {"executions": executions, "next_cursor": None})
        if "wait" in asked:
            raise NothingRuns(f"{_unended(state.info)}; use virtual_gnomon() to see what follows")
        completed = state.info.status is Status.COMPLETED
        if "include" in asked and not (completed and asked["include"] == "failure"):
            return _answered(200, msgspec.structs.replace(state.info, executions=executions))
        return _answered(200, state.info)

    async def _submit(self, content: bytes, of_batch: str | None = None) -> TaskInfo:
        spec = _decode_spec(content)
        if spec.correlation_id is None:
            spec = msgspec.structs.replace(spec, correlation_id=of_batch)
        if spec.idempotency_key is not None and spec.idempotency_key in self._keys:
            return self._tasks[self._keys[spec.idempotency_key]].info
        now = self._clock.now()
        document: dict[str, Any] = msgspec.json.decode(content)
        info = _new_task(spec, document.get("payload"), now)
        state = self._tasks[info.task_id] = InlineTaskState(info)
        if spec.idempotency_key is not None:
            self._keys[spec.idempotency_key] = info.task_id
        self._record(recorded(info.task_id, document))
        if self._mode is not Mode.RECORD:
            await self._run(state)
        return info

    async def _run(self, state: InlineTaskState) -> None:
        info = state.info
        ctx = TaskContext(
            InlineTask(
                key=TaskKey(self._app.tenant, info.task_id),
                task_type=info.task_type,
                execute_at=info.execute_at,
                idempotency_key=info.idempotency_key,
                mode=info.delivery,
                retries_left=info.retry_policy.max_retries,
                correlation_id=info.correlation_id or str(info.task_id),
            )
        )
        handler = self._app.handlers.get(info.task_type)
        ctx.in_thread = handler is not None and handler.runs is not Runs.LOOP
        started = self._clock.now()
        ctx.begin(started.timestamp() + info.timeout_seconds, self._clock.seconds)
        payload = None if info.payload is None else msgspec.json.encode(info.payload)
        info.attempt, info.started_at = 1, started
        try:
            value = await self._app.execute(info.task_type, payload, ctx, asyncio.to_thread)
            result = None if value is None else msgspec.json.decode(stored_result(value))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            _settle(state, None, error, self._clock.now())
            if self._mode is Mode.RAISE:
                raise
        else:
            _settle(state, result, None, self._clock.now())


def _settle(
    state: InlineTaskState, result: Any, error: BaseException | None, now: datetime
) -> None:
    info = state.info
    kind = OutcomeKind.SUCCEEDED if error is None else OutcomeKind.FAILED
    signal = None if error is None else signal_in(error)
    match signal:
        case None:
            info.status, info.result, info.finished_at = Status.COMPLETED, result, now
        case Snooze():
            kind = OutcomeKind.SNOOZED
            info.status = Status.SCHEDULED
            info.execute_at = now + timedelta(seconds=signal.seconds)
        case Retry():
            info.status = Status.FAILED
            info.next_retry_at = now + timedelta(seconds=signal.seconds or 0.0)
        case _:
            info.status = Status.DEAD_LETTERED
    info.last_error = None if signal is None else describe(signal)
    state.error = error
    state.execution = ExecutionInfo(
        attempt=1,
        outcome=kind.name,
        worker="inline",
        started_at=info.started_at,
        finished_at=now,
        error=info.last_error,
        response_status=None,
        response_body=None,
        result=result,
        traceback=None if error is None else traceback_of(error),
    )


def _new_task(spec: TaskSpec, payload: Any, now: datetime) -> TaskInfo:
    later = timedelta(seconds=spec.delay_seconds or 0.0)
    task_id = new_id(now)
    return TaskInfo(
        task_id=task_id,
        task_type=spec.task_type,
        target=spec.target or PythonTarget(spec.task_type),
        priority=spec.priority or Priority.MEDIUM,
        delivery=spec.delivery or DeliveryMode.AT_LEAST_ONCE,
        retry_policy=spec.retry_policy or RetryPolicy(),
        timeout_seconds=spec.timeout_seconds or DEFAULT_TIMEOUT,
        tags=tuple(spec.tags),
        queue=spec.queue,
        preemptible=spec.preemptible,
        keep_payload=spec.keep_payload or KeepPayload.ALWAYS,
        sla_seconds=spec.sla_seconds,
        warn_after_seconds=spec.warn_after_seconds,
        status=Status.READY,
        name=spec.name,
        payload=payload,
        execute_at=spec.execute_at or now + later,
        expires_at=spec.expires_at,
        created_at=now,
        created_by=None,
        started_at=None,
        finished_at=None,
        attempt=0,
        next_retry_at=None,
        last_error=None,
        result=None,
        resolution=None,
        cancel_requested=False,
        cron_job_id=None,
        retry_of=spec.retry_of,
        idempotency_key=spec.idempotency_key,
        payload_kept=True,
        correlation_id=spec.correlation_id or str(task_id),
    )


def _unended(info: TaskInfo) -> str:
    about = f"task {info.task_id} ({info.task_type})"
    if info.attempt == 0:
        return f"{about} was only recorded, and does not run"
    return f"{about} was run once and is {info.status}: {info.last_error}"


def _answered(status: int, document: Any) -> httpx.Response:
    content = msgspec.json.encode(document)
    return httpx.Response(status, headers={"content-type": "application/json"}, content=content)
