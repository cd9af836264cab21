"""Repeats chores, and keeps their errors from ending anything else."""

from collections.abc import Awaitable, Callable
from typing import Generic, NoReturn, TypeVar

import msgspec

from gnomon.chores.service import Service
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

    async def run(self, service: Service) -> NoReturn:
        """Do it again and again. After an error it waits for as long as that asks for instead."""
        while True:
            done = await self.attempt(service.name, service.once)
            if done.pause is not None:
                await self._clock.sleep(done.pause)
            elif service.wait is not None:
                await service.wait()
