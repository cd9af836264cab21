"""Refuses payloads and cron schedules that a tenant's quotas do not allow."""

from datetime import datetime

import msgspec

from gnomon.cron.job import CronJob, Definition, schedule_of, schedule_pointer
from gnomon.cron.rhythm import check_interval
from gnomon.model.errors import OverQuota, PayloadTooLarge
from gnomon.model.fleet.tenant import Quotas


def check_payload(payload: bytes | None, quotas: Quotas, pointer: str = "/payload") -> None:
    """Raises PayloadTooLarge. (The limit for all tenants has been checked before.)"""
    most = quotas.payload_bytes
    if most is None or payload is None or len(payload) <= most:
        return
    detail = f"is {len(payload)} bytes; the quota payload_bytes is {most}. Send a reference instead"
    raise PayloadTooLarge(detail, pointer, OverQuota("payload_bytes", most, len(payload)))


def check_template(template: msgspec.Raw | None, quotas: Quotas) -> None:
    """Raises PayloadTooLarge for the payloads that a cron job will send."""
    check_payload(None if template is None else bytes(template), quotas, "/payload_template")


def check_rhythm(
    before: CronJob | None, definition: Definition, now: datetime, quotas: Quotas
) -> None:
    """Raises InvalidSchedule where a cron job would fire more often than the quota allows."""
    seed = "" if before is None else str(before.id)
    least = quotas.cron_interval_seconds
    check_interval(schedule_of(definition, seed), now, least, schedule_pointer(definition))
