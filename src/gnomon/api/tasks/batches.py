"""`/tasks/batch`: many tasks, one commit, all or none."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Principal, Role
from gnomon.api.context import Context, Request, context_of, principal_of
from gnomon.api.http.bounds.pace import pace_headers
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import (
    Answer,
    answer,
    changed,
    kept,
    key_of,
    once_of,
    repeated,
    replayed,
    respond,
)
from gnomon.api.http.requests.producing import produced
from gnomon.api.http.requests.reading import decoded, read_body
from gnomon.api.tasks.schemas import BatchView, TaskReceipt
from gnomon.api.tasks.tasks import PATH
from gnomon.api.tasks.views import new_view
from gnomon.model.errors import InvalidTask
from gnomon.model.fleet.crowding import LaneCrowded
from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.tasks import NewTask, Once, Receipt
from gnomon.store.ports.work.workflows import NewWorkflowRun
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.checks.text_check import given_origin
from gnomon.usecases.tasks.submit_batch import accept_all, check_all_own, store_all
from gnomon.usecases.tasks.task_requests import SubmitBatch, SubmitTask
from gnomon.usecases.workflows.callbacks import TASK


class _RawBatch(msgspec.Struct):
    tasks: list[msgspec.Raw]


_MOST_WARNINGS = 20
# A new task, or the receipt of one that was stored before.
_Prepared: TypeAlias = NewTask | Receipt


class _PreparedBatch(NamedTuple):
    tasks: list[_Prepared]
    runs: Mapping[UUID, NewWorkflowRun]  # of those with callbacks, by the ids of these


@Operation(
    "POST",
    f"{PATH}/batch",
    name="submit_batch",
    role=Role.SUBMIT,
    summary="Submit many tasks: all or none",
    body=SubmitBatch,
    body_required=True,
    answers={202: BatchView},
    errors=(404, 409),
    grows=True,
    keyed=True,
    paced=True,
)
async def submit_batch(request: Request) -> ASGIResponse:
    body = await read_body(request, context_of(request).settings.api.max_batch_bytes)
    origin, span = produced(request, None)
    if span is None:
        return await _submit(request, body, origin)
    with span:
        return await _submit(request, body, origin)


async def _submit(request: Request, body: bytes, origin: Origin | None) -> ASGIResponse:
    context, by, key = context_of(request), principal_of(request), key_of(request)
    # Thousands of tasks take a while: in a thread they do not hold up other requests.
    try:
        prepared = await asyncio.to_thread(_prepare, body, by, context.rules, {}, origin)
    except (InvalidTask, LaneCrowded):
        # The rules may have changed since the batch, or a task in it, was accepted, and lanes have
        # become crowded.
        path = request.scope["path"]
        whole = await asyncio.to_thread(repeated, key, "POST", path, body)
        requests = await asyncio.to_thread(_requests, body, by, whole)
        known = await context.store.answered(by.tenant_id, requests) if requests else {}
        if whole is not None and whole in known:
            return respond(replayed(known[whole]), again=True)
        if not known:
            raise
        prepared = await asyncio.to_thread(_prepare, body, by, context.rules, known, origin)
    headers: dict[str, str] = {}

    async def store(change: PostgresTaskChange) -> list[Receipt]:
        receipts = await store_all(change, prepared.tasks, prepared.runs)
        paces = (receipt.pace for receipt in reversed(receipts) if receipt.pace is not None)
        headers.update(pace_headers(next(paces, None)))
        return receipts

    if key is None:
        # Others of the tenant may wait for this transaction: the answer is made afterwards.
        async with context.store.change(by.tenant_id) as change:
            receipts = await store(change)
        return respond(_answer(prepared.tasks, receipts, context), headers=headers)

    async def act(change: PostgresTaskChange) -> Answer:
        return _answer(prepared.tasks, await store(change), context)

    return await changed(request, body, act, headers)


def _prepare(
    body: bytes,
    by: Principal,
    rules: TenantRules,
    known: Mapping[Once, bytes],
    origin: Origin | None,
) -> _PreparedBatch:
    """The tasks of a batch, but for those whose answers are known. Raises InvalidTask, and
    LaneCrowded."""
    asked = decoded(body, SubmitBatch)
    raw = _raw_items(body, asked)
    before: dict[int, Receipt] = {}
    if known:
        for index, each in enumerate(asked.tasks):
            once = _repeated(each, raw, index)
            if once is not None and once in known:
                before[index] = _receipt(known[once])
    origin = given_origin(asked.correlation_id, origin)
    prepared: list[_Prepared] = []
    runs: dict[UUID, NewWorkflowRun] = {}
    for index, accepted in enumerate(accept_all(rules, by, asked.tasks, before, origin)):
        if accepted is None:
            prepared.append(before[index])
            continue
        task, run = accepted
        if run is not None:
            runs[task.id] = run
        if task.idempotency_key is None:
            prepared.append(NewTask(task))
        else:
            once = once_of(task.idempotency_key, "POST", PATH, bytes(raw[index]))
            prepared.append(NewTask(task, once, _kept(task, run, rules.clock.now())))
    return _PreparedBatch(prepared, runs)


def _requests(body: bytes, by: Principal, whole: Once | None) -> list[Once]:
    """The batch and its tasks, as requests that may have been made before. Raises InvalidTask."""
    asked = decoded(body, SubmitBatch)
    raw = _raw_items(body, asked)
    check_all_own(by, asked.tasks)
    found = [whole, *(_repeated(each, raw, index) for index, each in enumerate(asked.tasks))]
    return [once for once in found if once is not None]


def _raw_items(body: bytes, asked: SubmitBatch) -> list[msgspec.Raw]:
    if all(each.idempotency_key is None for each in asked.tasks):
        return []
    return msgspec.json.decode(body, type=_RawBatch).tasks


def _repeated(asked: SubmitTask, raw: Sequence[msgspec.Raw], index: int) -> Once | None:
    """A task of a batch as a request of its own: the same key and body mean the same task."""
    key = asked.idempotency_key
    return None if key is None else repeated(key, "POST", PATH, bytes(raw[index]))


def _kept(submission: Submission, run: NewWorkflowRun | None, now: datetime) -> bytes:
    view = new_view(msgspec.structs.replace(submission, payload=None), now)
    if run is not None:
        view = msgspec.structs.replace(view, workflow_run_id=run.id, node=TASK)
    return kept(answer(202, view))


def _receipt(replay: bytes) -> Receipt:
    return Receipt(msgspec.json.decode(replayed(replay).body, type=TaskReceipt).task_id, replay)


def _answer(prepared: Sequence[_Prepared], receipts: Sequence[Receipt], context: Context) -> Answer:
    pairs, now = zip(prepared, receipts, strict=True), context.clock.now()
    new = [each.submission for each in prepared if isinstance(each, NewTask)]
    # One of each kind will do: a batch may have thousands of the same.
    kinds = {(s.task_type, s.target.by_handler): s for s in new}
    told = {w: None for each in kinds.values() for w in context.handlers.warnings(each)}
    tasks = [_item(each, receipt, now) for each, receipt in pairs]
    return answer(202, BatchView(tasks, list(told)[:_MOST_WARNINGS]))


def _item(prepared: _Prepared, receipt: Receipt, now: datetime) -> TaskReceipt:
    if receipt.replay is not None:
        return msgspec.json.decode(replayed(receipt.replay).body, type=TaskReceipt)
    assert isinstance(prepared, NewTask), "the answer to a known request is a replay"
    due_at = prepared.submission.due_at
    return TaskReceipt(receipt.task_id, status_of(State.WAITING, due_at, 0, now))
