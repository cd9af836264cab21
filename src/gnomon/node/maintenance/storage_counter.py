"""Counts the bytes of tenants that may not have any number of them, on one node at a time.

Statements that store something add to what is known of a tenant; what goes is found here. Those
that come near their quota are counted often, the others once a day.
"""

import structlog

from gnomon.chores import About, Troubles
from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.node.membership.lease import Lease
from gnomon.store.ports.tenancy.storage import StorageLevel, to_count
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.usage.storage import PostgresStorage
from gnomon.store.tenant_cache import TenantCache

log = structlog.get_logger("gnomon.node")

CHORE = "count-storage"
EVERY_SECONDS = 3.0
_HELD_SECONDS = 60.0
_PASS_SECONDS = 30.0


class StorageCounter:
    """Keeps what is known of the tenants' bytes near what they are."""

    def __init__(
        self,
        store: PostgresStorage,
        chores: PostgresChores,
        lease: Lease,
        directory: TenantCache,
        clock: Clock,
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._directory = directory
        self._clock = clock
        self._troubles = troubles
        self._failing: set[str] = set()

    async def run_once(self) -> int:
        """Count those whose time has come; gives how many."""
        bounds = self._directory.bounded_bytes()
        if not bounds:
            return 0
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HELD_SECONDS):
            return 0
        deadline = self._clock.monotonic() + _PASS_SECONDS
        levels, now = await self._store.levels(sorted(bounds))
        due = [level for level in levels if to_count(level, bounds[level.tenant_id], now)]
        due.sort(key=lambda level: level.stored / max(1, bounds[level.tenant_id]), reverse=True)
        # One whose count fails, after half a minute maybe, comes last, and more and more rarely.
        due.sort(key=lambda level: level.tenant_id in self._failing)
        aside = {about.tenant_id for about in self._troubles.aside(CHORE)}
        counted = 0
        for level in due:
            if level.tenant_id in aside:
                continue
            if self._clock.monotonic() >= deadline:
                break  # the next pass goes on
            counted += await self._count(level)
        return counted

    async def _count(self, level: StorageLevel) -> bool:
        """One that cannot be counted keeps none of the others back."""
        about = About(level.tenant_id, "its stored bytes")
        try:
            found = await self._store.count(level)
        except StoreError as error:
            self._troubles.note(CHORE, error, about)
            self._failing.add(level.tenant_id)
            return False
        self._troubles.over(CHORE, about)
        self._failing.discard(level.tenant_id)
        if found is not None:
            log.debug("counted", tenant=level.tenant_id, stored=found, known=level.stored)
        return found is not None
