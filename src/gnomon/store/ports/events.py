"""What the engine asks of its store about events: the contract that every store keeps.

An event is entered in the transaction that makes it true, once, whoever looks and however often.
It is never changed, and goes when it is past retention.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from gnomon.model.task import TaskKey
from gnomon.observe.events import SlaMissed


class EventRecord(msgspec.Struct, frozen=True):
    """An event as it is kept."""

    id: UUID
    kind: str
    at: datetime
    cron_job_id: UUID | None
    task_id: UUID | None
    detail: bytes  # JSON


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows. None means all."""

    kind: str | None = None
    cron_job_id: UUID | None = None


class EventRecordPage(msgspec.Struct, frozen=True):
    """Newest first. A page does bounded work, so it may be short and still have a successor."""

    events: list[EventRecord]
    next_cursor: UUID | None


class EventStore(Protocol):
    """What the API asks."""

    async def list(
        self, tenant_id: str, chosen: EventFilter, cursor: UUID | None, limit: int
    ) -> EventRecordPage:
        """Events older than `cursor`, newest first."""


class Judged(msgspec.Struct, frozen=True):
    """Fires whose window has closed: how many were judged, and those that missed it."""

    count: int
    missed: list[SlaMissed]


class WatchStore(Protocol):
    """What the watchdog asks."""

    async def judge(self, ids: Sequence[UUID], aside: Sequence[UUID] = ()) -> Judged:
        """Judge fires whose window has closed, earliest first, at most as many as there are
        `ids`; each is judged once. One that did not start in its window gets an event, under the
        next of the `ids`. The first try counts, and the claim of one that still runs. Fires of the
        jobs `aside` are left out."""

    async def next_job(self, aside: Sequence[UUID]) -> TaskKey | None:
        """The job whose fire is judged next."""
