"""The report of service levels on PostgreSQL."""

from datetime import date
from uuid import UUID

from gnomon.store.ports.insight.levels import LevelCounts, LevelWeek
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query


class PostgresLevelReport:
    """Reads what the judge has added up."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def today(self) -> date:
        """The day of the store, in UTC."""
        row = await self._database.fetchrow("usage_day")
        assert row is not None, "a SELECT without FROM gives its row"
        day: date = row["day"]
        return day

    async def weeks(
        self,
        tenant_id: str,
        first: date,
        last: date,
        task_type: str | None,
        cron_job_id: UUID | None,
        limit: int,
    ) -> list[LevelWeek]:
        """The weeks from `first` to before `last`, newest first; at most `limit` rows."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(
                query("list_levels"), tenant_id, first, last, task_type, cron_job_id, limit
            )
        return [
            LevelWeek(
                week=row["week"],
                task_type=row["task_type"],
                cron_job_id=row["cron_job_id"],
                cron_job=row["cron_job"],
                counts=LevelCounts(
                    row["start_kept"], row["start_missed"], row["run_kept"], row["run_missed"]
                ),
            )
            for row in rows
        ]
