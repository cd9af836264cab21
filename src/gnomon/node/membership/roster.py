"""Keeps the list of living nodes, judged only by one that is alive itself.

A peer is declared dead when its beat has stood still for a whole lease during which our own
renewals went through without a break. So an outage of PostgreSQL longer than a lease kills
nobody: our own run of renewals was broken with everyone else's. A session beats several times in
half of a lease, and is only looked at when its own is about to run out: for that half it must have
stood still.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.model.fleet.pool import Pool, Territory, territory
from gnomon.node.membership.lease import Lease
from gnomon.store.ports.roster import NodeKind, NodeRecord, RosterStore

log = structlog.get_logger("gnomon.node")


class Watch:
    """The beats of the peers since our own renewals last began to go through. Pure."""

    def __init__(self) -> None:
        self._run_began: float | None = None
        self._beats: dict[UUID, tuple[int, float]] = {}  # beat, and since when it was that

    def silent(
        self, peers: Sequence[NodeRecord], lease: Lease, now: datetime, monotonic: float
    ) -> list[NodeRecord]:
        """The peers that may be declared dead now."""
        if lease.since != self._run_began:
            self._run_began = lease.since
            self._beats.clear()
        if self._run_began is None:
            return []
        seen = self._beats
        self._beats = {}
        for peer in peers:
            before = seen.get(peer.incarnation)
            unchanged = before is not None and before[0] == peer.beat
            self._beats[peer.incarnation] = (
                before if before is not None and unchanged else (peer.beat, monotonic)
            )
        return [
            peer
            for peer in peers
            if monotonic - self._beats[peer.incarnation][1] >= _patience(peer, lease)
            and peer.alive_until < now
            and lease.may_judge(monotonic)
        ]


def _patience(peer: NodeRecord, lease: Lease) -> float:
    return lease.ttl / 2 if peer.kind is NodeKind.SESSION else lease.ttl


class RosterResult(msgspec.Struct, frozen=True):
    """The result of a look at the roster."""

    own: Territory
    nodes: int
    declared_dead: int


class Roster:
    """Keeps the list of nodes, and this node's share of the work."""

    def __init__(self, store: RosterStore, lease: Lease, clock: Clock) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock
        self._watch = Watch()
        self._living: dict[UUID, Pool] = {}
        self._own = Territory()

    async def run_once(self) -> RosterResult:
        nodes = await self._store.roster()
        me = self._lease.incarnation
        peers = [node for node in nodes if node.incarnation != me]
        silent = self._watch.silent(peers, self._lease, self._clock.now(), self._clock.monotonic())
        dead = {p.incarnation for p in silent if await self._declare_dead(p)}
        # Sessions are judged like nodes, and own nothing.
        living = {
            n.incarnation: n.pool
            for n in nodes
            if n.incarnation not in dead and n.kind is not NodeKind.SESSION
        }
        if living != self._living:
            self._living, self._own = living, territory(me, living)
        return RosterResult(self._own, len(living), len(dead))

    async def _declare_dead(self, peer: NodeRecord) -> bool:
        declared = await self._store.declare_dead(peer.incarnation, peer.beat)
        if declared:
            log.warning("declared a node dead", node=peer.name, incarnation=str(peer.incarnation))
        return declared
