"""Tasks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.tasks import (
    ExecutionInfo,
    ExplanationInfo,
    RelatedTasksInfo,
    SubmittedTask,
    TaskEdit,
    TaskInfo,
    TaskLabelsInfo,
    TaskSpec,
    TaskStatsInfo,
    TransitionInfo,
)
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Priority

Id: TypeAlias = str | UUID
IncludedPart: TypeAlias = Literal["executions", "failure"]
ChangedTask: TypeAlias = TaskInfo | SubmittedTask

_TASKS = "/tasks"


def submit_task(task: TaskSpec, *, idempotency_key: str | None = None) -> Call[ChangedTask]:
    """Submits a task."""
    key = idempotency_key if idempotency_key is not None else _own_key(task)
    return _changing("POST", _TASKS, body=task, key=key)


def submit_batch(
    tasks: Sequence[TaskSpec],
    *,
    correlation_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[list[SubmittedTask]]:
    """Submits up to 10 000 tasks, all or none; returns them in their order. `correlation_id` is for
    those that have none of their own."""
    return _batch(tasks, idempotency_key, correlation_id)


def submit_encoded(
    tasks: Sequence[msgspec.Raw], *, idempotency_key: str | None = None
) -> Call[list[SubmittedTask]]:
    """As `submit_batch`, for tasks that are JSON already."""
    return _batch(tasks, idempotency_key)


def get_task(
    task_id: Id, *, wait: float | None = None, include: IncludedPart | None = None
) -> Call[TaskInfo]:
    """Reads a task, or with `include` also its last executions: always, or if it ended without
    success. With `wait`, up to 30 seconds, it is read once it has ended, or after so long."""
    query = {"wait": wait, "include": include}
    return Call(method="GET", path=_task(task_id), answer=TaskInfo, query=query)


def list_tasks(
    *,
    status: Status | str | None = None,
    task_type: str | None = None,
    priority: Priority | str | None = None,
    tag: str | None = None,
    queue: str | None = None,
    cron_job_id: Id | None = None,
    batch_id: Id | None = None,
    due_after: datetime | str | None = None,
    due_before: datetime | str | None = None,
    id_prefix: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[TaskInfo]:
    """Lists tasks, newest first. `id_prefix` is the beginning of an id."""
    query = {
        "status": status,
        "task_type": task_type,
        "priority": priority,
        "tag": tag,
        "queue": queue,
        "cron_job_id": cron_job_id,
        "batch_id": batch_id,
        "due_after": due_after,
        "due_before": due_before,
        "id_prefix": id_prefix,
    }
    return Listing(
        path=_TASKS, member="tasks", item=TaskInfo, query=query, limit=limit, cursor=cursor
    )


def get_task_labels() -> Call[TaskLabelsInfo]:
    """Lists task types, tags and queues of the newest tasks, the commonest first."""
    return Call(method="GET", path="/tasks/labels", answer=TaskLabelsInfo)


def get_task_stats(
    *,
    status: Status | str | None = None,
    task_type: str | None = None,
    priority: Priority | str | None = None,
    tag: str | None = None,
    queue: str | None = None,
    cron_job_id: Id | None = None,
    batch_id: Id | None = None,
    due_after: datetime | str | None = None,
    due_before: datetime | str | None = None,
    id_prefix: str | None = None,
) -> Call[TaskStatsInfo]:
    """Counts tasks by status, and what is due and running by lane, task type and queue."""
    query = {
        "status": status,
        "task_type": task_type,
        "priority": priority,
        "tag": tag,
        "queue": queue,
        "cron_job_id": cron_job_id,
        "batch_id": batch_id,
        "due_after": due_after,
        "due_before": due_before,
        "id_prefix": id_prefix,
    }
    return Call(method="GET", path=f"{_TASKS}/stats", answer=TaskStatsInfo, query=query)


def list_executions(
    task_id: Id,
    *,
    outcome: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[ExecutionInfo]:
    """Lists the executions of a task, oldest first."""
    return Listing(
        path=f"{_task(task_id)}/executions",
        member="executions",
        item=ExecutionInfo,
        query={"outcome": outcome},
        limit=limit,
        cursor=cursor,
    )


def list_transitions(
    task_id: Id, *, limit: int | None = None, cursor: str | None = None
) -> Listing[TransitionInfo]:
    """Lists the transitions of a task whose type logs them, oldest first."""
    return Listing(
        path=f"{_task(task_id)}/transitions",
        member="transitions",
        item=TransitionInfo,
        limit=limit,
        cursor=cursor,
    )


def explain_task(task_id: Id) -> Call[ExplanationInfo]:
    """Explains why a task is not running."""
    return Call(method="GET", path=f"{_task(task_id)}/explain", answer=ExplanationInfo)


def list_related_tasks(task_id: Id) -> Call[RelatedTasksInfo]:
    """Lists the task that this one repeats, and the runs of its cron job around it."""
    return Call(method="GET", path=f"{_task(task_id)}/related", answer=RelatedTasksInfo)


def patch_task(
    task_id: Id, changes: TaskEdit, *, idempotency_key: str | None = None
) -> Call[ChangedTask]:
    """Changes a waiting task."""
    return _changing("PATCH", _task(task_id), body=changes, key=idempotency_key)


def delete_task(task_id: Id, *, idempotency_key: str | None = None) -> Call[None]:
    """Removes a task, its payload and its executions."""
    return Call(method="DELETE", path=_task(task_id), keyed=True, key=idempotency_key)


def cancel_task(
    task_id: Id, *, interrupt: bool = False, idempotency_key: str | None = None
) -> Call[ChangedTask]:
    """Cancels a task; a running one only with `interrupt`."""
    body = {"interrupt": interrupt}
    return _changing("POST", f"{_task(task_id)}/cancel", body=body, key=idempotency_key)


def pause_task(task_id: Id, *, idempotency_key: str | None = None) -> Call[ChangedTask]:
    """Keeps a task from running."""
    return _changing("POST", f"{_task(task_id)}/pause", key=idempotency_key)


def resume_task(task_id: Id, *, idempotency_key: str | None = None) -> Call[ChangedTask]:
    """Lets a paused task run again."""
    return _changing("POST", f"{_task(task_id)}/resume", key=idempotency_key)


def retry_task(task_id: Id, *, idempotency_key: str | None = None) -> Call[ChangedTask]:
    """Runs a task again; a finished one as a new task."""
    return _changing("POST", f"{_task(task_id)}/retry", key=idempotency_key)


def _batch(
    tasks: Sequence[TaskSpec] | Sequence[msgspec.Raw],
    key: str | None,
    correlation_id: str | None = None,
) -> Call[list[SubmittedTask]]:
    return Call(
        method="POST",
        path=f"{_TASKS}/batch",
        body={"tasks": tasks, "correlation_id": correlation_id},
        answer=list[SubmittedTask],
        member="tasks",
        keyed=True,
        key=key,
    )


def _changing(
    method: str, path: str, *, body: Any = msgspec.UNSET, key: str | None
) -> Call[ChangedTask]:
    return Call(
        method=method,
        path=path,
        body=body,
        answer=TaskInfo,
        receipt=SubmittedTask,
        keyed=True,
        key=key,
    )


def _own_key(task: TaskSpec | Mapping[str, Any]) -> str | None:
    return task.get("idempotency_key") if isinstance(task, Mapping) else task.idempotency_key


def _task(task_id: Id) -> str:
    return f"{_TASKS}/{segment(task_id)}"
