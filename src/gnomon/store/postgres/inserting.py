"""New tasks into their table, many in one statement."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from gnomon.model.task import Submission, TaskKey
from gnomon.store.port import Entry, NewTask, Receipt
from gnomon.store.postgres import keys
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import (
    DELIVERY_CODES,
    size_apart,
    stored_payload,
    stored_policy,
    stored_tags,
    stored_target,
)

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


async def insert(connection: "Connection", submissions: Sequence[Submission]) -> list[Entry]:
    """Store tasks; gives the hints to be sent once that is committed."""
    if not submissions:
        return []
    rows = await connection.fetch(query("insert_tasks"), *_columns(submissions))
    flows = dict[UUID, int](rows)  # type: ignore[arg-type]
    return [
        Entry(
            TaskKey(s.tenant_id, s.id),
            s.due_at,
            s.lane,
            recurring=s.cron_job_id is not None,
            flow=flows[s.id],
        )
        for s in submissions
    ]


async def insert_once(
    connection: "Connection", batch: Sequence[NewTask], keep_seconds: float
) -> tuple[list[Receipt], list[Entry]]:
    """Store those whose key is new. Needs a transaction around it."""
    used = iter(await _claim(connection, batch, keep_seconds))
    receipts = [_receipt(new, None if new.once is None else next(used)) for new in batch]
    fresh = [
        new.submission
        for new, receipt in zip(batch, receipts, strict=True)
        if receipt.replay is None and not receipt.conflict
    ]
    return receipts, await insert(connection, fresh)


async def _claim(
    connection: "Connection", batch: Sequence[NewTask], keep_seconds: float
) -> list[keys.Used | None]:
    wanted = [
        keys.Wanted(new.submission.tenant_id, new.once, new.submission.id, new.answer)
        for new in batch
        if new.once is not None
    ]
    return await keys.claim(connection, wanted, keep_seconds) if wanted else []


def _receipt(new: NewTask, used: keys.Used | None) -> Receipt:
    if used is None or new.once is None:
        return Receipt(new.submission.id)
    if used.fingerprint != new.once.fingerprint:
        return Receipt(new.submission.id, conflict=True)
    return Receipt(used.task_id or new.submission.id, replay=used.answer)


def _columns(batch: Sequence[Submission]) -> list[list[object]]:
    """The parameters of insert_tasks.sql, in its order."""
    return [
        [s.tenant_id for s in batch],
        [s.id for s in batch],
        [int(s.lane) for s in batch],
        [DELIVERY_CODES[s.delivery] for s in batch],
        [s.execute_at for s in batch],
        [s.due_at for s in batch],
        [s.expires_at for s in batch],
        [s.retry_policy.max_retries for s in batch],
        [s.timeout_seconds for s in batch],
        [size_apart(s.payload) for s in batch],
        [s.task_type for s in batch],
        [s.name for s in batch],
        [stored_target(s.target) for s in batch],
        [stored_payload(s.payload) for s in batch],
        [stored_policy(s.retry_policy) for s in batch],
        [stored_tags(s.tags) for s in batch],
        [s.idempotency_key for s in batch],
        [s.created_by for s in batch],
        [s.retry_of for s in batch],
        *_recurrence(batch),
        [s.preemptible for s in batch] if any(s.preemptible for s in batch) else [],
        _column_or_nothing([s.queue for s in batch]),
        _column_or_nothing([s.limit_keys for s in batch]),
    ]


def _column_or_nothing(values: list[str | None]) -> list[object]:
    return [] if all(value is None for value in values) else [*values]


def _recurrence(batch: Sequence[Submission]) -> list[list[object]]:
    """What only runs of cron jobs have."""
    if all(s.cron_job_id is None for s in batch):
        return [[], [], []]
    return [
        [s.cron_job_id for s in batch],
        [s.fire_at for s in batch],
        [s.gated for s in batch],
    ]
