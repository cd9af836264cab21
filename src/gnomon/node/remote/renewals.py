"""Renews the leases of sessions: all beats of a moment in one statement."""

import asyncio
from uuid import UUID

from gnomon.chores import Troubles
from gnomon.clock import Clock
from gnomon.model.errors import StoreError, StoreUnavailable
from gnomon.store.postgres.dispatch.worker_sessions import RENEWED_WITHIN, PostgresWorkerSessions

CHORE = "renew-sessions"
GATHER_SECONDS = 0.05  # that beats are gathered for


class SessionRenewals:
    """Beats that wait for their renewal share its answer."""

    def __init__(
        self, store: PostgresWorkerSessions, clock: Clock, troubles: Troubles, lease: float
    ) -> None:
        self._store = store
        self._clock = clock
        self._troubles = troubles
        self._lease = lease
        self._beats: dict[UUID, list[asyncio.Future[float | None]]] = {}
        self._beaten = asyncio.Event()

    async def beat(self, incarnation: UUID) -> float | None:
        """Renew a lease; gives when that was asked for (monotonic), or None where the session is
        dead. Raises StoreError, also where the store takes too long: the lease would end while its
        worker waits here, and another gateway may be able to renew it."""
        renewed: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        self._beats.setdefault(incarnation, []).append(renewed)
        self._beaten.set()
        seconds = self._lease * RENEWED_WITHIN
        try:
            async with asyncio.timeout(seconds):
                return await renewed
        except TimeoutError:
            raise StoreUnavailable(
                f"PostgreSQL is unavailable: no answer within {seconds:g} s"
            ) from None

    async def run(self) -> None:
        while True:
            await self._beaten.wait()
            await self._clock.sleep(GATHER_SECONDS)
            self._beaten.clear()
            beats, self._beats = self._beats, {}
            await self._renew(beats)

    async def _renew(self, beats: dict[UUID, list[asyncio.Future[float | None]]]) -> None:
        asked_at = self._clock.monotonic()
        try:
            asked = self._store.renew(list(beats), self._lease)
            alive = await self._troubles.noting(CHORE, asked)
        except StoreError as error:
            for waiting in beats.values():
                for each in waiting:
                    if not each.done():
                        each.set_exception(error)
            return
        for incarnation, waiting in beats.items():
            for each in waiting:
                if not each.done():
                    each.set_result(asked_at if incarnation in alive else None)
