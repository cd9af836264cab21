"""Troubles of processes on PostgreSQL: errors of chores that still hold."""

from collections.abc import Sequence

from gnomon.chores import Trouble
from gnomon.store.postgres.database import Database


class PostgresTroubles:
    """`TroubleStore` on PostgreSQL, for one process."""

    def __init__(self, database: Database, process: str, name: str) -> None:
        self._database = database
        self._process = process
        self._name = name

    async def keep(self, troubles: Sequence[Trouble], seconds: float) -> None:
        await self._database.execute(
            "keep_troubles",
            self._process,
            self._name,
            seconds,
            [t.chore for t in troubles],
            [t.about.tenant_id for t in troubles],
            [t.about.subject for t in troubles],
            [t.sqlstate for t in troubles],
            [t.error for t in troubles],
            [t.remedy for t in troubles],
            [t.since for t in troubles],
            [t.last for t in troubles],
            [t.count for t in troubles],
            [t.retry_at for t in troubles],
        )
