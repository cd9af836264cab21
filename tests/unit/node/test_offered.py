"""What is offered of a herd is followed whatever the store keeps waiting."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from tests.waiting import eventually

from gnomon.chores import Chores, Troubles
from gnomon.clock import SystemClock
from gnomon.node.dispatch.early_starts import EarlyStarts
from gnomon.node.signals import Signals
from gnomon.observe.events import nobody
from gnomon.pipe.envelope import Delivery, FencedKey
from gnomon.pipe.memory import MemoryPipe
from gnomon.store.ports.dispatch import Entry, Recalls
from gnomon.testing.contracts.pipe import a_delivery

SLOTS = 10


async def at_once() -> None:
    """Keep nobody waiting."""


class Answers:
    """Says that the time of all has come. `number`: what was taken back so far."""

    def __init__(self, clock: SystemClock) -> None:
        self.clock = clock
        self.number = 0
        self.asked = 0
        self.before_answer: Callable[[], Awaitable[object]] = at_once

    async def recalls(self) -> Recalls:
        self.asked += 1
        await self.before_answer()
        return Recalls(self.clock.seconds(), self.number)

    async def begin(self, claimed: Sequence[Delivery]) -> set[FencedKey]:
        await self.before_answer()
        return {(d.key, d.fence) for d in claimed}


class NoClaims:
    """Nothing is claimed here; as the claimer and as whoever is told of what was taken back."""

    claims = None

    @property
    def requeue(self) -> "NoClaims":
        return self

    def hinted(self, entries: Sequence[Entry]) -> None:
        assert not entries


class World:
    def __init__(self) -> None:
        self.monotonic: float | None = None  # of the machine
        machine = SystemClock().monotonic
        self.clock = SystemClock(lambda: self.monotonic or machine())
        self.answers = Answers(self.clock)
        self.pipe = MemoryPipe(SLOTS, lambda: None, prefetch=SLOTS, settling=4)
        self.troubles = Troubles(self.clock, nobody)
        store, claimer = cast("Any", self.answers), cast("Any", NoClaims())
        self.early = EarlyStarts(store, claimer, self.pipe, self.clock, self.troubles, nobody)

    def hold(self, count: int, first: int = 0, seconds: float = 0.0) -> None:
        """So many that start so many seconds from now."""
        at, numbers = self.clock.seconds() + seconds, range(first, first + count)
        times = {"not_before": at, "start_by": at + 60}
        self.pipe.hold([msgspec.structs.replace(a_delivery(n), **times) for n in numbers])
        self.early.holds.set()


async def test_what_no_slot_takes_goes_back_though_the_store_does_not_answer_for_others() -> None:
    world, never = World(), asyncio.Event()
    chores = Chores(world.clock, world.troubles)
    claim, *services = world.early.services(Signals())
    assert claim.name == "claim-early"

    async def all_gone() -> bool:
        return world.answers.asked == 2 and not world.pipe.offered()

    async def answer_once() -> None:
        if world.answers.asked > 1:
            await never.wait()

    world.answers.before_answer = answer_once
    world.hold(100)
    world.hold(40, first=1000, seconds=0.01)
    running = [asyncio.ensure_future(chores.run(service)) for service in services]
    await eventually(all_gone)
    async with asyncio.timeout(20):
        assert await world.pipe.reports(1000)
    for each in running:
        each.cancel()
    await asyncio.wait(running)


async def test_what_is_offered_in_parts_goes_back_in_time_as_well() -> None:
    world = World()
    world.monotonic = 1000.0
    world.hold(1500)
    world.answers.number = 1  # so each is asked for
    given: list[int] = []

    async def wait() -> None:
        assert world.monotonic is not None
        world.monotonic += 0.16
        given.append(world.early.follow())

    world.answers.before_answer = wait
    await world.early.start()
    assert given[:3] == [0, 0, 0]  # the number, and two parts: 0.16 s after the first was offered
    assert given[3] > 0


async def test_more_that_comes_is_no_start() -> None:
    world = World()
    world.monotonic = 1000.0
    world.hold(100)
    await world.early.start()
    given = 0
    for number in range(8):
        world.monotonic += 0.006
        world.pipe.send([a_delivery(1000 + number)])
        given += world.early.follow()
    assert given > 0
