"""What many look at, read once for all who ask within some seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from gnomon.clock import Clock

MOST_KEPT = 256

Read = TypeVar("Read")


class _Flight(msgspec.Struct, Generic[Read], eq=False):
    began: float
    answer: "asyncio.Future[Read]"


class SharedReads(Generic[Read]):
    """Values by a key that says everything they depend on."""

    def __init__(self, clock: Clock, fresh_seconds: float) -> None:
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._flights: dict[Hashable, _Flight[Read]] = {}

    async def read(self, key: Hashable, make: Callable[[], Awaitable[Read]]) -> Read:
        """The value that somebody reads now, or has read a moment ago; else reads it."""
        while (flight := self._fresh(key)) is not None:
            try:
                return await asyncio.shield(flight.answer)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Who read it is gone: the next one reads it.
        return await self._made(key, make)

    def is_worth_keeping(self, _found: Read) -> bool:
        """Whether it is given to those who ask later, too."""
        return True

    def _fresh(self, key: Hashable) -> _Flight[Read] | None:
        flight = self._flights.get(key)
        if flight is None or flight.answer.cancelled():
            return None
        # One under way may take longer than it is kept.
        return flight if not flight.answer.done() or not self._is_old(flight) else None

    def _is_old(self, flight: _Flight[Read]) -> bool:
        return self._clock.monotonic() >= flight.began + self._fresh_seconds

    async def _made(self, key: Hashable, make: Callable[[], Awaitable[Read]]) -> Read:
        self._drop_old()
        if len(self._flights) >= MOST_KEPT:
            return await make()
        made: asyncio.Future[Read] = asyncio.get_running_loop().create_future()
        flight = self._flights[key] = _Flight(self._clock.monotonic(), made)
        try:
            found = await make()
        except Exception as error:
            self._forget(key, flight)
            made.set_exception(error)
            made.exception()  # nobody else may have asked for it
            raise
        except BaseException:
            self._forget(key, flight)
            made.cancel()
            raise
        made.set_result(found)
        if not self.is_worth_keeping(found):
            self._forget(key, flight)
        return found

    def _forget(self, key: Hashable, flight: _Flight[Read]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _drop_old(self) -> None:
        for key, flight in list(self._flights.items()):
            if flight.answer.done() and self._is_old(flight):
                del self._flights[key]
