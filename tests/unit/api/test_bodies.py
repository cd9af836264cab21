"""Bodies hold what has arrived of them, arrive in time, and give everything back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.api.http.answers.problems import NoRoom, TooManyBodies
from gnomon.api.http.bounds.bodies import SMALL_BYTES, Bodies, Body
from gnomon.clock import SystemClock

MIB = 1024 * 1024
LARGEST = 8 * MIB
REQUESTS = 8


def bodies(**settings: Any) -> Bodies:
    """A quarter of 32 MiB for small ones, 24 MiB for large ones."""
    chosen = {
        "api_body_memory_bytes": 32 * MIB,
        "api_max_batch_bytes": LARGEST,
        "api_body_seconds": 60.0,
    }
    return Bodies(settings_with(**(chosen | settings)), SystemClock(), REQUESTS)


@asynccontextmanager
async def reading(
    of: Bodies, tenant: str, total: int, arrived: int
) -> AsyncIterator["asyncio.Task[Body]"]:
    """A task that has read so much of a body, once there is room for it, and waits for more."""

    async def read() -> Body:
        body = of.begin(tenant, total)
        try:
            left = arrived
            while left:
                part = min(left, SMALL_BYTES)
                left -= part
                of.arrived(body, part)
                await of.room(body, part)
            if arrived == total:
                of.complete(body)
            had_room.set()
            await asyncio.Event().wait()
        finally:
            of.give_back(body)
        return body

    had_room = asyncio.Event()
    task = asyncio.ensure_future(read())
    try:
        await asyncio.wait([task, waited := asyncio.ensure_future(had_room.wait())], timeout=0.05)
        waited.cancel()
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def no_more_held(of: Bodies) -> Callable[[], Any]:
    async def look() -> bool:
        return of.held_bytes == 0

    return look


async def test_what_is_only_announced_holds_nothing() -> None:
    of = bodies()
    async with reading(of, "a", LARGEST, 0), reading(of, "a", LARGEST, 100):
        assert of.held_bytes == 100
    assert of.held_bytes == 0


async def test_what_grows_large_is_admitted_as_a_whole() -> None:
    of = bodies()
    async with reading(of, "a", LARGEST, SMALL_BYTES):
        assert of.held_bytes == SMALL_BYTES
    async with reading(of, "a", LARGEST, SMALL_BYTES + 1):
        assert of.held_bytes == LARGEST
    assert of.held_bytes == 0


async def test_one_whose_size_was_not_known_keeps_what_it_brought() -> None:
    of = bodies()

    async def read() -> None:
        body = of.begin("a", LARGEST)
        for _ in range(2):
            of.arrived(body, SMALL_BYTES)
            await of.room(body, SMALL_BYTES)
        assert of.held_bytes == LARGEST
        of.complete(body)
        assert of.held_bytes == 2 * SMALL_BYTES
        of.give_back(body)
        of.give_back(body)

    await asyncio.create_task(read())
    assert of.held_bytes == 0


async def test_large_ones_keep_no_small_ones_out() -> None:
    of = bodies()
    async with (
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST) as fourth,
    ):
        assert of.held_bytes == 3 * LARGEST + SMALL_BYTES
        assert not fourth.done()
        small = of.begin("a", 100)
        assert of.take_small(small, 100)
        of.give_back(small)
    assert of.held_bytes == 0


async def test_what_finds_no_room_is_told_so() -> None:
    of = bodies(api_body_seconds=0.2)
    async with (
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST) as fourth,
    ):
        with pytest.raises(NoRoom):
            await fourth
        assert of.held_bytes == 3 * LARGEST, "it waits for nothing any more, and holds nothing"
    assert of.held_bytes == 0


async def test_with_authentication_no_tenant_takes_all() -> None:
    of = bodies(auth_enabled=True)
    async with (
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST) as second,
        reading(of, "b", LARGEST, LARGEST),
    ):
        assert of.held_bytes == 2 * LARGEST + SMALL_BYTES
        assert not second.done()


async def test_slow_ones_give_way_to_whoever_waits() -> None:
    of = bodies(api_body_seconds=5.0)  # a slow one has a fifth of that
    async with (
        reading(of, "a", LARGEST, SMALL_BYTES + 1) as slow,
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
    ):
        with pytest.raises(asyncio.CancelledError):
            await slow

        async def all_in() -> bool:
            return of.held_bytes == 3 * LARGEST

        await eventually(all_in)


async def test_late_ones_end_and_each_mebibyte_has_its_time() -> None:
    of = bodies(api_body_seconds=1.0)
    async with reading(of, "a", LARGEST, 10) as late:
        with pytest.raises(asyncio.CancelledError):
            await late
    await eventually(no_more_held(of))

    async def steady() -> None:
        body = of.begin("a", 6 * MIB)
        for _ in range(6):
            await asyncio.sleep(0.2)  # all of it takes longer than one may, none of them does
            of.arrived(body, MIB)
            await of.room(body, MIB)
        of.complete(body)
        of.give_back(body)

    await asyncio.create_task(steady())
    assert of.held_bytes == 0


async def test_whoever_is_cancelled_while_waiting_leaves_the_line() -> None:
    of = bodies()
    async with (
        reading(of, "a", LARGEST, LARGEST) as first,
        reading(of, "a", LARGEST, LARGEST),
        reading(of, "a", LARGEST, LARGEST),
    ):
        async with reading(of, "a", LARGEST, LARGEST):
            pass
        async with reading(of, "a", LARGEST, LARGEST) as next_one:
            first.cancel()
            await asyncio.wait([first])

            async def has_room() -> bool:
                return of.held_bytes == 3 * LARGEST

            await eventually(has_room)
            assert not next_one.done()
    assert of.held_bytes == 0


async def test_no_tenant_has_more_than_its_share_of_bodies_that_arrive() -> None:
    of = bodies(auth_enabled=True)
    async with AsyncExitStack() as stack:
        for _ in range(REQUESTS // 2):
            await stack.enter_async_context(reading(of, "a", 100, 0))  # they hold no bytes
        async with reading(of, "a", 100, 0) as refused:
            with pytest.raises(TooManyBodies):
                await refused
        other = of.begin("b", 100)
        assert of.take_small(other, 100)
        of.give_back(other)
    async with reading(of, "a", 100, 0) as again:
        assert not again.done(), "their places came back"


async def test_bodies_that_wait_for_room_arrive_still_and_whole_ones_do_not() -> None:
    of = bodies(auth_enabled=True)
    async with AsyncExitStack() as stack:
        for _ in range(REQUESTS):  # one is there and holds the share, the others wait for it
            await stack.enter_async_context(reading(of, "a", LARGEST, LARGEST))
        async with reading(of, "a", 100, 0) as refused:
            with pytest.raises(TooManyBodies):
                await refused
    async with AsyncExitStack() as stack:
        for _ in range(2 * REQUESTS):
            await stack.enter_async_context(reading(of, "a", 100, 100))
        assert of.held_bytes == 2 * REQUESTS * 100


async def test_without_authentication_nobody_else_needs_the_places() -> None:
    of = bodies()
    async with AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(reading(of, "a", 100, 0)) for _ in range(REQUESTS)
        ]
        assert not any(reader.done() for reader in readers)
