"""Usage by the day: of a tenant, or of all tenants for operators."""

from datetime import date, timedelta
from typing import NamedTuple

from gnomon.model.errors import InvalidTask
from gnomon.store.ports.tenancy.usage import KEPT_DAYS, DayUsage, TenantDay, TenantDayPage
from gnomon.store.postgres.usage.usage import PostgresUsage

DEFAULT_DAYS = 30


class Days(NamedTuple):
    """A range of days, both included."""

    first: date
    last: date


async def of_tenant(
    store: PostgresUsage, tenant_id: str, first: date | None, last: date | None
) -> tuple[Days, list[DayUsage]]:
    """The days on which the tenant used anything. Raises InvalidTask, with the place."""
    days = await _range(store, first, last)
    return days, await store.days(tenant_id, *days)


async def of_all(
    store: PostgresUsage,
    first: date | None,
    last: date | None,
    after: tuple[str, date] | None,
    limit: int,
) -> tuple[Days, TenantDayPage]:
    """A page of what each tenant used on each day. Raises InvalidTask, with the place."""
    days = await _range(store, first, last)
    return days, await store.of_all(*days, after, limit)


def after(last: TenantDay) -> str:
    """The cursor of the page that follows this line."""
    return f"{last.day}_{last.tenant_id}"


def parsed(cursor: str | None) -> tuple[str, date] | None:
    """Raises InvalidTask where it is no cursor of this list."""
    if cursor is None:
        return None
    day, _, tenant_id = cursor.partition("_")
    try:
        return tenant_id, date.fromisoformat(day)
    except ValueError:
        raise InvalidTask("must be a next_cursor of this list", "/cursor") from None


async def _range(store: PostgresUsage, first: date | None, last: date | None) -> Days:
    last = last or await store.today()
    if last < date.min + timedelta(days=KEPT_DAYS):
        raise InvalidTask("is before any day that is kept", "/to")
    first = first or last - timedelta(days=DEFAULT_DAYS - 1)
    if last < first:
        raise InvalidTask("must not be earlier than from", "/to")
    if (last - first).days >= KEPT_DAYS:
        raise InvalidTask(f"must be less than {KEPT_DAYS} days before to", "/from")
    return Days(first, last)
