"""Changes of a task that exists, each within one transaction of its tenant."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.access.principal import Principal
from gnomon.clock import new_id
from gnomon.model.errors import IllegalTransition
from gnomon.model.targets.target import Target
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission, Task, TaskPatch, template_fields
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.authorization import check_held, check_startable, check_work
from gnomon.usecases.checks.payload_check import check_schema
from gnomon.usecases.checks.quota_check import check_payload
from gnomon.usecases.checks.request_moments import utc
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.target_check import check_allowed, check_connection, check_target
from gnomon.usecases.tasks.submit import asked_moment
from gnomon.usecases.tasks.task_requests import PatchTask
from gnomon.usecases.tasks.task_template import changed_template, check_text, given, payload_of

UNSET = msgspec.UNSET

_FINISHED = (Status.COMPLETED, Status.CANCELLED, Status.EXPIRED)
_REMEDIES = {
    Status.RUNNING: "wait until it has ended",
    Status.PAUSED: "resume it",
    Status.SCHEDULED: "it has not run yet; move its execute_at to run it now",
    Status.READY: "it is about to run",
    Status.BLOCKED: "it runs when the tasks that it waits for have completed",
}
_NO_PAYLOAD = (
    "its payload was not kept (keep_payload); submit a new task with the payload, or submit such "
    "tasks with keep_payload: failed or always"
)


async def cancel(
    change: PostgresTaskChange, by: Principal, task_id: UUID, *, interrupt: bool
) -> Task:
    """Cancels a task; a running one only with `interrupt`. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.cancel(task_id, interrupt=interrupt)


async def pause(change: PostgresTaskChange, by: Principal, task_id: UUID) -> Task:
    """Keeps a waiting task from running. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.pause(task_id)


async def resume(change: PostgresTaskChange, by: Principal, task_id: UUID) -> Task:
    """Lets a paused task run again. Raises IllegalTransition."""
    await check_held(change, by, task_id)
    return await change.resume(task_id)


async def delete(change: PostgresTaskChange, by: Principal, task_id: UUID) -> None:
    """Removes a task, its payload and its executions. Raises IllegalTransition where it runs."""
    await check_held(change, by, task_id)
    await change.delete(task_id)


async def retry(
    change: PostgresTaskChange, rules: TenantRules, by: Principal, task_id: UUID
) -> Task | Submission:
    """Runs a task again. A finished task, or a resolved dead letter, is submitted as a new one; a
    dead letter gets a new retry budget; a retry that waits for its time starts now. Raises
    IllegalTransition."""
    await check_startable(change, rules, by, task_id)
    task = await change.get(task_id)
    if task.status in _FINISHED or task.resolution is not None:
        repetition = _repetition_of(task, rules, by)
        await change.insert([NewTask(repetition)])
        return repetition
    if task.status is Status.DEAD_LETTERED:
        return await change.redrive(task_id)
    if task.next_retry_at is None:
        raise IllegalTransition(task_id, task.status, "retried", _REMEDIES[task.status])
    return await change.hasten(task_id)


def _repetition_of(task: Task, rules: TenantRules, by: Principal) -> Submission:
    """A new task like a finished one, due now and without its expiry. Raises IllegalTransition."""
    if not task.payload_kept:
        raise IllegalTransition(task.task_id, task.status, "retried", _NO_PAYLOAD)
    now = rules.clock.now()
    return Submission(
        **template_fields(task),
        tenant_id=task.tenant_id,
        id=new_id(now),
        execute_at=now,
        due_at=now,
        payload=task.payload,
        name=task.name,
        created_by=by.name,
        retry_of=task.task_id,
        origin=Origin(task.correlation_id),  # its trace has ended
        log_transitions=rules.directory.defaults(task.tenant_id, task.task_type).log_transitions,
    )


async def patch(
    change: PostgresTaskChange, rules: TenantRules, by: Principal, task_id: UUID, asked: PatchTask
) -> Task:
    """Changes fields of a waiting task. Raises InvalidTask, with the place, IllegalTransition."""
    check_target(rules.address_guard(by.tenant_id), asked)
    wanted = patch_of(asked, rules.clock.now(), rules.max_payload_bytes)
    if wanted.payload is not UNSET:
        check_payload(wanted.payload, rules.quotas(by.tenant_id))
    task = await change.get(task_id)
    check_work(by, task)
    if wanted.target is not UNSET:
        check_allowed(rules.allow_list(by.tenant_id), by, wanted.target, asked)
        check_connection(rules.queues, by.tenant_id, wanted.target, asked)
    wanted.check_delivery(task.delivery)
    if wanted.payload is not UNSET:
        await check_schema(rules, task.tenant_id, task.task_type, wanted.payload)
    return await change.patch(task_id, _with_secrets(wanted, task.target))


def patch_of(asked: PatchTask, now: datetime, most_bytes: int) -> TaskPatch:
    """The changes that a request describes. Raises InvalidTask, with the place."""
    check_text(asked)
    changes = changed_template(asked)
    execute_at = asked_moment(given(asked.execute_at), given(asked.delay_seconds), now)
    if execute_at is not None:
        changes["execute_at"] = execute_at
    if asked.expires_at is not UNSET:
        changes["expires_at"] = utc(asked.expires_at, "/expires_at")
    if asked.payload is not UNSET:
        changes["payload"] = payload_of(asked.payload, most_bytes)
    return TaskPatch(name=asked.name, **changes)


def _with_secrets(patch: TaskPatch, stored: Target) -> TaskPatch:
    """The patch, with the stored secrets in place of their masks."""
    if patch.target is UNSET:
        return patch
    return msgspec.structs.replace(patch, target=patch.target.unmasked(stored))
