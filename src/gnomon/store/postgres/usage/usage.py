"""Reads the usage of tenants. The statements of submissions and settlements write it."""

from datetime import date

from gnomon.store.ports.tenancy.usage import DayUsage, TenantDay, TenantDayPage
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query


class PostgresUsage:
    """Reads what tenants used, by days."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def today(self) -> date:
        """The day that usage is written to now."""
        row = await self._database.fetchrow("usage_day")
        assert row is not None, "a SELECT without FROM gives its row"
        day: date = row["day"]
        return day

    async def days(self, tenant_id: str, first: date, last: date) -> list[DayUsage]:
        """The days on which a tenant used anything, from `first` to `last`, in order."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("usage"), tenant_id, first, last)
        return [DayUsage(*row) for row in rows]

    async def of_all(
        self, first: date, last: date, after: tuple[str, date] | None, limit: int
    ) -> TenantDayPage:
        """The same of all tenants, after a tenant and day."""
        rows = await self._database.fetch(
            "usage_of_all", first, last, *(after or ("", date.min)), limit + 1
        )
        days = [TenantDay(**row) for row in rows[:limit]]
        return TenantDayPage(days, len(rows) > limit)
