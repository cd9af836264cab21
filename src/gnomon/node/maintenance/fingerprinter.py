"""Works out fingerprints that dead letters are without, on one node at a time.

A node gives every task that dies its fingerprint. This is for the others: those that died before
there were fingerprints, under a node of the version before, of an error that could not be stored,
and what plain SQL has made a dead letter.
"""

from gnomon.clock import Clock
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.tasks.dead_letters import PostgresDeadLetters

CHORE = "fingerprint"
EVERY_SECONDS = 5.0
_HELD_SECONDS = 15.0
_BATCH = 500
_PASS_SECONDS = 5.0


class Fingerprinter:
    """Fingerprints a batch at a time, with a rest as long as the batch in between."""

    def __init__(
        self, store: PostgresDeadLetters, chores: PostgresChores, lease: Lease, clock: Clock
    ) -> None:
        self._store = store
        self._chores = chores
        self._lease = lease
        self._clock = clock

    async def run_once(self) -> int:
        """Gives how many dead letters have got one."""
        done, batch = 0, _BATCH
        deadline = self._clock.monotonic() + _PASS_SECONDS
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HELD_SECONDS):
            return 0
        while batch == _BATCH and self._clock.monotonic() < deadline:
            started_at = self._clock.monotonic()
            batch = await self._store.fingerprint_some(_BATCH)
            done += batch
            if batch == _BATCH:
                await self._clock.sleep(min(self._clock.monotonic() - started_at, 1.0))
        return done
