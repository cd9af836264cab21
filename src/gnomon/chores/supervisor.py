"""Repeats chores, and keeps their errors from ending anything else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NoReturn, TypeVar

import msgspec

from gnomon.chores.troubles import Troubles
from gnomon.clock import Clock
from gnomon.model.errors import BrokenInvariant, LeaseLost

T = TypeVar("T")


class Attempt(msgspec.Struct, Generic[T], frozen=True):
    """One go at a chore: its result, or the seconds to wait before the next one."""

    result: T | None = None
    pause: float | None = None

    @property
    def failed(self) -> bool:
        return self.pause is not None


class Chores:
    """The chores of one process."""

    def __init__(self, clock: Clock, troubles: Troubles) -> None:
        self._clock = clock
        self.troubles = troubles

    async def attempt(self, name: str, work: Callable[[], Awaitable[T]]) -> Attempt[T]:
        """Do it once. Raises only what must end the process."""
        try:
            result = await work()
        except (BrokenInvariant, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001 - this is where errors of all chores end
            return Attempt(pause=self.troubles.note(name, error))
        self.troubles.over(name)
        return Attempt(result)

    async def loop(self, name: str, work: Callable[[], Awaitable[object]]) -> NoReturn:
        """Do it again and again; it waits by itself for something to do."""
        while True:
            done = await self.attempt(name, work)
            if done.pause is not None:
                await self._clock.sleep(done.pause)

    async def every(
        self, name: str, seconds: float, work: Callable[[], Awaitable[object]]
    ) -> NoReturn:
        """Do it, and again after so many seconds."""
        while True:
            done = await self.attempt(name, work)
            await self._clock.sleep(seconds if done.pause is None else done.pause)

    async def whenever(
        self,
        name: str,
        event: asyncio.Event,
        seconds: float | None,
        work: Callable[[], Awaitable[object]],
        rest: float = 0.0,
    ) -> NoReturn:
        """Do it whenever the event is set, and after so many seconds; then rest."""
        while True:
            await self._clock.wait(event, seconds)
            event.clear()
            done = await self.attempt(name, work)
            if done.pause is not None:
                await self._clock.sleep(done.pause)
                event.set()
            elif rest:
                await self._clock.sleep(rest)
