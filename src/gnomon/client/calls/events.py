"""Events of a tenant, and those of the installation for its operators."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from gnomon.client.call import Call, Listing, segment
from gnomon.client.types.tasks import EventInfo, EventReceiptInfo, FollowedEvent, FollowedTransition
from gnomon.model.insight.severity import Severity

Id: TypeAlias = str | UUID
AcknowledgedEvent: TypeAlias = EventInfo | EventReceiptInfo
_OF_INSTALLATION = "/installation"


def follow_events(
    *,
    kind: str | None = None,
    severity: Severity | str | None = None,
    task_type: str | None = None,
    after: int | None = None,
    installation: bool = False,
) -> Call[FollowedEvent]:
    """Iterates over events as they happen, without end; or from the number `after` on, 0 for all
    that are kept. A stream that is cut off goes on where it stopped: no event is left out or told
    twice. With `installation` those of the installation, for operators. Raises ApiProblem with
    status 410 where events after that number are not kept any more."""
    return Call(
        method="GET",
        path=f"{_OF_INSTALLATION if installation else ''}/events/stream",
        query={"kind": kind, "severity": severity, "task_type": task_type, "after": after},
        answer=FollowedEvent,
    )


def follow_transitions(
    *,
    task_type: str | None = None,
    task_id: Id | None = None,
    after: str | None = None,
) -> Call[FollowedTransition]:
    """Iterates over transitions of tasks whose type logs them, as they happen, without end; or from
    the id `after` on, "0" for all that are kept. A stream that is cut off goes on where it stopped:
    none is left out or told twice. Raises ApiProblem with status 410 where transitions after it are
    not kept any more."""
    return Call(
        method="GET",
        path="/transitions/stream",
        query={"task_type": task_type, "task_id": task_id, "after": after},
        answer=FollowedTransition,
    )


def list_events(
    *,
    kind: str | None = None,
    severity: Severity | str | None = None,
    task_type: str | None = None,
    cron_job_id: Id | None = None,
    acknowledged: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[EventInfo]:
    """Lists events, newest first; with `acknowledged`, those that somebody has taken note of, or
    those that nobody has."""
    query = {
        "kind": kind,
        "severity": severity,
        "task_type": task_type,
        "cron_job_id": cron_job_id,
        "acknowledged": _said(acknowledged),
    }
    return Listing(
        path="/events", member="events", item=EventInfo, query=query, limit=limit, cursor=cursor
    )


def acknowledge_event(event_id: Id, *, note: str | None = None) -> Call[AcknowledgedEvent]:
    """Notes that somebody has taken note of an event. Who is first is kept."""
    return Call(
        method="POST",
        path=f"/events/{segment(event_id)}/acknowledge",
        body={} if note is None else {"note": note},
        answer=EventInfo,
        receipt=EventReceiptInfo,
    )


def acknowledge_events(event_ids: Sequence[Id], *, note: str | None = None) -> Call[list[UUID]]:
    """The same for several, at most 500. Returns those that there are."""
    body: dict[str, Any] = {"event_ids": [str(each) for each in event_ids]}
    return Call(
        method="POST",
        path="/events/acknowledge",
        body=body if note is None else body | {"note": note},
        answer=list[UUID],
        member="event_ids",
    )


def list_installation_events(
    *,
    kind: str | None = None,
    severity: Severity | str | None = None,
    acknowledged: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[EventInfo]:
    """Lists events of the installation, for its operators, newest first."""
    return Listing(
        path=f"{_OF_INSTALLATION}/events",
        member="events",
        item=EventInfo,
        query={"kind": kind, "severity": severity, "acknowledged": _said(acknowledged)},
        limit=limit,
        cursor=cursor,
    )


def acknowledge_installation_event(event_id: Id, *, note: str | None = None) -> Call[EventInfo]:
    """Notes that an operator has taken note of an event of the installation."""
    return Call(
        method="POST",
        path=f"{_OF_INSTALLATION}/events/{segment(event_id)}/acknowledge",
        body={} if note is None else {"note": note},
        answer=EventInfo,
    )


def acknowledge_installation_events(
    event_ids: Sequence[Id], *, note: str | None = None
) -> Call[list[UUID]]:
    """The same for several, at most 500. Returns those that there are."""
    call = acknowledge_events(event_ids, note=note)
    return msgspec.structs.replace(call, path=_OF_INSTALLATION + call.path)


def _said(choice: bool | None) -> str | None:
    return None if choice is None else str(choice).lower()
