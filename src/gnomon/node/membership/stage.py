"""A node's place among the others: it joins, watches the roster, and leaves."""

from collections.abc import Callable

import msgspec
import structlog

from gnomon.chores import Service, every
from gnomon.clock import Clock
from gnomon.model.fleet.pool import Pool, Territory
from gnomon.node.membership.lease import Lease
from gnomon.node.membership.roster import Roster
from gnomon.store.ports.roster import AppVersion, NodeKind, RosterStore

log = structlog.get_logger("gnomon.node")


class RosterEntry(msgspec.Struct, frozen=True):
    """A node's own entry in the roster."""

    name: str
    slots: int
    pool: Pool
    app: AppVersion | None = None
    kind: NodeKind = NodeKind.NODE


class Membership:
    """Enters the roster, and tells the node which shards it serves."""

    def __init__(
        self,
        entry: RosterEntry,
        store: RosterStore,
        roster: Roster,
        lease: Lease,
        clock: Clock,
        serve: Callable[[Territory], None],
    ) -> None:
        self.entry = entry
        self.lease = lease
        self._store = store
        self._roster = roster
        self._clock = clock
        self._serve = serve
        self._served: Territory | None = None

    @property
    def shards(self) -> int:
        """How many the node serves."""
        return 0 if self._served is None else len(self._served.shards)

    async def join(self) -> None:
        """Enter the roster, and know the own shards."""
        asked_at = self._clock.monotonic()
        me, lease = self.entry, self.lease
        now = await self._store.join(
            lease.incarnation, me.name, me.slots, lease.ttl, me.pool, me.app, me.kind
        )
        self._clock.observe(now, asked_at)
        lease.renewed(asked_at)
        await self.look()

    async def leave(self) -> None:
        await self._store.leave(self.lease.incarnation)

    async def look(self) -> None:
        """Look who is alive, and serve the shards that this leaves to this node."""
        result = await self._roster.run_once()
        if result.own != self._served:
            self._served = result.own
            log.info("serving shards", shards=len(result.own.shards), nodes=result.nodes)
            self._serve(result.own)

    def services(self) -> list[Service]:
        return [every("roster", self.look, self._clock, min(0.5, self.lease.ttl / 10))]
