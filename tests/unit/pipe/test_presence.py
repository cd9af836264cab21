"""Who is there, by rounds."""

import asyncio

from gnomon.clock import SystemClock
from gnomon.pipe.meeting.presence import MOST, KnownGateways, Presence


def test_whoever_is_silent_for_so_many_rounds_is_forgotten() -> None:
    present = Presence(2)
    present.heard("b")
    present.heard("a")
    present.next_round()
    assert present.all() == ["a", "b"]
    present.heard("b")
    present.next_round()
    assert present.all() == ["b"]
    assert "a" not in present


def test_the_oldest_are_forgotten_where_there_are_too_many() -> None:
    present = Presence(2)
    for number in range(MOST + 1):
        present.heard(str(number))
    assert "0" not in present
    assert str(MOST) in present


async def test_gateways_are_waited_for_until_each_had_time_to_beat() -> None:
    gateways = KnownGateways(3)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gateways.known(20.0))
        gateways.heard("a")
        group.create_task(gateways.acquaint(SystemClock()))
        gateways.heard("b")
    assert asked.result() == ["a", "b"]


async def test_whoever_waits_for_gateways_is_let_go_at_the_end() -> None:
    gateways = KnownGateways(3)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gateways.known(20.0))
        gateways.close()
    assert asked.result() == []
