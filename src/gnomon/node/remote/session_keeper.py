"""Chores of a gateway for its sessions: what they serve, and what they have."""

import asyncio

import msgspec
import structlog

from gnomon.chores import Service, every, whenever
from gnomon.clock import Clock
from gnomon.model.fleet.pool import Pool, union
from gnomon.node.membership.stage import Membership
from gnomon.node.remote.adoption import Adoption
from gnomon.node.remote.conversation import Conversation
from gnomon.node.settle.takeover import Takeover, released
from gnomon.observe.node_events import Recovery

log = structlog.get_logger("gnomon.gateway")

_WATCH_SECONDS = 1.0
_RECONCILE_SECONDS = 5.0
_SERVE_SECONDS = 5.0
_GATHER_SECONDS = 0.02  # sessions that open together change the roster once


class SessionKeeper:
    """Looks after the sessions of a gateway."""

    def __init__(
        self,
        conversation: Conversation,
        adoption: Adoption,
        membership: Membership,
        takeover: Takeover,
        clock: Clock,
        lease_seconds: float,
    ) -> None:
        self._pipe = conversation.pipe
        self._conversation = conversation
        self._adoption = adoption
        self._membership = membership
        self._held = adoption.held
        self._takeover = takeover
        self._store = adoption.store
        self._clock = clock
        self._margin = lease_seconds / 3
        self.changed = asyncio.Event()  # which sessions there are
        self._served: tuple[Pool, int] | None = None

    def services(self) -> list[Service]:
        clock = self._clock
        return [
            whenever("serve", self.serve, clock, self.changed, _SERVE_SECONDS, _GATHER_SECONDS),
            every("watch-sessions", self.watch, clock, _WATCH_SECONDS),
            every("reconcile-sessions", self.reconcile, clock, _RECONCILE_SECONDS),
        ]

    async def serve(self) -> None:
        """Note in the roster what the sessions serve together, and serve it."""
        sessions = self._pipe.sessions.values()
        served = union(self._pipe.pools), sum(session.slots for session in sessions)
        if served == self._served:
            return
        pool, slots = served
        await self._store.serve(self._membership.lease.incarnation, slots, pool)
        self._served = served
        self._membership.entry = msgspec.structs.replace(
            self._membership.entry, pool=pool, slots=slots
        )
        await self._membership.look()

    async def watch(self) -> None:
        if await self._adoption.watch():
            self.changed.set()
        await self._adoption.follow_departed()
        await self._adoption.look_at_leases(self._margin)

    async def reconcile(self) -> int:
        """Release what sessions have by their rows, and nobody knows: claims whose answers were
        lost. And have what was cancelled unheard end. Gives how many were released. What a session
        has that another gateway claims for is known there: this one may not have heard that it
        was adopted."""
        async with self._held.claiming:
            before = dict(self._held.fences)
            sessions = {i: s for i, s in self._pipe.sessions.items() if s.synced}
            rows = await self._store.held(list(sessions)) if sessions else []
        unknown = []
        own = self._membership.lease.incarnation
        for row in rows:
            task = row.task
            if row.gateway != own:
                continue
            if task.cancel_requested:
                self._conversation.stop(task.key, "cancelled")
            if before.get(task.key) != task.fence and not self._held.holds(task.key, task.fence):
                unknown.append(task)
        count = await self._takeover.settle(unknown, released, Recovery.UNKNOWN)
        if count:
            log.warning("released tasks whose claim was answered but lost", count=count)
        return count
