"""Bulk operations."""

from typing import Any, TypeAlias
from uuid import UUID

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.bulk import BegunBulkOperation, BulkOperationInfo, BulkSpec

ChangedOperation: TypeAlias = BulkOperationInfo | BegunBulkOperation

_BULK = "/bulk-operations"


def create_bulk_operation(
    asked: BulkSpec, *, idempotency_key: str | None = None
) -> Call[ChangedOperation]:
    """Does one action to all tasks that match a filter, or with `dry_run` counts them."""
    return _changing(_BULK, asked, idempotency_key)


def list_bulk_operations(
    *, limit: int | None = None, cursor: str | None = None
) -> Listing[BulkOperationInfo]:
    """Lists bulk operations, newest first."""
    return Listing(
        path=_BULK, member="bulk_operations", item=BulkOperationInfo, limit=limit, cursor=cursor
    )


def get_bulk_operation(operation_id: str | UUID) -> Call[BulkOperationInfo]:
    """Reads a bulk operation: how far it is."""
    return Call(method="GET", path=f"{_BULK}/{segment(operation_id)}", answer=BulkOperationInfo)


def stop_bulk_operation(
    operation_id: str | UUID, *, idempotency_key: str | None = None
) -> Call[ChangedOperation]:
    """Stops a bulk operation; what it has changed stays changed."""
    return _changing(f"{_BULK}/{segment(operation_id)}/stop", {}, idempotency_key)


def _changing(
    path: str, body: BulkSpec | dict[str, Any], key: str | None
) -> Call[ChangedOperation]:
    return Call(
        method="POST",
        path=path,
        body=body,
        answer=BulkOperationInfo,
        receipt=BegunBulkOperation,
        keyed=True,
        key=key,
    )
