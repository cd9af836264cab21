"""Events as CloudEvents 1.0, in the JSON format."""

from typing import Literal

import msgspec

from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.model.insight.severity import Severity
from gnomon.store.ports.insight.events import EventRecord
from gnomon.usecases.checks.request_fields import Json, Moment


class CloudEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An event. `number`, `severity` and `fingerprint` are extension attributes."""

    specversion: Literal["1.0"] = "1.0"
    id: str  # the event's id and number: one that has grown is told again
    type: str  # `gnomon.` and its kind
    source: str  # `/tenants/<id>`, or `/installation`
    time: Moment
    subject: str | None = None
    datacontenttype: str = "application/json"
    eventid: str
    number: str
    severity: Severity
    fingerprint: str
    data: Json  # depends on the kind


def cloud_event(event: EventRecord) -> bytes:
    """The document of an event that has its number."""
    subject = event.task_id or event.cron_job_id
    text = event.task_type if subject is None else str(subject)
    members = {
        "specversion": "1.0",
        "id": f"{event.id}.{event.number}",
        "type": f"gnomon.{event.kind}",
        "source": source_of(event.tenant_id),
        "time": event.at,
        **({} if text is None else {"subject": text}),
        "datacontenttype": "application/json",
        "eventid": event.id,
        "number": str(event.number),
        "severity": event.severity,
        "fingerprint": event.fingerprint,
        "data": msgspec.Raw(event.detail),
    }
    return msgspec.json.encode(members)


def source_of(tenant_id: str) -> str:
    return "/installation" if tenant_id == INSTALLATION else f"/tenants/{tenant_id}"
