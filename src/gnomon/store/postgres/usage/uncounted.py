"""Submissions by gnomon.submit, which quotas and activity learn of afterwards."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gnomon.model.tasks.priority import Lane
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import lane_of
from gnomon.store.postgres.tasks.admitting import QuotasOf


class SubmittedKey(NamedTuple):
    """What is counted together."""

    tenant_id: str
    task_type: str
    lane: Lane


class PostgresUncounted:
    """Takes what was submitted, and the room that it needs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, quotas_of: QuotasOf, most: int) -> Mapping[SubmittedKey, int]:
        """Count submissions that are older than a second, in one transaction with the room that
        they take of their tenants' quotas."""
        async with self._database.transaction() as connection:
            rows = await connection.fetch(query("take_uncounted"), most)
            by_tenant: Counter[str] = Counter()
            for row in rows:
                by_tenant[row["tenant_id"]] += row["number"]
            for tenant_id, number in by_tenant.items():  # in the order in which others lock them
                quota = quotas_of(tenant_id).scheduled_tasks
                if quota is not None:
                    await connection.execute(query("count_room"), tenant_id, number)
                    await connection.execute(query("recount_room"), tenant_id, quota)
        return {
            SubmittedKey(row["tenant_id"], row["task_type"], lane_of(row["lane"])): row["number"]
            for row in rows
        }
