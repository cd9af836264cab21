"""Feeds of outcomes: where the ends of a tenant's tasks are published, and as which events."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.tasks.lifecycle import State

MOST_FEEDS = 20  # of a tenant
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
GAP = 0  # in place of a state: outcomes are missing


class FeedOutcome(StrEnum):
    """Ends of a task that a feed tells."""

    COMPLETED = "completed"
    DEAD_LETTERED = "dead_lettered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


STATES = {
    FeedOutcome.COMPLETED: State.COMPLETED,
    FeedOutcome.DEAD_LETTERED: State.DEAD,
    FeedOutcome.CANCELLED: State.CANCELLED,
    FeedOutcome.EXPIRED: State.EXPIRED,
}
OUTCOMES = {state: outcome for outcome, state in STATES.items()}


class OutcomeFeed(msgspec.Struct, frozen=True, kw_only=True):
    """Which outcomes of a tenant go where."""

    tenant_id: str
    name: str
    url: str  # queue://connection/topic
    task_types: Sequence[str] | None  # None: all
    outcomes: Sequence[FeedOutcome]


class FeedState(msgspec.Struct, frozen=True, kw_only=True):
    """A feed, and how it gets on."""

    feed: OutcomeFeed
    id: UUID
    created_at: datetime
    updated_at: datetime
    gap_since: datetime | None  # so much waits that nothing more is noted
    failing_since: datetime | None
    last_error: str | None
    published: int
    published_at: datetime | None
    backlog: int = 0
    backlog_capped: bool = False
    waiting_since: datetime | None = None  # the first outcome that is not published


class NotedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome that a feed has not published, with what is known of its task by now."""

    tenant_id: str
    place: int
    task_id: UUID | None  # None: of a gap
    task_type: str | None
    state: int
    attempt: int
    fence: int
    at: datetime
    until: datetime | None
    error: str | None
    name: str | None = None
    tags: str | None = None  # JSON, as the next
    result: str | None = None
    response_status: int | None = None
    shortened: bool = False


def shortened(noted: NotedOutcome) -> NotedOutcome:
    """Without what may be large: the task still has it."""
    return msgspec.structs.replace(noted, tags=None, error=None, result=None, shortened=True)


def event_id(noted: NotedOutcome) -> str:
    """The same for the same outcome, however often it is published and by which feed."""
    if noted.state == GAP:
        return f"gap.{noted.place}"
    return f"{noted.task_id}.{noted.fence}.{OUTCOMES[State(noted.state)]}"


def event_of(noted: NotedOutcome, feed: str) -> bytes:
    """The CloudEvent, in the JSON format."""
    gap = noted.state == GAP
    word = "feed.gap" if gap else f"task.{OUTCOMES[State(noted.state)]}"
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": event_id(noted),
        "type": f"gnomon.{word}",
        "source": f"/tenants/{noted.tenant_id}",
        "subject": feed if gap else str(noted.task_id),
        "time": noted.at,
        "datacontenttype": "application/json",
    }
    if gap:
        event["data"] = {"since": noted.at, "until": noted.until}
    else:
        event |= {"partitionkey": str(noted.task_id), "data": _data(noted)}
    return msgspec.json.encode(event)


def _data(noted: NotedOutcome) -> dict[str, object]:
    return {
        "task_id": noted.task_id,
        "task_type": noted.task_type,
        "name": noted.name,
        "tags": _json(noted.tags),
        "status": OUTCOMES[State(noted.state)].upper(),
        "attempt": noted.attempt,
        "fence": noted.fence,
        "finished_at": noted.at,
        "error": noted.error,
        "response_status": noted.response_status,
        "result": _json(noted.result),
        "shortened": noted.shortened,
    }


def _json(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
