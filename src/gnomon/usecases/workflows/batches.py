"""Opens, closes and cancels batches."""

from datetime import timedelta
from uuid import UUID

import msgspec

from gnomon.access.principal import Principal
from gnomon.clock import new_id
from gnomon.model.errors import InvalidTask
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.batches import NewBatch
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.authorization import check_whole
from gnomon.usecases.checks.payload_check import check_schema
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.text_check import check_line
from gnomon.usecases.tasks.submit import allowed
from gnomon.usecases.tasks.task_requests import SubmitTask
from gnomon.usecases.workflows.batch_requests import OpenBatch
from gnomon.usecases.workflows.node_tasks import check_no_times
from gnomon.workflow.batch import ON_COMPLETE, ON_SUCCESS, BatchOfTasks


async def accept_batch(
    rules: TenantRules, by: Principal, asked: OpenBatch, origin: Origin | None
) -> NewBatch:
    """The batch to store. Raises InvalidTask, with the place."""
    check_line(asked.name, "/name")
    now = rules.clock.now()
    batch_id = new_id(now)
    callbacks: dict[str, Submission] = {}
    for name, body in ((ON_SUCCESS, asked.on_success), (ON_COMPLETE, asked.on_complete)):
        if body is None:
            continue
        try:
            task = _callback(rules, by, body, batch_id, origin)
            await check_schema(rules, by.tenant_id, task.task_type, task.payload)
        except InvalidTask as error:
            raise error.within(f"/{name}") from error
        callbacks[name] = task
    return NewBatch(
        tenant_id=by.tenant_id,
        id=batch_id,
        name=asked.name,
        deadline=now + timedelta(seconds=asked.close_within_seconds),
        created_at=now,
        created_by=by.name,
        on_success=callbacks.get(ON_SUCCESS),
        on_complete=callbacks.get(ON_COMPLETE),
    )


def _callback(
    rules: TenantRules, by: Principal, body: SubmitTask, batch_id: UUID, origin: Origin | None
) -> Submission:
    """A callback. One without a payload is told the batch."""
    check_no_times(body, "callbacks", "they start with their batch, and once")
    if body.payload is msgspec.UNSET:
        told = msgspec.Raw(msgspec.json.encode({"batch_id": batch_id}))
        body = msgspec.structs.replace(body, payload=told)
    return allowed(rules, by, body, rules.clock.now(), None, origin)


async def open_batch(change: PostgresTaskChange, batch: NewBatch) -> BatchOfTasks:
    """Stores a batch and its callbacks. Raises QuotaExceeded, TooManyBatches."""
    callbacks = [each for each in (batch.on_success, batch.on_complete) if each is not None]
    await change.insert([NewTask(each) for each in callbacks])
    change.due.clear()  # they wait for their turn
    return await change.batches.insert(batch)


async def cancel_batch(
    change: PostgresTaskChange, by: Principal, batch_id: UUID, *, interrupt: bool
) -> BatchOfTasks:
    """Cancels a batch; its members follow. Raises LimitedKey, BatchNotFound, BatchIsClosed."""
    check_whole(by)
    reason = "cancelled" if by.name is None else f"cancelled by {by.name}"
    return await change.batches.cancel(batch_id, reason, interrupt=interrupt)
