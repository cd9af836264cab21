"""Bounds what waits for feeds, and removes what is left of those that are removed."""

import structlog

from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.feeds.feed_notes import PostgresFeedNotes

log = structlog.get_logger("gnomon.node.maintenance")

CHORE = "feeds"
EVERY_SECONDS = 10.0
_HOLD_SECONDS = 60.0
_ROUNDS = 20


class FeedKeeper:
    """One node at a time has the chore."""

    def __init__(
        self, notes: PostgresFeedNotes, chores: PostgresChores, lease: Lease, most: int
    ) -> None:
        self._notes = notes
        self._chores = chores
        self._lease = lease
        self._most = most

    async def run_once(self) -> bool:
        """Whether this node has the chore."""
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            return False
        if full := await self._notes.bound(self._most):
            log.error("feeds have a gap: too many outcomes wait", feeds=full, most=self._most)
        for _ in range(_ROUNDS):
            if not await self._notes.tidy():
                break
        return True
