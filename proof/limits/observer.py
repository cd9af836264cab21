"""Takes the calls of the proof in a thread of its own, and counts how many of each bucket are under
way whenever one begins or ends."""

import asyncio
import threading
import time
from collections import Counter, defaultdict
from typing import NamedTuple

import msgspec
from aiohttp import web


class Asked(msgspec.Struct):
    """The body of a call: the buckets that it counts in, and how long it takes."""

    buckets: list[str]
    seconds: float


class Sample(NamedTuple):
    """How many of a bucket were under way at a moment."""

    at: float  # seconds since the epoch
    number: int


class Observer:
    """A real server. One whose caller is gone has ended."""

    def __init__(self) -> None:
        self.url = ""
        self.samples: dict[str, list[Sample]] = defaultdict(list)
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.looks = 0  # calls that began or ended
        self._under_way: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._started, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = web.Server(self._receive, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _receive(self, request: web.BaseRequest) -> web.Response:
        asked = msgspec.json.decode(await request.read(), type=Asked)
        self._look(asked.buckets, 1)
        try:
            await asyncio.sleep(asked.seconds)
        finally:
            self._look(asked.buckets, -1)
        return web.Response()

    def _look(self, buckets: list[str], change: int) -> None:
        now = time.time()
        self.looks += 1
        for bucket in buckets:
            self._under_way[bucket] += change
            self.samples[bucket].append(Sample(now, self._under_way[bucket]))
            if change > 0:
                self.starts[bucket].append(now)
