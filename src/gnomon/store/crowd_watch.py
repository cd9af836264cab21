"""Looks how much is due and waits, and lets all processes refuse tasks for lanes that are crowded.

One process at a time looks. It says in the database what it found, for a few seconds at a time: a
process that ends leaves no refusal behind. Others read it with what they read twice a second.
"""

import math
from uuid import UUID

import structlog

from gnomon.clock import Clock
from gnomon.model.errors import StoreError
from gnomon.model.fleet.crowding import (
    Crowd,
    Crowds,
    LaneKey,
    own_crowds,
    shared_crowds,
    with_waits,
)
from gnomon.settings import SharingSettings
from gnomon.store.postgres.crowding.crowding import PostgresCrowding
from gnomon.store.tenant_cache import TenantCache

log = structlog.get_logger("gnomon.store")

LOOK_SECONDS = 1.0
SAID_SECONDS = 15.0  # for which a refusal holds: revision.sql and gnomon.check_crowd have it too
_ASK_SECONDS = 3.0  # between two questions whether another process still looks
# Who takes over from a process that has ended asks, and says it again, while what that said holds.
_HELD_SECONDS = SAID_SECONDS - 2 * _ASK_SECONDS
_AGAIN_SECONDS = 2.0  # of a look, after which what was said last is said again
_REST = 20  # times as long as a look took: it takes a twentieth of a core,
_LONGEST_REST = 5.0  # and more where looks take so long that refusals would be out of date
_MOST_SAID = 10_000  # lanes


class CrowdWatch:
    """The looks of one process."""

    def __init__(
        self,
        store: PostgresCrowding,
        settings: SharingSettings,
        directory: TenantCache,
        clock: Clock,
        process: UUID,
    ) -> None:
        self._store = store
        self._most = settings.max_ready_tasks
        self._directory = directory
        self._clock = clock
        self._process = process
        self._next_at = clock.monotonic()
        self._looked_at = clock.monotonic()
        self._failed = False  # the last look
        self._turn = 0
        self._holds = False  # the chore
        self._said: Crowds = {}
        self._said_at = clock.monotonic()

    async def run_once(self) -> Crowds:
        """Look, if it is time to; gives what this process says."""
        quotas = self._directory.bounded_lanes()
        if not quotas and self._most is None and not self._said:
            return self._said
        began = self._clock.monotonic()
        if began < self._next_at:
            if not self._failed:
                return self._said
            # To return would mean that it goes well again.
            await self._clock.sleep(self._next_at - began)
            began = self._clock.monotonic()
        self._failed, rest = True, None
        try:
            if await self._hold():
                await self._look_and_tell(quotas, began)
            else:
                self._said, rest = {}, _ASK_SECONDS
            self._failed = False
        except StoreError:
            await self._hold()  # and what was said
            raise
        finally:  # one that fails has cost as much
            now = self._clock.monotonic()
            if rest is None:
                rest = min(_LONGEST_REST, _REST * (now - began))
            self._next_at = now + rest
        return self._said

    async def _look_and_tell(self, quotas: dict[str, int], began: float) -> None:
        found = await self._look(quotas)
        if found or self._said:
            await self._store.tell(found)
            self._said_at = self._clock.monotonic()
            self._log(found)
        self._said, self._looked_at = found, began

    async def _hold(self) -> bool:
        """Be the one who looks, if no other is. What was said some time ago is said again, by who
        looked before as well: a look may take long, or fail."""
        held = await self._store.hold(self._process, _HELD_SECONDS)
        now = self._clock.monotonic()
        if held and not self._holds:
            self._said, self._said_at = self._directory.crowds, -math.inf
            self._looked_at = now - _HELD_SECONDS  # by the other one, or earlier
        self._holds = held
        if held and self._said and now >= self._said_at + _AGAIN_SECONDS:
            await self._store.tell_again()
            self._said_at = now
        return held

    async def _look(self, quotas: dict[str, int]) -> Crowds:
        found: dict[LaneKey, Crowd] = {}
        if self._most is not None:
            self._turn += 1
            of_tenants = await self._store.of_tenants(self._most, self._turn)
            weights = {tenant: self._directory.weight(tenant) for tenant in of_tenants}
            found |= shared_crowds(of_tenants, weights, self._most, self._said)
            await self._hold()
        if quotas:
            ready: dict[LaneKey, int] = {}
            async for some in self._store.of_lanes(quotas):
                ready |= some
                await self._hold()
            found |= own_crowds(ready, quotas, self._said)
        deepest = sorted(found, key=lambda key: found[key].ready, reverse=True)[:_MOST_SAID]
        seconds = self._clock.monotonic() - self._looked_at
        return with_waits({key: found[key] for key in deepest}, self._said, seconds)

    def _log(self, found: Crowds) -> None:
        for key in found.keys() - self._said.keys():
            log.warning(
                "refusing new tasks: a lane is crowded",
                tenant=key.tenant_id,
                priority=key.lane.name,
                ready=found[key].ready,
                most=found[key].most,
                shared=found[key].shared,
            )
        for key in self._said.keys() - found.keys():
            log.info("accepting new tasks again", tenant=key.tenant_id, priority=key.lane.name)
