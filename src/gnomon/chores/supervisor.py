"""Repeats chores, and keeps their errors from ending anything else."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

from gnomon.chores.service import Service
from gnomon.chores.troubles import Troubles
from gnomon.clock import Clock
from gnomon.model.errors import BrokenInvariant, LeaseLost, StoreExhausted


class Chores:
    """The chores of one process."""

    def __init__(self, clock: Clock, troubles: Troubles) -> None:
        self._clock = clock
        self.troubles = troubles

    async def run_once(
        self, name: str, work: Callable[[], Awaitable[object]], *, yields: bool = False
    ) -> float | None:
        """Do a chore once; after an error, gives the seconds to wait before the next time. Raises
        only what must end the process."""
        try:
            await work()
        except (BrokenInvariant, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001 - this is where errors of all chores end
            pause = self.troubles.note(name, error)
            if yields and isinstance(error, StoreExhausted):
                return self.troubles.postpone(name)
            return pause
        self.troubles.over(name)
        return None

    async def run(self, service: Service) -> NoReturn:
        """Do it again and again. After an error it waits for as long as that asks for instead."""
        if service.begins_after:
            await self._clock.sleep(service.begins_after)
        while True:
            pause = await self.run_once(service.name, service.once, yields=service.yields)
            if pause is not None:
                await self._clock.sleep(pause)
            elif service.wait is not None:
                await service.wait()
