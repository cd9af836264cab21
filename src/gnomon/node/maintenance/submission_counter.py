"""Counts submissions by gnomon.submit: for the quotas of their tenants, and for activity.

The transaction that submits changes no counter that others wait for, so it only leaves a row."""

from gnomon.observe.tally import ActivityTally
from gnomon.store.postgres.tasks.admitting import QuotasOf
from gnomon.store.postgres.usage.uncounted import PostgresUncounted

EVERY_SECONDS = 1.0
_MOST = 10_000  # at once


class SubmissionCounter:
    """Every node counts; a submission is counted by one."""

    def __init__(self, store: PostgresUncounted, quotas_of: QuotasOf, tally: ActivityTally) -> None:
        self._store = store
        self._quotas_of = quotas_of
        self._tally = tally

    async def run_once(self) -> int:
        """Gives how many were counted."""
        counted = await self._store.take(self._quotas_of, _MOST)
        self._tally.submitted_by_key(counted.items())
        return sum(counted.values())
