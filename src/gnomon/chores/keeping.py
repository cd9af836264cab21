"""Tells the store what goes wrong in a process, for those who look from outside."""

from collections.abc import Sequence
from typing import Protocol

from gnomon.chores.troubles import Trouble, Troubles
from gnomon.clock import Clock

EVERY_SECONDS = 1.0
KNOWN_SECONDS = 60.0  # after which a process that says nothing more has ended
_AGAIN_SECONDS = 15.0  # to say the same


class TroubleStore(Protocol):
    """Where the troubles of one process are kept."""

    async def keep(self, troubles: Sequence[Trouble], seconds: float) -> None:
        """These are all that it has; they hold for so long."""


class TroubleKeeper:
    """Writes the book of troubles when it has changed, and while it has entries."""

    def __init__(self, troubles: Troubles, store: TroubleStore, clock: Clock) -> None:
        self._troubles = troubles
        self._store = store
        self._clock = clock
        self._kept_at = clock.monotonic()

    async def run_once(self) -> int:
        """Gives how many were written."""
        now = self._clock.monotonic()
        present = self._troubles.all()
        again = bool(present) and now - self._kept_at >= _AGAIN_SECONDS
        if not self._troubles.changed and not again:
            return 0
        self._troubles.changed = False
        try:
            await self._store.keep(present, KNOWN_SECONDS)
        except BaseException:
            self._troubles.changed = True
            raise
        self._kept_at = now
        return len(present)
