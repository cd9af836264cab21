"""Bulk operations: one action on all tasks that match a filter, a chunk at a time.

An operation touches nothing that was created after its start, and goes through the tasks by id,
newest first, each once. Tasks that it may not change are counted as refused, with the reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from gnomon.access.principal import Principal
from gnomon.clock import new_id
from gnomon.model.bulk_errors import CountChanged
from gnomon.model.targets.allow_list import AllowList
from gnomon.model.targets.target import Target
from gnomon.model.tasks.lifecycle import Event, State, after, status_of
from gnomon.model.tasks.task import Resolution
from gnomon.store.ports.work.bulk import (
    BulkAction,
    BulkKey,
    BulkOperation,
    BulkScope,
    BulkStatus,
    BulkWork,
)
from gnomon.store.ports.work.tasks import LOWEST_ID
from gnomon.store.postgres.bulk.bulk_change import PostgresBulkChange
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.checks.text_check import check_resolution_note

MOST_EXAMPLES = 5
MOST_REASONS = 20

ROLLED_BACK = "its workflow run is rolled back"
CHANGED_MEANWHILE = "it was changed or removed meanwhile"
OUTSIDE_OF_LIMITS = "it is outside of the limits of the key"
NOT_ALLOWED = "the tenant may no longer call its target"
WOULD_EXPIRE = "it would expire before"
UNREADABLE = "its target cannot be read"
STORE_REFUSED = "PostgreSQL refused the change"
OTHER_REASONS = "other reasons"

_target = msgspec.json.Decoder(Target)
_EVENTS = {
    BulkAction.RETRY: Event.REDRIVE,
    BulkAction.CANCEL: Event.CANCEL,
    BulkAction.RESCHEDULE: Event.CHANGE,
    BulkAction.ARCHIVE: Event.RESOLVE,
    BulkAction.DISCARD: Event.RESOLVE,
}
_RESOLUTIONS = {
    BulkAction.ARCHIVE: Resolution.ARCHIVED,
    BulkAction.DISCARD: Resolution.DISCARDED,
}

AllowListOf = Callable[[str], AllowList]


class BulkPreview(msgspec.Struct, frozen=True):
    """An operation that was begun, or was only looked at, and some of its tasks."""

    operation: BulkOperation
    examples: list[UUID] = []


def limited_work(work: BulkWork, by: Principal) -> BulkWork:
    """The work with the limits of its requester, checked. Raises InvalidTask, with the place."""
    work.check()
    check_resolution_note(work.note)
    return msgspec.structs.replace(work, task_types=by.task_types, allow=by.allow)


async def preview(
    change: PostgresTaskChange, by: Principal, work: BulkWork, now: datetime
) -> BulkPreview:
    """What the operation would be for; changes nothing."""
    await change.bulk.by_index()
    before = await change.bulk.newest()
    total, ids = await change.bulk.count(work, before)
    operation = BulkOperation(
        tenant_id=by.tenant_id,
        operation_id=LOWEST_ID,
        work=work,
        created_by=by.name,
        started_at=now,
        ended_at=None,
        status=BulkStatus.DRY_RUN,
        position=before,
        total=total,
    )
    return BulkPreview(operation, ids[:MOST_EXAMPLES])


async def start(
    change: PostgresTaskChange, by: Principal, work: BulkWork, expect: int | None, now: datetime
) -> BulkPreview:
    """Begins the operation. Raises CountChanged, TooManyBulkOperations."""
    found = await preview(change, by, work, now)
    total = found.operation.total
    if expect is not None and expect != total.count:
        raise CountChanged(expect, total.count, capped=total.capped)
    before = found.operation.position
    begun = await change.bulk.begin(new_id(now), work, by.name, before, total)
    return BulkPreview(begun, found.examples)


async def run_chunk(
    store: PostgresTasks, allow_list: AllowListOf, key: BulkKey, most: int, *, skip: bool = False
) -> bool:
    """The next tasks of an operation, at most so many, in one transaction; gives whether there may
    be more. With `skip` nothing is changed: they are counted as refused by the store."""
    async with store.change(key.tenant_id) as change:
        operation = await change.bulk.take(key.operation_id)
        if operation is None:
            return False
        await change.bulk.by_index()
        found = await change.bulk.next_matches(operation, most)
        chunk = _Chunk(change.bulk, operation, allow_list(key.tenant_id))
        if skip:
            chunk.refuse(STORE_REFUSED, len(found.ids))
        elif found.ids:
            await chunk.act(found.ids)
        reasons = added(operation.reasons, chunk.reasons)
        refused = sum(chunk.reasons.values())
        await change.bulk.note(operation, found.stopped_at, chunk.changed, refused, reasons)
    return found.stopped_at is not None


def added(known: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """The reasons in all: a bounded number of them."""
    total = dict(known)
    for reason, number in more.items():
        name = reason if reason in total or len(total) < MOST_REASONS else OTHER_REASONS
        total[name] = total.get(name, 0) + number
    return total


class _Chunk:
    """One action on some tasks that this transaction holds."""

    def __init__(
        self, change: PostgresBulkChange, operation: BulkOperation, tenant: AllowList
    ) -> None:
        self._change = change
        self._work = operation.work
        self._by = operation.created_by
        self._started_at = operation.started_at
        self._tenant = tenant
        self.changed = 0
        self.reasons: Counter[str] = Counter()

    def refuse(self, reason: str, number: int = 1) -> None:
        if number:
            self.reasons[reason] += number

    async def act(self, ids: Sequence[UUID]) -> None:
        held = await self._change.hold(ids)
        if self._work.action is BulkAction.DELETE:
            await self._delete(ids, held)
            return
        self.refuse(CHANGED_MEANWHILE, len(ids) - len(held))
        rows = [row for row in held.values() if self._may(row) and self._applies(row)]
        match self._work.action:
            case BulkAction.RETRY:
                await self._retry(rows)
            case BulkAction.CANCEL:
                await self._cancel(rows)
            case BulkAction.RESCHEDULE:
                assert self._work.execute_at is not None, "it was checked"
                await self._change.reschedule(rows, self._work.execute_at)
                self.changed += len(rows)
            case BulkAction.ARCHIVE | BulkAction.DISCARD as resolving:
                chosen = [row["id"] for row in rows]
                resolution, note = _RESOLUTIONS[resolving], self._work.note
                await self._change.resolve(chosen, resolution, self._by, note)
                self.changed += len(rows)

    async def _retry(self, rows: Sequence[asyncpg.Record]) -> None:
        if self._work.scope is BulkScope.DEAD:
            gone = await self._change.rolled_back(rows)
            self.refuse(ROLLED_BACK, len(gone))
            rows = [row for row in rows if row["id"] not in gone]
            retried, quota = await self._change.redrive(rows)
            self.changed += retried
            self.refuse(f"the quota {quota} is used up", len(rows) - retried)
        else:
            await self._change.hasten(rows)
            self.changed += len(rows)

    async def _cancel(self, rows: Sequence[asyncpg.Record]) -> None:
        running = [row["id"] for row in rows if row["state"] == State.RUNNING]
        waiting = [row["id"] for row in rows if row["state"] != State.RUNNING]
        await self._change.interrupt(running)
        await self._change.cancel(waiting)
        self.changed += len(rows)

    async def _delete(self, ids: Sequence[UUID], held: Mapping[UUID, asyncpg.Record]) -> None:
        over = await self._change.finished([each for each in ids if each not in held])
        chosen = [
            row["id"]
            for row in (*held.values(), *over.values())
            if self._may(row) and self._deletable(row)
        ]
        gone = await self._change.delete(chosen)
        self.changed += gone
        missing = len(ids) - len(held) - len(over) + len(chosen) - gone
        self.refuse(CHANGED_MEANWHILE, missing)

    def _deletable(self, row: asyncpg.Record) -> bool:
        if row["state"] == State.RUNNING:
            self.refuse("it is RUNNING")
            return False
        return True

    def _applies(self, row: asyncpg.Record) -> bool:
        """Whether the state of a live task allows it; it may have changed since it was found."""
        work, state = self._work, State(row["state"])
        if work.action is BulkAction.CANCEL and state is State.RUNNING and work.interrupt:
            return True
        if state is State.DEAD and row["due_at"] > self._started_at:
            self.refuse(CHANGED_MEANWHILE)  # it has died since
            return False
        hastened = work.action is BulkAction.RETRY and work.scope is BulkScope.LIVE
        if hastened:
            possible = state is State.WAITING and row["attempt"] > 0
        else:
            possible = after(state, _EVENTS[work.action]) is not None
        if not possible:
            status = status_of(state, row["due_at"], row["attempt"], row["now"])
            self.refuse(f"it is {status}")
            return False
        expires_at = row["expires_at"]
        if work.execute_at is None or expires_at is None:
            return True
        if expires_at <= max(work.execute_at, row["now"]):
            self.refuse(WOULD_EXPIRE)
            return False
        return True

    def _may(self, row: asyncpg.Record) -> bool:
        """Whether the requester could do this to the task alone, and the tenant as well."""
        work = self._work
        if work.task_types is not None and row["task_type"] not in work.task_types:
            self.refuse(OUTSIDE_OF_LIMITS)
            return False
        starts = work.action is BulkAction.RETRY and self._tenant.limits
        if not work.allow.limits and not starts:
            return True
        try:
            target = _target.decode(row["target"])
        except (msgspec.DecodeError, msgspec.ValidationError):
            self.refuse(UNREADABLE)
            return False
        if not work.allow.allows(target):
            self.refuse(OUTSIDE_OF_LIMITS)
            return False
        if starts and not self._tenant.allows(target):
            self.refuse(NOT_ALLOWED)
            return False
        return True
