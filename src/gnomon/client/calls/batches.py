"""Batches."""

from typing import Any, TypeAlias
from uuid import UUID

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.batches import BatchInfo, BatchSpec, OpenedBatch

ChangedBatch: TypeAlias = BatchInfo | OpenedBatch

_BATCHES = "/batches"


def open_batch(batch: BatchSpec, *, idempotency_key: str | None = None) -> Call[ChangedBatch]:
    """Opens a batch. Tasks that name it in `batch_id` are put in until it is closed."""
    return _changed(_BATCHES, batch, idempotency_key)


def list_batches(
    *, status: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Listing[BatchInfo]:
    """Lists batches, newest first."""
    return Listing(
        path=_BATCHES,
        member="batches",
        item=BatchInfo,
        query={"status": status},
        limit=limit,
        cursor=cursor,
    )


def get_batch(batch_id: str | UUID, *, wait: float | None = None) -> Call[BatchInfo]:
    """Reads a batch with its progress; with `wait`, once all of it has ended, or after so many
    seconds."""
    return Call(method="GET", path=_batch(batch_id), query={"wait": wait}, answer=BatchInfo)


def close_batch(batch_id: str | UUID, *, idempotency_key: str | None = None) -> Call[ChangedBatch]:
    """Closes a batch: nothing more is put in, and its callbacks follow its tasks."""
    return _changed(f"{_batch(batch_id)}/close", {}, idempotency_key)


def cancel_batch(
    batch_id: str | UUID, *, interrupt: bool = False, idempotency_key: str | None = None
) -> Call[ChangedBatch]:
    """Cancels a batch: what has not started never does, and no callback runs; with `interrupt`,
    running tasks are interrupted."""
    return _changed(f"{_batch(batch_id)}/cancel", {"interrupt": interrupt}, idempotency_key)


def _batch(batch_id: str | UUID) -> str:
    return f"{_BATCHES}/{segment(str(batch_id))}"


def _changed(path: str, body: Any, key: str | None) -> Call[ChangedBatch]:
    return Call(
        method="POST",
        path=path,
        body=body,
        answer=BatchInfo,
        receipt=OpenedBatch,
        keyed=True,
        key=key,
    )
