"""Inserts new tasks, many in one statement."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import asyncpg

from gnomon.model.errors import TenantBusy
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission, TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.tasks import NewTask, Receipt
from gnomon.store.postgres.batches import members
from gnomon.store.postgres.columns import same_or_all
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import (
    DELIVERY_CODES,
    KEEP_CODES,
    size_apart,
    stored_origin,
    stored_payload,
    stored_policy,
    stored_tags,
    stored_target,
)
from gnomon.store.postgres.tasks import idempotency
from gnomon.store.postgres.tasks.admitting import NOTHING, Asked, Stored
from gnomon.store.postgres.usage import sizes

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_T = TypeVar("_T")
Ask = Callable[[Sequence[Submission]], Asked]
NOTHING_BESIDE: Mapping[UUID, int] = {}
# Among the columns: those of what is called, and those that are empty in most batches.
_TARGETS, _NAMES, _TAGS, _KEYS, _JOBS, _ORIGINS, _LOGGED = 11, 10, 14, 15, 18, 27, 28


async def insert(connection: "Connection", submissions: Sequence[Submission]) -> list[Entry]:
    """Store tasks that no quota is about; gives the hints to be sent once that is committed."""
    return _entries(submissions, (await _inserted(connection, submissions, NOTHING)).flows)


async def insert_within(
    connection: "Connection",
    submissions: Sequence[Submission],
    question: Asked,
    beside: Mapping[UUID, int] = NOTHING_BESIDE,
) -> tuple[list[Receipt], list[Entry]]:
    """Store those that the quotas of their tenants leave room for. `beside`: bytes that are stored
    with a task, but not in its row. Raises QuotaExceeded where the question is about all or none,
    and it is none."""
    stored = await _inserted(connection, submissions, question, beside)
    if not question.quotas:
        receipts = [Receipt(s.id) for s in submissions]
    elif question.whole:
        receipts = _receipts_of_all(submissions, stored)
    else:
        receipts = _receipts_of_each(submissions, stored)
    await members.note(connection, submissions, stored.flows)
    return receipts, _entries(submissions, stored.flows)


async def _insert_members(
    connection: "Connection",
    submissions: Sequence[Submission],
    ask: Ask,
    beside: Mapping[UUID, int],
) -> tuple[list[Receipt], list[Entry]]:
    """Store those whose batches are open and whose quotas leave room."""
    refused = await members.refusals(connection, submissions)
    if not refused:
        return await insert_within(connection, submissions, ask(submissions), beside)
    rest = [s for s in submissions if s.id not in refused]
    stored, entries = await insert_within(connection, rest, ask(rest), beside)
    by_id = {receipt.task_id: receipt for receipt in stored}
    by_id |= {task_id: Receipt(task_id, refused=why) for task_id, why in refused.items()}
    return [by_id[s.id] for s in submissions], entries


async def _inserted(
    connection: "Connection",
    submissions: Sequence[Submission],
    question: Asked,
    beside: Mapping[UUID, int] = NOTHING_BESIDE,
) -> Stored:
    stored = await _insert(connection, submissions, question, beside)
    copies = [s for s in submissions if s.retry_of is not None and s.id in stored.flows]
    if copies:  # of hardly any batch
        await connection.execute(
            query("insert_copies"),
            [s.tenant_id for s in copies],
            [s.retry_of for s in copies],
            [s.id for s in copies],
        )
    return stored


async def _insert(
    connection: "Connection",
    submissions: Sequence[Submission],
    question: Asked,
    beside: Mapping[UUID, int] = NOTHING_BESIDE,
) -> Stored:
    if not submissions:
        return Stored({})
    apart = [size_apart(s.payload) for s in submissions]
    columns = _columns(submissions)
    plain = not any(columns[place] for place in (_NAMES, _TAGS, _KEYS, _JOBS, _ORIGINS, _LOGGED))
    held = sizes.of_tasks(submissions, columns[_TARGETS], beside, plain=plain)
    if not question.quotas and apart.count(None) == len(apart):
        rows = await connection.fetch(
            query("insert_plain_tasks"), *columns, *_metered(submissions, held)
        )
        return Stored.plain(submissions, rows)
    try:
        rows = await connection.fetch(
            query("insert_tasks"),
            *columns,
            apart,
            *question.columns(submissions, held),
            held,
        )
    except asyncpg.LockNotAvailableError as error:
        if question.quotas:
            raise TenantBusy("others store tasks of the same tenant for too long") from error
        raise
    return Stored.of(question, rows)


def _entries(submissions: Sequence[Submission], flows: Mapping[UUID, int]) -> list[Entry]:
    return [
        Entry(
            TaskKey(s.tenant_id, s.id),
            s.due_at,
            s.priority,
            recurring=s.cron_job_id is not None,
            flow=flow,
            by_handler=s.target.by_handler,
        )
        for s in submissions
        if (flow := flows.get(s.id)) is not None
    ]


def _receipts_of_all(submissions: Sequence[Submission], stored: Stored) -> list[Receipt]:
    (admitted,) = stored.admitted.values()  # all or none is asked by one tenant
    if admitted.passed < admitted.wanted:
        raise admitted.refusal(whole=True)
    pace = admitted.pace_after(admitted.wanted)
    return [Receipt(s.id, pace=pace) for s in submissions]


def _receipts_of_each(submissions: Sequence[Submission], stored: Stored) -> list[Receipt]:
    refusals = {
        tenant: each.refusal(whole=False)
        for tenant, each in stored.admitted.items()
        if each.passed < each.wanted
    }
    receipts, places = [], Counter[str]()
    for s in submissions:
        places[s.tenant_id] += 1
        admitted = stored.admitted.get(s.tenant_id)
        pace = None if admitted is None else admitted.pace_after(places[s.tenant_id])
        refused = None if s.id in stored.flows else refusals[s.tenant_id]
        receipts.append(Receipt(s.id, refused=refused, pace=pace))
    return receipts


async def insert_once(
    connection: "Connection", batch: Sequence[NewTask], keep_seconds: float, ask: Ask
) -> tuple[list[Receipt], list[Entry]]:
    """Store those whose key is new. Needs a transaction around it."""
    if all(new.once is None for new in batch):
        submissions = [new.submission for new in batch]
        return await _insert_members(connection, submissions, ask, NOTHING_BESIDE)
    used = iter(await _claim(connection, batch, keep_seconds))
    receipts = [_receipt(new, None if new.once is None else next(used)) for new in batch]
    fresh = [
        new.submission
        for new, receipt in zip(batch, receipts, strict=True)
        if receipt.replay is None and not receipt.conflict
    ]
    kept = {
        new.submission.id: sizes.KEY_BYTES + len(new.answer)
        for new in batch
        if new.once is not None
    }
    outcomes, entries = await _insert_members(connection, fresh, ask, kept)
    by_id = {outcome.task_id: outcome for outcome in outcomes}
    if any(outcome.refused for outcome in outcomes):
        await _free_keys(connection, batch, by_id)
    return [_final(receipt, by_id) for receipt in receipts], entries


def fresh(batch: Sequence[NewTask], receipts: Sequence[Receipt]) -> list[Submission]:
    """Those of the batch that were stored: not before, and not refused."""
    return [
        new.submission
        for new, receipt in zip(batch, receipts, strict=True)
        if receipt.replay is None and receipt.refused is None and not receipt.conflict
    ]


def _final(receipt: Receipt, outcomes: Mapping[UUID, Receipt]) -> Receipt:
    """The receipt of what was new. What repeats a task of the same batch is refused with it."""
    outcome = outcomes.get(receipt.task_id)
    if receipt.conflict or outcome is None:
        return receipt
    return outcome if receipt.replay is None or outcome.refused is not None else receipt


async def _free_keys(
    connection: "Connection", batch: Sequence[NewTask], outcomes: Mapping[UUID, Receipt]
) -> None:
    """A refusal is no answer to be given again."""
    refused = [
        new
        for new in batch
        if new.once is not None
        and (outcome := outcomes.get(new.submission.id)) is not None
        and outcome.refused is not None
    ]
    taken = [(new.submission.tenant_id, new.once.key) for new in refused if new.once is not None]
    await idempotency.free(connection, taken)


async def _claim(
    connection: "Connection", batch: Sequence[NewTask], keep_seconds: float
) -> list[idempotency.Used | None]:
    wanted = [
        idempotency.Wanted(new.submission.tenant_id, new.once, new.submission.id, new.answer)
        for new in batch
        if new.once is not None
    ]
    return await idempotency.claim(connection, wanted, keep_seconds) if wanted else []


def _receipt(new: NewTask, used: idempotency.Used | None) -> Receipt:
    if used is None or new.once is None:
        return Receipt(new.submission.id)
    if used.fingerprint != new.once.fingerprint:
        return Receipt(new.submission.id, conflict=True)
    return Receipt(used.task_id or new.submission.id, replay=used.answer)


def _columns(batch: Sequence[Submission]) -> list[Sequence[object]]:
    """The first parameters of insert_tasks.sql and insert_plain_tasks.sql, in the order of
    `new_task_arrays` in task_columns.sql."""
    targets = same_or_all([s.target for s in batch])  # at the place _TARGETS
    asked_for, due = [s.execute_at for s in batch], [s.due_at for s in batch]
    return [
        same_or_all([s.tenant_id for s in batch]),
        [s.id for s in batch],
        same_or_all([s.priority for s in batch]),
        same_or_all([DELIVERY_CODES[s.delivery] for s in batch]),
        same_or_all(asked_for),
        [] if due == asked_for else same_or_all(due),
        _any_or_none([s.expires_at for s in batch]),
        same_or_all([s.retry_policy.max_retries for s in batch]),
        same_or_all([s.timeout_seconds for s in batch]),
        same_or_all([s.task_type for s in batch]),
        _any_or_none([s.name for s in batch]),
        [stored_target(target) for target in targets],
        [stored_payload(s.payload) for s in batch],
        _any_or_none([stored_policy(s.retry_policy) for s in batch]),
        _any_or_none([stored_tags(s.tags) for s in batch]),
        _any_or_none([s.idempotency_key for s in batch]),
        _any_or_none([s.created_by for s in batch]),
        _any_or_none([s.retry_of for s in batch]),
        *_recurrence(batch),
        [s.preemptible for s in batch] if any(s.preemptible for s in batch) else [],
        _any_or_none([s.queue for s in batch]),
        _any_or_none([s.limit_keys for s in batch]),
        _any_or_none([KEEP_CODES[s.keep_payload] or None for s in batch]),
        _any_or_none([s.sla_seconds for s in batch]),
        _any_or_none([s.warn_after_seconds for s in batch]),
        _origins([s.origin for s in batch]),
        _logged([s.log_transitions for s in batch]),
        _any_or_none([s.batch_id for s in batch]),
    ]


def _any_or_none(values: list[_T | None]) -> list[_T | None]:
    """The column, or nothing where no task has a value in it."""
    return [] if values.count(None) == len(values) else values


def _origins(values: list[Origin | None]) -> list[str | None]:
    if values.count(None) == len(values):
        return []
    return [None if each is None else stored_origin(each) for each in values]


def _logged(values: list[bool]) -> Sequence[bool]:
    return same_or_all(values) if any(values) else []


def _recurrence(batch: Sequence[Submission]) -> list[Sequence[object]]:
    """The columns that only runs of cron jobs have."""
    jobs = [s.cron_job_id for s in batch]
    if jobs.count(None) == len(jobs):
        return [[], [], []]
    return [jobs, [s.fire_at for s in batch], [s.gated for s in batch]]


def _metered(batch: Sequence[Submission], held: Sequence[int]) -> list[Sequence[object]]:
    """The usage and the bytes that each tenant adds, where all of the batch is stored."""
    tenants = [s.tenant_id for s in batch]
    payloads = [0 if s.payload is None else len(s.payload) for s in batch]
    if tenants.count(tenants[0]) == len(tenants):
        return [[tenants[0]], [len(tenants)], [sum(payloads)], [sum(held)]]
    submissions = Counter(tenants)
    stored_bytes, held_bytes = dict.fromkeys(submissions, 0), dict.fromkeys(submissions, 0)
    for tenant, payload, size in zip(tenants, payloads, held, strict=True):
        stored_bytes[tenant] += payload
        held_bytes[tenant] += size
    sums = (submissions, stored_bytes, held_bytes)
    return [[*submissions], *([*each.values()] for each in sums)]
