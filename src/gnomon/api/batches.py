"""`/tasks/batch`: many tasks, one commit, all or none."""

import asyncio
from collections.abc import Sequence

import msgspec
from litestar import post
from litestar.response.base import ASGIResponse

from gnomon.api.context import Context, Request, context_of, principal_of
from gnomon.api.guarding import check_target
from gnomon.api.idempotency import Answer, answer, changed, kept, key_of, once_of, replayed, respond
from gnomon.api.incoming import decoded, read_body
from gnomon.api.openapi import Operation, described
from gnomon.api.payloads import MOST_BATCH_WORK, check_schema_in_thread
from gnomon.api.quotas import check_payload, pace_headers
from gnomon.api.schemas import BatchItem, BatchView, SubmitBatch
from gnomon.api.submissions import submission_of, task_of
from gnomon.api.tasks import PATH
from gnomon.api.views import task_view
from gnomon.model.errors import InvalidTask
from gnomon.model.principal import Principal, Role
from gnomon.model.task import Task
from gnomon.store.port import Change, NewTask, Receipt


class _RawBatch(msgspec.Struct):
    tasks: list[msgspec.Raw]


class _Prepared(msgspec.Struct, frozen=True):
    new: NewTask
    task: Task


@post(
    f"{PATH}/batch",
    status_code=202,
    opt=described(
        Operation(
            name="submit_batch",
            role=Role.SUBMIT,
            summary="Submit many tasks: all or none",
            body=SubmitBatch,
            body_required=True,
            answers={202: BatchView},
            errors=(429, 503),
            keyed=True,
            paced=True,
        )
    ),
)
async def submit_batch(request: Request) -> ASGIResponse:
    context = context_of(request)
    body = await read_body(request, context.settings.max_batch_bytes)
    # Thousands of tasks take a while; in a thread of their own they hold nobody else up.
    by = principal_of(request)
    prepared = await asyncio.to_thread(_prepare, body, by, context)
    headers: dict[str, str] = {}

    async def store(change: Change) -> list[Receipt]:
        receipts = await change.insert([each.new for each in prepared])
        _check_keys(receipts)
        paces = (receipt.pace for receipt in reversed(receipts) if receipt.pace is not None)
        headers.update(pace_headers(next(paces, None)))
        return receipts

    if key_of(request) is None:
        # Others of the tenant may wait for this transaction: the answer is made afterwards.
        async with context.store.change(by.tenant_id) as change:
            receipts = await store(change)
        return respond(_answer(prepared, receipts), headers=headers)

    async def act(change: Change) -> Answer:
        return _answer(prepared, await store(change))

    return await changed(request, body, act, headers)


def _prepare(body: bytes, by: Principal, context: Context) -> list[_Prepared]:
    settings, quotas = context.settings, context.directory.quotas(by.tenant_id)
    asked = decoded(body, SubmitBatch)
    raw = _raw_items(body, keyed=any(each.idempotency_key for each in asked.tasks))
    prepared, work = [], 0
    for index, each in enumerate(asked.tasks):
        now = context.clock.now()
        key = each.idempotency_key
        try:
            check_target(settings, each)
            submission = submission_of(each, by, now, key, settings.max_payload_bytes)
            check_payload(submission.payload, quotas)
            work += check_schema_in_thread(
                context.directory, by.tenant_id, each.task_type, submission.payload
            )
        except InvalidTask as error:
            raise error.within(f"/tasks/{index}") from error
        if work > MOST_BATCH_WORK:
            detail = "takes too long to check with those before it; send fewer at once"
            raise InvalidTask(detail, f"/tasks/{index}/payload")
        task = task_of(submission, now)
        new = NewTask(submission)
        if key is not None:
            # The same key and body as a single submission are the same submission.
            bare = answer(202, task_view(msgspec.structs.replace(task, payload=None)))
            new = NewTask(submission, once_of(key, "POST", PATH, bytes(raw[index])), kept(bare))
        prepared.append(_Prepared(new, task))
    return prepared


def _raw_items(body: bytes, *, keyed: bool) -> list[msgspec.Raw]:
    return msgspec.json.decode(body, type=_RawBatch).tasks if keyed else []


def _check_keys(receipts: Sequence[Receipt]) -> None:
    for index, receipt in enumerate(receipts):
        if receipt.conflict:
            raise InvalidTask(
                "this key was used before with a different task; nothing of the batch was stored",
                f"/tasks/{index}/idempotency_key",
            )


def _answer(prepared: Sequence[_Prepared], receipts: Sequence[Receipt]) -> Answer:
    pairs = zip(prepared, receipts, strict=True)
    return answer(202, BatchView([_item(each, receipt) for each, receipt in pairs]))


def _item(prepared: _Prepared, receipt: Receipt) -> BatchItem:
    if receipt.replay is not None:
        return msgspec.json.decode(replayed(receipt.replay).body, type=BatchItem)
    return BatchItem(receipt.task_id, prepared.task.status)
