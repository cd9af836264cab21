"""Tasks, executions and transitions as the API shows them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gnomon.api.tasks.schemas import (
    ExecutionOutcome,
    ExecutionView,
    NewTaskView,
    ProgressView,
    RetryPolicyView,
    TaskDetail,
    TaskView,
    TransitionState,
    TransitionView,
)
from gnomon.model.ids import created_at
from gnomon.model.insight.transition import Transition
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import (
    ReportedProgress,
    Submission,
    Task,
    TaskTemplate,
    template_fields,
)

NULL = msgspec.Raw(b"null")
_PRIORITIES = tuple(Priority)  # in the order of Lane


def task_view(task: Task) -> TaskView:
    return TaskView(
        task_id=task.task_id,
        name=task.name,
        status=task.status,
        payload=raw(task.payload),
        execute_at=task.execute_at,
        expires_at=task.expires_at,
        created_at=task.created_at,
        created_by=task.created_by,
        started_at=task.started_at,
        finished_at=task.finished_at,
        attempt=task.attempt,
        next_retry_at=task.next_retry_at,
        last_error=task.last_error,
        result=raw(task.result),
        resolution=task.resolution,
        cancel_requested=task.cancel_requested,
        cron_job_id=task.cron_job_id,
        retry_of=task.retry_of,
        idempotency_key=task.idempotency_key,
        payload_kept=task.payload_kept,
        correlation_id=task.correlation_id,
        trace_id=task.trace_id,
        workflow_run_id=task.workflow_run_id,
        node=task.workflow_node,
        batch_id=task.batch_id,
        progress=_progress_view(task.progress),
        **template_view(task),
    )


def _progress_view(progress: ReportedProgress | None) -> ProgressView | None:
    if progress is None:
        return None
    return ProgressView(progress.fraction, progress.message, progress.at)


def new_view(submission: Submission, now: datetime, warnings: Sequence[str] = ()) -> NewTaskView:
    """The task that a submission becomes, as it would be read back."""
    return NewTaskView(
        task_id=submission.id,
        name=submission.name,
        status=status_of(State.WAITING, submission.due_at, 0, now),
        payload=raw(submission.payload),
        execute_at=submission.execute_at,
        expires_at=submission.expires_at,
        created_at=created_at(submission.id),
        created_by=submission.created_by,
        started_at=None,
        finished_at=None,
        attempt=0,
        next_retry_at=None,
        last_error=None,
        result=NULL,
        resolution=None,
        cancel_requested=False,
        cron_job_id=None,
        retry_of=submission.retry_of,
        idempotency_key=submission.idempotency_key,
        payload_kept=True,
        correlation_id=submission.correlation_id,
        trace_id=submission.trace_id,
        workflow_run_id=None,
        node=None,
        batch_id=submission.batch_id,
        progress=None,
        warnings=list(warnings),
        **template_view(submission),
    )


def template_view(template: TaskTemplate) -> dict[str, Any]:
    """The fields of a TemplateView by name."""
    fields = template_fields(template)
    fields["target"] = template.target.masked()
    fields["priority"] = _PRIORITIES[template.priority]
    fields["retry_policy"] = _policy_view(template.retry_policy)
    return fields


def _policy_view(policy: RetryPolicy) -> RetryPolicyView:
    return RetryPolicyView(
        policy.max_retries,
        policy.backoff,
        policy.base_seconds,
        policy.max_seconds,
        policy.jitter,
        policy.retry_client_errors,
    )


def task_detail(task: Task, executions: Iterable[Execution] | None) -> TaskDetail:
    view = task_view(task)
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    if executions is not None:
        fields["executions"] = [execution_view(each) for each in executions]
    return TaskDetail(**fields)


def execution_view(execution: Execution) -> ExecutionView:
    return ExecutionView(
        attempt=execution.attempt,
        outcome=ExecutionOutcome(execution.outcome),
        worker=execution.worker,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        error=execution.error,
        response_status=execution.response_status,
        response_body=execution.response_body,
        result=raw(execution.result),
        traceback=execution.traceback,
    )


def transition_view(transition: Transition) -> TransitionView:
    return TransitionView(
        number=transition.number,
        at=transition.at,
        from_state=_transition_state(transition.from_state),
        to_state=_transition_state(transition.to_state),
        attempt=transition.attempt,
        fence=transition.fence,
        node=transition.node,
    )


def _transition_state(state: State | None) -> TransitionState | None:
    if state is State.DEAD:
        return TransitionState.DEAD_LETTERED
    return None if state is None else TransitionState[state.name]


def raw(text: bytes | None) -> msgspec.Raw:
    return NULL if text is None else msgspec.Raw(text)
