"""The clock that stands still until it is set."""

import asyncio
from datetime import UTC, datetime, timedelta

from gnomon.testing.virtual_clock import VirtualClock, whole_milliseconds

START = datetime(2026, 3, 1, tzinfo=UTC)


async def test_it_stands_still_and_never_goes_back() -> None:
    clock = VirtualClock(START)
    await asyncio.sleep(0)
    assert clock.now() == START
    clock.set(START + timedelta(days=30))
    clock.set(START)
    assert clock.now() == START + timedelta(days=30)
    assert clock.seconds() == clock.now().timestamp()


async def test_it_wakes_sleepers_whose_time_has_come_and_no_others() -> None:
    clock = VirtualClock(START)
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleep("in a day", 86400.0))
        group.create_task(sleep("in an hour", 3600.0))
        never = group.create_task(sleep("never", 1e9))
        await asyncio.sleep(0)
        clock.set(START + timedelta(hours=1))
        await asyncio.sleep(0)
        assert woken == ["in an hour"]
        clock.set(START + timedelta(days=2))
        await asyncio.sleep(0)
        assert woken == ["in an hour", "in a day"]
        never.cancel()


async def test_a_wait_ends_by_its_event_or_by_the_clock() -> None:
    clock, event = VirtualClock(START), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        by_clock = group.create_task(clock.wait(event, 60.0))
        await asyncio.sleep(0.01)
        clock.set(START + timedelta(minutes=1))
        assert await by_clock is False
        by_event = group.create_task(clock.wait(event, 60.0))
        event.set()
        assert await by_event is True


def test_moments_are_rounded_up_to_what_the_wheel_counts_in() -> None:
    assert whole_milliseconds(START) == START
    just_after = START + timedelta(microseconds=1)
    assert whole_milliseconds(just_after) == START + timedelta(milliseconds=1)
