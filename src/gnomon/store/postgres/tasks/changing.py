"""One transaction that changes tasks: lock the row, ask the lifecycle, write."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from gnomon.limits.limiter import Limiter, limit_keys
from gnomon.model.errors import IllegalTransition, InvalidTask, TaskNotFound
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.tasks.lifecycle import Event, State, Status, after, status_of
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Resolution, Submission, Task, TaskKey, TaskPatch
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.tasks import NewTask, Receipt
from gnomon.store.postgres.batches.batch_change import PostgresBatchChange
from gnomon.store.postgres.bulk.bulk_change import PostgresBulkChange
from gnomon.store.postgres.cron.changing import PostgresCronChange
from gnomon.store.postgres.levels.watching import has_level, watch
from gnomon.store.postgres.limits.limit_keys import limited
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import (
    KEEP_CODES,
    exact,
    is_early,
    lane_of,
    policy_of,
    size_apart,
    stored_payload,
    stored_policy,
    stored_tags,
    stored_target,
    task_of,
)
from gnomon.store.postgres.tasks import admitting
from gnomon.store.postgres.tasks.admitting import Asked
from gnomon.store.postgres.tasks.inserting import fresh, insert_once
from gnomon.store.postgres.workflows.workflow_change import PostgresWorkflowChange

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_T = TypeVar("_T")

_REMEDIES = {
    (State.RUNNING, Event.CANCEL): 'send {"interrupt": true} to cancel it while it runs',
    (State.RUNNING, Event.PAUSE): "wait until it has ended, or cancel it",
    (State.RUNNING, Event.CHANGE): "wait until it has ended, or cancel it",
    (State.DEAD, Event.CANCEL): "retry, archive or discard it as a dead letter",
    (State.DEAD, Event.CHANGE): "retry it first, or submit a new task",
    (State.PAUSED, Event.REDRIVE): "resume it",
    (State.BLOCKED, Event.REDRIVE): "it runs when the tasks it waits for have completed",
    (State.WAITING, Event.RESUME): "only a paused task can be resumed",
}


class PostgresTaskChange:
    """An open transaction of one tenant, with the hints to send once it is committed."""

    def __init__(
        self,
        connection: "Connection",
        tenant_id: str,
        quotas: Quotas,
        limiters: Sequence[Limiter],
        keep_seconds: float,
        replay: bytes | None,
    ) -> None:
        self.replay = replay
        self.answer = b"null"
        self.due: list[Entry] = []
        self.inserted: list[Submission] = []
        self.cancels: list[TaskKey] = []
        self.cron = PostgresCronChange(
            connection, tenant_id, quotas, limiters, self.due, self.inserted
        )
        self.bulk = PostgresBulkChange(connection, tenant_id, quotas, self.due, self.cancels)
        self.workflows = PostgresWorkflowChange(connection, tenant_id, self.due, limiters)
        self.batches = PostgresBatchChange(connection, tenant_id, self.due)
        self._connection = connection
        self._tenant_id = tenant_id
        self._quotas = quotas
        self._limiters = limiters
        self._keep_seconds = keep_seconds

    async def insert(self, batch: Sequence[NewTask]) -> list[Receipt]:
        """Store new tasks, and find those that were stored before under their key. Raises
        BatchNotFound, BatchIsClosed, BatchIsFull where one cannot be put into its batch."""
        new = [limited(each, self._limiters) for each in batch]
        receipts, entries = await insert_once(self._connection, new, self._keep_seconds, self._ask)
        for receipt in receipts:
            if receipt.refused is not None:
                raise receipt.refused
        self.due += entries
        self.inserted += fresh(new, receipts)
        return receipts

    def _ask(self, batch: Sequence[Submission]) -> Asked:
        return admitting.asked(batch, lambda _: self._quotas, whole=True)

    async def get(self, task_id: UUID) -> Task:
        """Read one, locked until the end of the transaction where it is live."""
        await self._lock(task_id)
        return await self._read(task_id)

    async def cancel(self, task_id: UUID, *, interrupt: bool) -> Task:
        """Cancel. A running task is only cancelled with `interrupt`, and then by its node."""
        row = await self._lock(task_id)
        if row is None:
            return await self._finished_as(task_id, Status.CANCELLED, Event.CANCEL)
        if row["state"] == State.RUNNING and interrupt:
            await self._move(task_id, row, State.RUNNING, cancel_requested=True)
            self.cancels.append(TaskKey(self._tenant_id, task_id))
        else:
            await self._archive(task_id, _next(task_id, row, Event.CANCEL))
        return await self._read(task_id)

    async def pause(self, task_id: UUID) -> Task:
        """Keep a waiting task from running."""
        row = await self._lock_live(task_id, Event.PAUSE)
        if row["state"] != State.PAUSED:
            await self._move(task_id, row, _next(task_id, row, Event.PAUSE))
        return await self._read(task_id)

    async def resume(self, task_id: UUID) -> Task:
        """Let a paused task run again, at its time, or now where that has passed."""
        row = await self._lock_live(task_id, Event.RESUME)
        state = _next(task_id, row, Event.RESUME)
        await self._wait_until(task_id, row, state, max(row["due_at"], row["now"]))
        return await self._read(task_id)

    async def patch(self, task_id: UUID, patch: TaskPatch) -> Task:
        """Change a task that waits."""
        row = await self._lock_live(task_id, Event.CHANGE)
        state = _next(task_id, row, Event.CHANGE)
        if patch.payload is not msgspec.UNSET or patch.target is not msgspec.UNSET:
            more = len(_or_else(patch.payload, None) or b"")
            await admitting.check_stored(self._connection, self._tenant_id, self._quotas, more)
        due_at, flow = await self._write_patch(task_id, row, patch)
        if has_level(row) or patch.sla_seconds or patch.warn_after_seconds:
            new = row["sla_seconds"] is None
            await watch(self._connection, self._tenant_id, [task_id], new_deadline=new)
        task = await self._read(task_id)
        if any(limiter.key is not None for limiter in self._limiters):
            flow = await self._write_limit_keys(task)
        if state is State.WAITING:
            lane = _or_else(patch.priority, lane_of(row["lane"]))
            key, by_handler = TaskKey(self._tenant_id, task_id), task.target.by_handler
            self.due.append(Entry(key, due_at, lane, flow=flow, by_handler=by_handler))
        return task

    async def delete(self, task_id: UUID) -> None:
        """Remove a task, its payload and its executions. A running one is refused."""
        row = await self._lock(task_id)
        if row is not None and row["state"] == State.RUNNING:
            remedy = 'cancel it first with {"interrupt": true}'
            raise IllegalTransition(task_id, Status.RUNNING, "deleted", remedy)
        if not await self._connection.fetchval(query("delete_task"), self._tenant_id, task_id):
            raise TaskNotFound(task_id)

    async def redrive(self, task_id: UUID) -> Task:
        """Run a dead letter again: now, with a new retry budget, under the same id. Raises
        QuotaExceeded."""
        row = await self._lock_live(task_id, Event.REDRIVE)
        state = _next(task_id, row, Event.REDRIVE)
        if row["workflow_run_id"] is not None:
            await self.workflows.check_redrive(task_id, row["workflow_run_id"])
        # Its next executions are kept as well.
        await admitting.check_stored(self._connection, self._tenant_id, self._quotas)
        if row["cron_job_id"] is None:
            await admitting.take_room(self._connection, self._tenant_id, self._quotas, 1)
        budget = policy_of(row["retry_policy"]).max_retries
        if row["workflow_run_id"] is not None and await self.workflows.turn_again(task_id):
            await self._move(task_id, row, State.BLOCKED, retries_left=budget, losses=0)
            return await self._read(task_id)
        await self._wait_until(task_id, row, state, row["now"], retries_left=budget, losses=0)
        return await self._read(task_id)

    async def hasten(self, task_id: UUID) -> Task:
        """Run a failed task again now, on the retries that it has left."""
        row = await self._lock_live(task_id, Event.REDRIVE)
        if row["state"] != State.WAITING or row["attempt"] == 0:
            raise _illegal(task_id, row, Event.REDRIVE)
        await self._wait_until(task_id, row, State.WAITING, min(row["due_at"], row["now"]))
        return await self._read(task_id)

    async def resolve(
        self, task_id: UUID, resolution: Resolution, by: str | None, note: str | None
    ) -> Task:
        """Archive a dead letter as resolved. One that is resolved so already keeps its note."""
        row = await self._lock(task_id)
        if row is None:
            task = await self._finished_as(task_id, Status.DEAD_LETTERED, Event.RESOLVE)
            if task.resolution is resolution:
                return task
            raise IllegalTransition(task_id, f"already {task.resolution}", resolution)
        await self._archive(task_id, _next(task_id, row, Event.RESOLVE), resolution, by, note)
        return await self._read(task_id)

    async def _lock(self, task_id: UUID) -> asyncpg.Record | None:
        """The row of a live task. One that was claimed ahead of its time waits still: it is taken
        back from its node, unless its time has come meanwhile."""
        asked = query("lock_task"), self._tenant_id, task_id
        row = await self._connection.fetchrow(*asked)
        if row is None or not is_early(row):
            return row
        await self._connection.execute(query("take_back"), self._tenant_id, [task_id])
        return await self._connection.fetchrow(*asked)

    async def _lock_live(self, task_id: UUID, event: Event) -> asyncpg.Record:
        row = await self._lock(task_id)
        if row is None:
            task = await self._read(task_id)
            raise IllegalTransition(task_id, task.status, event.value, "it has ended")
        return row

    async def _read(self, task_id: UUID) -> Task:
        row = await self._connection.fetchrow(query("get_task"), self._tenant_id, task_id)
        if row is None:
            raise TaskNotFound(task_id)
        return task_of(row)

    async def _finished_as(self, task_id: UUID, status: Status, event: Event) -> Task:
        """The finished task, where it already is what the event would make of it."""
        task = await self._read(task_id)
        if task.status is not status:
            raise IllegalTransition(task_id, task.status, event.value, "it has ended")
        return task

    async def _archive(
        self,
        task_id: UUID,
        state: State,
        resolution: Resolution | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        statement, tenant_id = query("archive_task"), self._tenant_id
        await self._connection.execute(statement, tenant_id, task_id, state, resolution, by, note)

    async def _wait_until(
        self,
        task_id: UUID,
        row: asyncpg.Record,
        state: State,
        due_at: datetime,
        **changes: int,
    ) -> None:
        """Make the task wait for `due_at`, and tell the nodes. Who asks for a task to run that has
        expired means it: an expiry in the past is taken off."""
        expires_at = row["expires_at"]
        if expires_at is not None and expires_at <= due_at:
            expires_at = None
        await self._move(task_id, row, state, due_at=due_at, expires_at=expires_at, **changes)
        if has_level(row):
            await watch(self._connection, self._tenant_id, [task_id])
        key = TaskKey(self._tenant_id, task_id)
        lane, flow, by_handler = lane_of(row["lane"]), row["flow"], row["by_handler"]
        self.due.append(Entry(key, due_at, lane, flow=flow, by_handler=by_handler))

    async def _move(
        self, task_id: UUID, row: asyncpg.Record, state: State, **changes: object
    ) -> None:
        columns = ("due_at", "expires_at", "retries_left", "losses", "cancel_requested")
        values = [changes.get(column, row[column]) for column in columns]
        statement = query("move_task")
        await self._connection.execute(statement, self._tenant_id, task_id, state, *values)

    async def _write_limit_keys(self, task: Task) -> int:
        keys = limit_keys(self._limiters, task.task_type, task.queue, task.payload)
        flow: int = await self._connection.fetchval(
            query("set_limit_keys"), self._tenant_id, task.task_id, keys
        )
        return flow

    async def _write_patch(
        self, task_id: UUID, row: asyncpg.Record, patch: TaskPatch
    ) -> tuple[datetime, int]:
        """Gives when it is due, and its flow."""
        execute_at, due_at, expires_at = _times(row, patch)
        policy = _or_else(patch.retry_policy, policy_of(row["retry_policy"]))
        payload = _or_else(patch.payload, None)
        target, tags = patch.target, patch.tags
        keep = row["keep_payload"]
        if patch.keep_payload is not msgspec.UNSET:
            keep = KEEP_CODES[patch.keep_payload]
        flow = await self._connection.fetchval(
            query("patch_task"),
            self._tenant_id,
            task_id,
            _or_else(patch.name, row["name"]),
            row["target"] if target is msgspec.UNSET else stored_target(target),
            execute_at,
            due_at,
            expires_at,
            _or_else(patch.priority, row["lane"]),
            _or_else(patch.timeout_seconds, exact(row["timeout_seconds"])),
            stored_policy(policy),
            _budget(row, policy),
            row["tags"] if tags is msgspec.UNSET else stored_tags(tags),
            patch.payload is not msgspec.UNSET,
            stored_payload(payload),
            size_apart(payload),
            _or_else(patch.queue, row["queue"]),
            _or_else(patch.preemptible, row["preemptible"]),
            keep,
            _or_else(patch.sla_seconds, row["sla_seconds"]),
            _or_else(patch.warn_after_seconds, row["warn_after_seconds"]),
        )
        return due_at, flow


def _next(task_id: UUID, row: asyncpg.Record, event: Event) -> State:
    state = after(State(row["state"]), event)
    if state is None:
        raise _illegal(task_id, row, event)
    return state


def _illegal(task_id: UUID, row: asyncpg.Record, event: Event) -> IllegalTransition:
    state = State(row["state"])
    status = status_of(state, row["due_at"], row["attempt"], row["now"])
    remedy = _REMEDIES.get((state, event), "")
    return IllegalTransition(task_id, status, event.value, remedy)


def _times(row: asyncpg.Record, patch: TaskPatch) -> tuple[datetime, datetime, datetime | None]:
    """When the task is asked for, due and expired once the patch is applied."""
    execute_at = _or_else(patch.execute_at, row["execute_at"])
    due_at = row["due_at"]
    if patch.execute_at is not msgspec.UNSET:
        due_at = max(patch.execute_at, row["now"])
    expires_at = _or_else(patch.expires_at, row["expires_at"])
    moved = patch.execute_at is not msgspec.UNSET or patch.expires_at is not msgspec.UNSET
    if moved and expires_at is not None and expires_at <= max(due_at, row["now"]):
        pointer = "/execute_at" if patch.expires_at is msgspec.UNSET else "/expires_at"
        raise InvalidTask(f"expires_at must be later than the start, {due_at.isoformat()}", pointer)
    return execute_at, due_at, expires_at


def _budget(row: asyncpg.Record, policy: RetryPolicy) -> int:
    """Retries left under a new policy: those spent under the old one stay spent."""
    spent: int = policy_of(row["retry_policy"]).max_retries - row["retries_left"]
    return max(0, policy.max_retries - spent)


def _or_else(value: _T | msgspec.UnsetType, current: _T) -> _T:
    return current if value is msgspec.UNSET else value
