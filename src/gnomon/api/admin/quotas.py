"""What a tenant's quotas mean to a request: what is too large or too often for it, and the headers
that say how much of a second is left."""

from datetime import datetime

import msgspec

from gnomon.cron.job import CronJob, Definition, schedule_of, schedule_pointer
from gnomon.cron.rhythm import check_interval
from gnomon.model.errors import OverQuota, PayloadTooLarge
from gnomon.model.tenant import Pace, Quotas


def check_payload(payload: bytes | None, quotas: Quotas, pointer: str = "/payload") -> None:
    """Raises PayloadTooLarge. (What no payload may exceed has been looked at before.)"""
    most = quotas.payload_bytes
    if most is None or payload is None or len(payload) <= most:
        return
    detail = f"is {len(payload)} bytes; the quota payload_bytes is {most}. Send a reference instead"
    raise PayloadTooLarge(detail, pointer, OverQuota("payload_bytes", most, len(payload)))


def check_template(template: msgspec.Raw | None, quotas: Quotas) -> None:
    """The same for the payloads that a cron job will have."""
    check_payload(None if template is None else bytes(template), quotas, "/payload_template")


def check_rhythm(
    before: CronJob | None, definition: Definition, now: datetime, quotas: Quotas
) -> None:
    """Whether a cron job may fire so often, before it is stored. Raises InvalidSchedule."""
    seed = "" if before is None else str(before.id)
    least = quotas.cron_interval_seconds
    check_interval(schedule_of(definition, seed), now, least, schedule_pointer(definition))


def pace_headers(pace: Pace | None) -> dict[str, str]:
    """RateLimit header fields (draft-ietf-httpapi-ratelimit-headers): the quota of submissions in
    any second, and what is left of it."""
    if pace is None:
        return {}
    return {
        "RateLimit-Policy": f'"submissions";q={pace.most};w=1',
        "RateLimit": f'"submissions";r={pace.left};t=1',
    }
