"""Usage of tenants by days.

The statements that use something write it down, and it is read as it stands: nothing is estimated,
and nothing counted later. Days are those of UTC, by the store's clock.
"""

from datetime import date

import msgspec

KEPT_DAYS = 400


class DayUsage(msgspec.Struct, frozen=True):
    """The usage of a tenant on one day."""

    day: date
    submissions: int  # tasks that were stored, by submission or by a cron job
    executions: int  # that have ended, however they ended
    compute_seconds: float  # from the start to the end of these
    stored_bytes: int  # payloads, results and responses that were written


class TenantDay(DayUsage, frozen=True, kw_only=True):
    """The usage of one tenant on a day."""

    tenant_id: str


class TenantDayPage(msgspec.Struct, frozen=True):
    """By tenant and day."""

    days: list[TenantDay]
    more: bool
