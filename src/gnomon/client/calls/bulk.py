"""Bulk operations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.bulk import BegunBulkOperation, BulkOperationInfo

ChangedOperation: TypeAlias = BulkOperationInfo | BegunBulkOperation
ActionName: TypeAlias = Literal["retry", "cancel", "reschedule", "delete", "archive", "discard"]

_BULK = "/bulk-operations"


def create_bulk_operation(
    action: ActionName,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in the API
    interrupt: bool = False,
    execute_at: datetime | str | None = None,
    delay_seconds: float | None = None,
    note: str | None = None,
    expect: int | None = None,
    dry_run: bool = False,
    idempotency_key: str | None = None,
) -> Call[ChangedOperation]:
    """Does one action to all tasks that match the filter: see `list_tasks` for its members, also
    `error` and `fingerprint`. With `dry_run` they are only counted. With `expect` it is refused
    where another number of tasks matches."""
    given = {
        "filter": filter,
        "interrupt": interrupt or None,
        "execute_at": execute_at,
        "delay_seconds": delay_seconds,
        "note": note,
        "expect": expect,
        "dry_run": dry_run or None,
    }
    body = {"action": action} | {name: v for name, v in given.items() if v is not None}
    return _changing(_BULK, body, idempotency_key)


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


def _changing(path: str, body: Mapping[str, Any], key: str | None) -> Call[ChangedOperation]:
    return Call(
        method="POST",
        path=path,
        body=body,
        answer=BulkOperationInfo,
        receipt=BegunBulkOperation,
        keyed=True,
        key=key,
    )
