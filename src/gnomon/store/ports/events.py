"""Values of the event stores.

An event is entered in the transaction that makes it true, once, whoever looks and however often.
All that changes of it is who has taken note of it. It is removed when it is past retention.
"""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.severity import Severity, severity_of
from gnomon.observe.events import SlaMissed


class EventRecord(msgspec.Struct, frozen=True):
    """An event as it is stored."""

    id: UUID
    kind: str
    at: datetime
    cron_job_id: UUID | None
    task_id: UUID | None
    detail: bytes  # JSON
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None

    @property
    def severity(self) -> Severity:
        return severity_of(self.kind)


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list. None means all."""

    kind: str | None = None
    cron_job_id: UUID | None = None
    acknowledged: bool | None = None


class EventRecordPage(msgspec.Struct, frozen=True):
    """A page of events, newest first. It does bounded work, so it may be short without being the
    last."""

    events: list[EventRecord]
    next_cursor: UUID | None


class Judged(msgspec.Struct, frozen=True):
    """Fires whose window has closed: how many were judged, and those that missed it."""

    count: int
    missed: list[SlaMissed]


class DeadLetterCount(msgspec.Struct, frozen=True):
    """Tasks of a type that failed for good within a time."""

    tenant_id: str
    task_type: str  # ALL_TYPES: of all together
    dead: int


class DeadLetterEvent(msgspec.Struct, frozen=True):
    """The event that says so."""

    tenant_id: str
    id: UUID
    detail: str  # JSON
