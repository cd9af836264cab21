"""The contract of links through brokers, as tests: derive from `LinkContract` and give it a link.

    class TestMine(LinkContract):
        def make_link(self, channel, end):
            return MyLink(settings, channel, clock, end)

The tests are coroutines: run them with pytest-asyncio or the like, in its auto mode.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress

from gnomon.clock import SystemClock
from gnomon.pipe.meeting.frames import LARGEST_MESSAGE, gateway_channel, worker_channel
from gnomon.pipe.meeting.link import LinkEnd, MessageTooLarge, PipeLink, PipeUnavailable

_PATIENCE = 30.0


class RecordingEnd:
    """Keeps what its link tells."""

    def __init__(self, *, is_gateway: bool) -> None:
        self.is_gateway = is_gateway
        self.largest_tried = not is_gateway
        self.connected = asyncio.Event()
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.beats: asyncio.Queue[str] = asyncio.Queue()
        self.told_gone: asyncio.Queue[str] = asyncio.Queue()
        self.watching: set[str] = set()

    def ready(self) -> None:
        self.connected.set()

    def hear(self, frame: bytes) -> None:
        self.heard.put_nowait(frame)

    def beaten(self, gateway: str) -> None:
        self.beats.put_nowait(gateway)

    def watched(self) -> Collection[str]:
        return set(self.watching)

    def gone(self, channels: Collection[str]) -> None:
        for channel in channels:
            self.watching.discard(channel)
            self.told_gone.put_nowait(channel)


class LinkContract:
    """Two ends of a broker that works."""

    namespace = "contract"
    clock = SystemClock()
    tells_at_once = True  # whether anybody has received a message; declared by each broker

    def make_link(self, channel: str, end: LinkEnd) -> PipeLink:
        """A new link, which nobody runs yet."""
        raise NotImplementedError

    @asynccontextmanager
    async def connected(
        self, name: str, *, gateway: bool
    ) -> AsyncIterator[tuple[PipeLink, RecordingEnd]]:
        """An end that listens, until it is left."""
        end = RecordingEnd(is_gateway=gateway)
        named = gateway_channel if gateway else worker_channel
        link = self.make_link(named(self.namespace, name), end)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(link.run())
            async with asyncio.timeout(_PATIENCE):
                await end.connected.wait()
            yield link, end
            running.cancel()

    async def test_frames_are_heard_by_the_channel_that_they_are_for(self) -> None:
        async with (
            self.connected("g", gateway=True) as (gateway, asked),
            self.connected("w", gateway=False) as (worker, answered),
            self.connected("v", gateway=False) as (_, other),
            asyncio.timeout(_PATIENCE),
        ):
            frames = [str(number).encode() for number in range(500)]
            assert all([await worker.publish(gateway.channel, each) for each in frames])
            assert [await asked.heard.get() for _ in frames] == frames
            assert await gateway.publish(worker.channel, b"answer")
            assert await answered.heard.get() == b"answer"
            gateway.offer(worker.channel, b"offered")
            assert await answered.heard.get() == b"offered"
            assert other.heard.empty()

    async def test_the_largest_frames_are_carried(self) -> None:
        async with (
            self.connected("g", gateway=True) as (gateway, asked),
            self.connected("w", gateway=False) as (worker, _),
            asyncio.timeout(_PATIENCE),
        ):
            assert await worker.publish(gateway.channel, b"x" * LARGEST_MESSAGE)
            assert len(await asked.heard.get()) == LARGEST_MESSAGE

    async def test_what_is_too_large_hurts_nobody_else(self) -> None:
        async with (
            self.connected("g", gateway=True) as (gateway, asked),
            self.connected("w", gateway=False) as (worker, _),
            asyncio.timeout(_PATIENCE),
        ):
            refused = False
            try:
                await worker.publish(gateway.channel, b"x" * (LARGEST_MESSAGE + 1))
            except MessageTooLarge:
                refused = True
            assert refused
            assert await worker.publish(gateway.channel, b"small")
            assert await asked.heard.get() == b"small"

    async def test_gateways_are_found_and_beat(self) -> None:
        async with self.connected("first", gateway=True):
            pass  # it has made what workers need
        async with asyncio.timeout(_PATIENCE), self.connected("w", gateway=False) as (worker, end):
            while await worker.gateways():
                await self.clock.sleep(0.1)
            async with (
                self.connected("g", gateway=True) as (one, _),
                self.connected("h", gateway=True) as (other, _),
            ):
                expected = sorted([one.channel, other.channel])
                while await worker.gateways() != expected:
                    await end.beats.get()
                heard = {await end.beats.get() for _ in range(4)}
                assert heard == set(expected)
            async with self.connected("v", gateway=False) as (late, _):
                while await late.gateways():
                    await self.clock.sleep(0.1)

    async def test_whoever_watches_is_told_who_has_gone(self) -> None:
        async with (
            asyncio.timeout(_PATIENCE),
            self.connected("g", gateway=True) as (gateway, asked),
            self.connected("v", gateway=False) as (stays, still),
        ):
            still.watching = {gateway.channel}
            async with self.connected("w", gateway=False) as (worker, watching):
                watching.watching = {gateway.channel}
                assert await worker.publish(gateway.channel, b"call")
                assert await asked.heard.get() == b"call"
                asked.watching = {worker.channel, stays.channel}
            assert await asked.told_gone.get() == worker.channel
            if self.tells_at_once:
                assert not await gateway.publish(worker.channel, b"answer")
            assert asked.watching == {stays.channel}
            assert still.told_gone.empty()

    async def test_a_link_that_has_ended_sends_nothing(self) -> None:
        async with self.connected("g", gateway=True) as (gateway, _):
            pass
        for asked in (gateway.publish(gateway.channel, b"call"), gateway.gateways()):
            with suppress(PipeUnavailable):
                await asked
                raise AssertionError("it has ended")
        gateway.offer(gateway.channel, b"call")

    async def test_whoever_sends_as_it_ends_does_not_wait_for_ever(self) -> None:
        for steps in range(6):
            async with self.connected(f"g{steps}", gateway=True) as (gateway, _):
                loop = asyncio.get_running_loop()
                sent = [loop.create_task(gateway.publish(gateway.channel, b"c")) for _ in range(9)]
                for _ in range(steps):
                    await self.clock.sleep(0)
            _, waiting = await asyncio.wait(sent, timeout=_PATIENCE)
            assert not waiting
            for each in sent:
                assert each.exception() is None or isinstance(each.exception(), PipeUnavailable)

    async def test_it_can_be_ended_at_any_moment_while_it_connects(self) -> None:
        async with self.connected("first", gateway=True):
            pass
        for steps in range(0, 60, 3):
            end = RecordingEnd(is_gateway=False)
            link = self.make_link(worker_channel(self.namespace, f"c{steps}"), end)
            async with asyncio.timeout(_PATIENCE), asyncio.TaskGroup() as group:
                running = group.create_task(link.run())
                for _ in range(steps):
                    await self.clock.sleep(0)
                running.cancel()
