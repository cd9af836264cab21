"""Answers to readers with the same rights, made once for all who ask within a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.clock import Clock

FRESH_SECONDS = 1.0
MOST_KEPT = 256
MOST_BYTES = 512 * 1024  # of an answer that is kept


class _Flight(msgspec.Struct, eq=False):
    began: float
    answer: "asyncio.Future[ASGIResponse]"


class SharedAnswers:
    """Answers by a key that says everything they depend on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._flights: dict[Hashable, _Flight] = {}

    async def answer(
        self, key: Hashable, make: Callable[[], Awaitable[ASGIResponse]]
    ) -> ASGIResponse:
        """The answer that somebody makes now, or has made a moment ago; else makes it."""
        while (flight := self._fresh(key)) is not None:
            try:
                return await asyncio.shield(flight.answer)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Who made it is gone: the next one makes it.
        return await self._made(key, make)

    def _fresh(self, key: Hashable) -> _Flight | None:
        flight = self._flights.get(key)
        if flight is None or flight.answer.cancelled():
            return None
        # One under way may take longer than it is kept.
        still = not flight.answer.done() or self._clock.monotonic() < flight.began + FRESH_SECONDS
        return flight if still else None

    async def _made(
        self, key: Hashable, make: Callable[[], Awaitable[ASGIResponse]]
    ) -> ASGIResponse:
        self._drop_old()
        if len(self._flights) >= MOST_KEPT:
            return await make()
        made: asyncio.Future[ASGIResponse] = asyncio.get_running_loop().create_future()
        flight = self._flights[key] = _Flight(self._clock.monotonic(), made)
        try:
            answer = await make()
        except Exception as error:
            self._forget(key, flight)
            made.set_exception(error)
            made.exception()  # nobody else may have asked for it
            raise
        except BaseException:
            self._forget(key, flight)
            made.cancel()
            raise
        made.set_result(answer)
        if len(answer.body) > MOST_BYTES or answer.status_code != 200:
            self._forget(key, flight)
        return answer

    def _forget(self, key: Hashable, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        for key, flight in list(self._flights.items()):
            if flight.answer.done() and now >= flight.began + FRESH_SECONDS:
                del self._flights[key]
