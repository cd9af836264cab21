"""How often one process of several counts what waits, and that what it says holds meanwhile."""

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast
from uuid import UUID

import pytest

from gnomon.chores import Chores, Troubles, every
from gnomon.clock import SystemClock, new_incarnation
from gnomon.model.errors import StoreExhausted
from gnomon.model.fleet.crowding import Crowds, LaneKey
from gnomon.model.tasks.priority import Lane
from gnomon.settings import SharingSettings
from gnomon.store.crowd_watch import LOOK_SECONDS, SAID_SECONDS, CrowdWatch
from gnomon.store.tenant_cache import LOOK_SECONDS as TENANT_SECONDS
from gnomon.store.tenant_cache import Changes, Revision, TenantCache

STATEMENT = 5.0  # seconds that one may take


class SimulatedClock(SystemClock):
    """Time passes once everybody sleeps."""

    def __init__(self) -> None:
        self.at = 0.0
        super().__init__(lambda: self.at)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._slept = 0

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slept += 1
        heapq.heappush(self._sleepers, (self.at + seconds, self._slept, woken))
        await woken

    async def step(self) -> None:
        """Up to the next who wakes up."""
        slept = -1
        while slept != self._slept:  # until all who are awake have gone to sleep
            slept = self._slept
            for _ in range(10):
                await asyncio.sleep(0)
        self.at, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():
            woken.set_result(None)


class Board:
    """What the database keeps: who counts, and what was said. A count takes `took` seconds."""

    def __init__(self, clock: SimulatedClock, took: float) -> None:
        self._clock = clock
        self.took = took
        self.exhausted = False
        self.looks: list[float] = []  # when each began
        self.holders: list[UUID] = []
        self._held_until = float("-inf")
        self.said_at = float("-inf")
        self._crowds: Crowds = {}

    async def hold(self, process: UUID, seconds: float) -> bool:
        if self._clock.at <= self._held_until and self.holders[-1] != process:
            return False
        if process not in self.holders[-1:]:
            self.holders.append(process)
        self._held_until = self._clock.at + seconds
        return True

    async def of_tenants(self, most: int, turn: int) -> dict[str, int]:
        del turn
        self.looks.append(self._clock.at)
        await self._count(min(self.took, STATEMENT))
        return {"a": 2 * most}

    async def of_lanes(self, quotas: Mapping[str, int]) -> AsyncIterator[dict[LaneKey, int]]:
        for _ in range(math.ceil(self.took / STATEMENT) - 1):
            await self._count(STATEMENT)
            yield dict.fromkeys((LaneKey(tenant, Lane.LOW) for tenant in quotas), 1)

    async def _count(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if self.exhausted:
            raise StoreExhausted("too slow")

    async def tell(self, crowds: Crowds) -> None:
        assert crowds
        self.said_at, self._crowds = self._clock.at, crowds

    async def tell_again(self) -> None:
        self.said_at = self._clock.at

    # What all processes read of it

    async def revision(self) -> Revision:
        holds = self._clock.at < self.said_at + SAID_SECONDS
        at = datetime.fromtimestamp(self.said_at, UTC) if holds else None
        return Revision(1, authentication=False, crowded_at=at)

    async def changes(self, since: int | None) -> Changes:
        del since
        return Changes(revision=1, whole=True, tenants={})

    async def crowds(self) -> Crowds:
        return self._crowds


class Directory(TenantCache):
    """With a tenant whose lanes are bounded."""

    def bounded_lanes(self) -> dict[str, int]:
        return {"a": 1_000}


def watch_of(clock: SimulatedClock, board: Board, directory: Directory) -> CrowdWatch:
    settings = SharingSettings(max_ready_tasks=100)
    return CrowdWatch(cast("Any", board), settings, directory, clock, new_incarnation())


class Processes:
    """Some that look, as all do."""

    def __init__(self, clock: SimulatedClock, board: Board, number: int) -> None:
        self._clock = clock
        self.troubles = Troubles(clock, lambda _: None)
        self.running = [
            asyncio.create_task(self._run(board, Directory(board, clock, {})))
            for _ in range(number)
        ]

    async def _run(self, board: Board, directory: Directory) -> None:
        watch = watch_of(self._clock, board, directory)
        chores = Chores(self._clock, self.troubles)
        crowding = every("crowding", watch.run_once, self._clock, LOOK_SECONDS, yields=True)
        tenants = every("tenants", directory.load, self._clock, TENANT_SECONDS)
        await asyncio.gather(chores.run(crowding), chores.run(tenants))

    async def end(self) -> None:
        for each in self.running:
            each.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


@pytest.mark.parametrize("took", [0.001, 0.3, 1.0, 3.0, 5.0, 12.0, 60.0])
async def test_refusals_hold_without_gaps_and_one_process_says_them(took: float) -> None:
    clock = SimulatedClock()
    board = Board(clock, took)
    processes = Processes(clock, board, 3)
    while board.said_at < 0:
        await clock.step()
    began, looks = clock.at, len(board.looks)
    while clock.at < began + 300:
        await clock.step()
        assert clock.at < board.said_at + SAID_SECONDS
    await processes.end()
    assert len(board.holders) == 1
    assert (len(board.looks) - looks) * took <= 300 * max(1 / 20, took / (took + 5)) + took


async def test_refusals_hold_while_what_waits_cannot_be_counted() -> None:
    clock = SimulatedClock()
    board = Board(clock, 5.0)
    processes = Processes(clock, board, 3)
    while board.said_at < 0:
        await clock.step()
    began, board.exhausted = clock.at, True
    while clock.at < began + 300:
        await clock.step()
        assert clock.at < board.said_at + SAID_SECONDS
    await processes.end()
    assert len(board.holders) == 1


async def test_another_process_takes_over_while_refusals_hold() -> None:
    clock = SimulatedClock()
    board = Board(clock, 0.1)
    processes = Processes(clock, board, 2)
    while board.said_at < 0:
        await clock.step()
    processes.running[0].cancel()
    while clock.at < 60:
        await clock.step()
        assert clock.at < board.said_at + SAID_SECONDS + LOOK_SECONDS + board.took
    await processes.end()
    assert len(board.holders) == 2


@pytest.mark.parametrize("fails", [False, True])
async def test_refusals_hold_while_who_takes_over_has_not_counted(*, fails: bool) -> None:
    clock = SimulatedClock()
    board = Board(clock, 12.0)
    processes = Processes(clock, board, 2)
    while board.said_at < 0:
        await clock.step()
    processes.running[0].cancel()
    began, board.exhausted = clock.at, fails
    while clock.at < began + 120:
        await clock.step()
        assert clock.at < board.said_at + SAID_SECONDS
    await processes.end()
    assert len(board.holders) == 2


async def test_a_look_that_fails_is_rested_from_as_well() -> None:
    clock = SimulatedClock()
    board = Board(clock, 5.0)
    board.exhausted = True
    processes = Processes(clock, board, 1)
    while clock.at < 100:
        await clock.step()
    await processes.end()
    assert len(board.looks) >= 5
    assert all(later - look >= 10.0 for look, later in pairwise(board.looks))
    (trouble,) = processes.troubles.all()
    assert trouble.count >= len(board.looks) - 1
