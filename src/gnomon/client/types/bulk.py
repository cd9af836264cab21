"""Bulk operations: one action on all tasks that match a filter."""

from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec

from gnomon.client.types import Spec

ActionName: TypeAlias = Literal["retry", "cancel", "reschedule", "delete", "archive", "discard"]


class BulkSpec(Spec, kw_only=True):
    """One action on all tasks that match the filter: see `list_tasks` for its members, also `error`
    and `fingerprint`. With `dry_run` they are only counted. With `expect` it is refused where
    another number of tasks matches."""

    action: ActionName
    filter: dict[str, Any] = msgspec.field(default_factory=dict)
    interrupt: bool = False
    execute_at: datetime | str | None = None
    delay_seconds: float | None = None
    note: str | None = None
    expect: int | None = None
    dry_run: bool = False


class BulkRefusalInfo(msgspec.Struct, kw_only=True):
    """Why tasks were not changed, and how many."""

    reason: str
    count: int


class BulkOperationInfo(msgspec.Struct, kw_only=True):
    """A bulk operation, and how far it is. `total_capped`: at least so many matched at the start.
    A dry run has no id, and some of the tasks that match as `examples`."""

    operation_id: UUID | None
    status: str
    action: str
    filter: dict[str, Any]
    interrupt: bool
    execute_at: datetime | None
    total: int
    total_capped: bool
    done: int
    changed: int
    refused: int
    refusals: list[BulkRefusalInfo]
    created_at: datetime
    created_by: str | None
    ended_at: datetime | None
    note: str | None = None  # of a resolution
    examples: list[UUID] = []


class BegunBulkOperation(msgspec.Struct, kw_only=True):
    """What a key that may not read is told of a bulk operation."""

    operation_id: UUID | None
    status: str
    total: int
    total_capped: bool
