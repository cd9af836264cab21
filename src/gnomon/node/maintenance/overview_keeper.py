"""Looks over the whole installation, on one node at a time, and tells who listens."""

import structlog

from gnomon.model.errors import StoreError
from gnomon.model.overview import InstallationOverview
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import Observer
from gnomon.observe.node_events import InstallationSeen
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.overview.overview import PostgresOverview

log = structlog.get_logger("gnomon.node")

CHORE = "overview"
EVERY_SECONDS = 10.0
_HELD_SECONDS = 30.0


class OverviewKeeper:
    """What was seen holds only while the node has the chore: another one tells it afterwards."""

    def __init__(
        self, store: PostgresOverview, chores: PostgresChores, lease: Lease, emit: Observer
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._emit = emit
        self._missing: frozenset[str] = frozenset()

    async def run_once(self) -> InstallationOverview | None:
        """Gives what was seen; None where another node looks."""
        seen = None
        try:
            if await self._chores.hold(CHORE, self._lease.incarnation, _HELD_SECONDS):
                seen = await self._store.look()
        except StoreError:
            self._emit(InstallationSeen(None))
            raise
        if seen is not None:
            self._tell_missing(seen)
        self._emit(InstallationSeen(seen))
        return seen

    def _tell_missing(self, seen: InstallationOverview) -> None:
        missing = frozenset(seen.missing)
        for part in sorted(missing - self._missing):
            log.warning(
                "a metric of the installation is missing", part=part, why=seen.missing[part]
            )
        self._missing = missing
