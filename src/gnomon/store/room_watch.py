"""Looks whether the database has room, and lets all processes refuse new work before it has none.

Every process that can see the disk of PostgreSQL looks at it; the size of the database is asked by
one at a time. What they find is said in the database, for a few seconds at a time: a process that
ends leaves no refusal behind.
"""

from collections.abc import Callable
from uuid import UUID

import structlog

from gnomon.clock import Clock
from gnomon.model.fleet.room import Bounds, Measured, no_room
from gnomon.settings import DatabaseSettings
from gnomon.store.postgres.usage.room import PostgresRoom

log = structlog.get_logger("gnomon.store")

LOOK_SECONDS = 2.0
_SIZE_SECONDS = 10.0  # between looks at the size of the database
_HELD_SECONDS = 10.0
_SAID_SECONDS = 15.0  # for which a refusal holds


def bounds_of(settings: DatabaseSettings) -> Bounds:
    return Bounds(settings.disk_reserve_bytes, settings.max_bytes)


class RoomWatch:
    """Checks of one process whether the database has room."""

    def __init__(
        self,
        store: PostgresRoom,
        settings: DatabaseSettings,
        clock: Clock,
        process: UUID,
        on_measured: Callable[[Measured], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._bounds = bounds_of(settings)
        self._clock = clock
        self._process = process
        self._on_measured = on_measured
        self.size_seconds = _SIZE_SECONDS
        self._size: int | None = None
        self._size_at = clock.monotonic()
        self._why: str | None = None  # that this process has given

    async def run_once(self) -> str | None:
        """Look; returns why new work is refused, where this process says so."""
        found = await self._measured()
        self._on_measured(found)
        why = no_room(found, self._bounds, refusing=self._why is not None)
        if why is not None:
            if self._why is None:
                log.warning("refusing new work: the database has too little room", why=why)
            await self._store.refuse(why, _SAID_SECONDS)
        elif self._why is not None:
            await self._store.accept(self._why)
            log.info("accepting new work again")
        self._why = why
        return why

    async def _measured(self) -> Measured:
        bounded = self._bounds.most is not None
        holder = bounded and await self._store.hold(self._process, _HELD_SECONDS)
        now = self._clock.monotonic()
        sized = holder and now >= self._size_at
        found = await self._store.measure(sized=sized)
        if sized:
            self._size, self._size_at = found.database, now + self.size_seconds
        elif not holder:
            self._size, self._size_at = None, now
        return Measured(found.free, found.disk, self._size)
