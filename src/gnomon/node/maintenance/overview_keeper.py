"""Looks over the whole installation, on one node at a time, and tells who listens."""

from collections.abc import Mapping

from gnomon.chores import About, Troubles
from gnomon.model.errors import StoreError
from gnomon.model.insight.overview import InstallationOverview
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import Observer
from gnomon.observe.node_events import InstallationSeen
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.overview.overview import PostgresOverview

CHORE = "overview"
EVERY_SECONDS = 10.0
_HELD_SECONDS = 30.0


class OverviewKeeper:
    """What was seen holds only while the node has the chore: another one tells it afterwards."""

    def __init__(
        self,
        store: PostgresOverview,
        chores: PostgresChores,
        lease: Lease,
        emit: Observer,
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._emit = emit
        self._troubles = troubles
        self._missing: set[str] = set()

    async def run_once(self) -> InstallationOverview | None:
        """Gives what was seen; None where another node looks."""
        seen = None
        try:
            if await self._chores.hold(CHORE, self._lease.incarnation, _HELD_SECONDS):
                seen = await self._store.look()
        except Exception:  # whatever it is: what was seen before holds no longer
            self._emit(InstallationSeen(None))
            raise
        self._note({} if seen is None else seen.missing)
        self._emit(InstallationSeen(seen))
        return seen

    def _note(self, missing: Mapping[str, StoreError]) -> None:
        """A part that could not be asked keeps back no other: it is in trouble by itself, for as
        long as this node has the chore."""
        for part, error in missing.items():
            self._troubles.note(CHORE, error, _about(part))
        self._troubles.over_all(CHORE, map(_about, self._missing - missing.keys()))
        self._missing = set(missing)


def _about(part: str) -> About:
    return About(subject=f"metrics of {part}")
