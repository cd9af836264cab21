"""Values of the event stores.

An event is entered once, whoever notices what it tells and however often. Some grow: a count of
dead letters does, until its time is over. It is removed when it is past retention.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from gnomon.model.insight import event_kinds
from gnomon.model.insight.severity import Severity
from gnomon.observe.events import SlaMissed


class EventRecord(msgspec.Struct, frozen=True):
    """An event as it is stored."""

    tenant_id: str  # INSTALLATION: it concerns all
    id: UUID
    kind: str
    at: datetime
    cron_job_id: UUID | None
    task_id: UUID | None
    detail: bytes  # JSON
    number: int | None = None  # its place in the order; None: it has none yet
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None

    @property
    def severity(self) -> Severity:
        return event_kinds.severity_of(self.kind)

    @property
    def is_end(self) -> bool:
        """Whether it tells that the condition of the same fingerprint is over."""
        return event_kinds.kind_of(self.kind).is_end

    @property
    def has_end(self) -> bool:
        """Whether another event will tell that what it tells of is over."""
        return event_kinds.kind_of(self.kind).has_end

    @property
    def fields(self) -> Mapping[str, Any]:
        """The members of its detail."""
        found = msgspec.json.decode(self.detail)
        return found if isinstance(found, dict) else {}

    @property
    def task_type(self) -> str | None:
        found = self.fields.get("task_type")
        return found if isinstance(found, str) else None

    @property
    def fingerprint(self) -> str:
        """The same for events that tell of the same thing."""
        return event_kinds.fingerprint(self.kind, self.tenant_id, self.fields)


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be entered."""

    tenant_id: str
    id: UUID
    kind: str
    detail: str  # JSON, bounded by whoever makes it
    at: datetime | None = None  # None: now
    cron_job_id: UUID | None = None
    task_id: UUID | None = None


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Something that holds for a while, and is told when it begins and when it is over."""

    kind: str  # of its beginning
    key: str  # what it is about, among those of its kind and tenant
    tenant_id: str = event_kinds.INSTALLATION
    detail: Mapping[str, Any] = {}
    cron_job_id: UUID | None = None
    task_id: UUID | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        return self.kind, self.tenant_id, self.key


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list. None means all."""

    kind: str | None = None
    severities: frozenset[Severity] | None = None
    task_type: str | None = None
    cron_job_id: UUID | None = None
    acknowledged: bool | None = None

    def matches(self, event: EventRecord) -> bool:
        """As list_events.sql has it."""
        noted = event.acknowledged_at is not None
        return (
            (self.kind is None or event.kind == self.kind)
            and (self.severities is None or event.severity in self.severities)
            and (self.task_type is None or event.task_type == self.task_type)
            and (self.cron_job_id is None or event.cron_job_id == self.cron_job_id)
            and (self.acknowledged is None or noted == self.acknowledged)
        )


class EventRecordPage(msgspec.Struct, frozen=True):
    """A page of events, newest first. It does bounded work, so it may be short without being the
    last."""

    events: list[EventRecord]
    next_cursor: UUID | None


class LogSpan(msgspec.Struct, frozen=True):
    """The numbers of the events that are kept: above `forgotten`, up to `last`."""

    forgotten: int
    last: int


class LogPage(msgspec.Struct, frozen=True):
    """Events in their order. The next page begins after the number `reached`."""

    events: Sequence[EventRecord]
    reached: int


class Judged(msgspec.Struct, frozen=True):
    """Fires whose window has closed: how many were judged, and those that missed it."""

    count: int
    missed: list[SlaMissed]


class DeadLetterCount(msgspec.Struct, frozen=True):
    """Tasks of a type that failed for good within a time."""

    tenant_id: str
    task_type: str  # ALL_TYPES: of all together
    dead: int
