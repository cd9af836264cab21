"""Who has been heard lately. Counted in rounds, not by a clock: this process may have stood still,
and what others have said meanwhile waits to be heard."""

import asyncio
import contextlib

from gnomon.clock import Clock
from gnomon.pipe.meeting.link import WATCH_SECONDS

MOST = 10_000  # names that are remembered


class Presence:
    """The names that were heard within so many rounds."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._ages: dict[str, int] = {}  # rounds since each was heard; the latest last

    def heard(self, name: str) -> None:
        self._ages.pop(name, None)
        while len(self._ages) >= MOST:
            del self._ages[next(iter(self._ages))]
        self._ages[name] = 0

    def next_round(self) -> None:
        """Forget those who were silent for too long."""
        self._ages = {name: age + 1 for name, age in self._ages.items() if age + 1 < self._rounds}

    def __contains__(self, name: str) -> bool:
        return name in self._ages

    def all(self) -> list[str]:
        """Sorted."""
        return sorted(self._ages)


class KnownGateways(Presence):
    """The gateways that beat, where a broker has no list of them. Whoever has just connected hears
    all of them before it chooses: so all connections of a worker choose the same."""

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds)
        self._acquainted = asyncio.Event()
        self._any = asyncio.Event()

    def heard(self, name: str) -> None:
        super().heard(name)
        self._any.set()

    def next_round(self) -> None:
        super().next_round()
        if not self.all():
            self._any.clear()

    async def acquaint(self, clock: Clock) -> None:
        """Wait until each of them had time to beat."""
        await clock.sleep(1.5 * WATCH_SECONDS)
        self._acquainted.set()

    async def known(self, seconds: float) -> list[str]:
        """All of them; waits for so long where there is none."""
        await self._acquainted.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._any.wait()
        return self.all()

    def close(self) -> None:
        """Nobody is to wait any more."""
        self._acquainted.set()
        self._any.set()
