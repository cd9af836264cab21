"""The pipe of a node that runs its own workers: two queues in memory."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice

from gnomon.pipe.envelope import Delivery, Report


class MemoryPipe:
    """`Pipe` within one event loop. `slots` and `prefetch` bound what is claimed and not settled.

    Prefetching pays while slots become free by the dozen. Where they stay busy, it would only keep
    tasks from other nodes: so `pace` cuts it down to what has ended lately.
    """

    def __init__(self, slots: int, on_room: Callable[[], None], prefetch: int = 0) -> None:
        self._slots = slots
        self._prefetch = prefetch
        self._ahead = prefetch
        self._ended = 0
        self._on_room = on_room
        self._outstanding = 0
        self._deliveries: deque[Delivery] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._reports: deque[Report] = deque()
        self._reported = asyncio.Event()

    def room(self) -> int:
        return self._slots + self._ahead - self._outstanding

    def urgent_room(self) -> int:
        return self.room()

    def free(self) -> int:
        return max(0, self._slots - self._outstanding)

    def pace(self) -> None:
        busy = self._outstanding >= self._slots
        self._ahead = min(self._prefetch, self._ended) if busy else self._prefetch
        self._ended = 0

    def send(self, deliveries: Sequence[Delivery]) -> None:
        self._outstanding += len(deliveries)
        self._deliveries.extend(deliveries)
        for _ in range(len(deliveries)):
            if not self._wake_one():
                break

    async def receive(self) -> Delivery:
        while not self._deliveries:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            try:
                await idle
            except asyncio.CancelledError:
                # The wake-up that reached this slot belongs to another one now.
                if idle.done() and not idle.cancelled() and self._deliveries:
                    self._wake_one()
                raise
        return self._deliveries.popleft()

    def unsent(self) -> list[Delivery]:
        taken = list(self._deliveries)
        self._deliveries.clear()
        return taken

    def late(self, now: datetime) -> list[Delivery]:
        late = []
        while self._deliveries and self._deliveries[0].start_by < now:  # the oldest claim first
            late.append(self._deliveries.popleft())
        return late

    def report(self, report: Report) -> None:
        self._reports.append(report)
        if report.outcome is not None:
            self._ended += 1
        self._reported.set()

    async def reports(self, most: int) -> list[Report]:
        await self._reported.wait()
        batch = list(islice(self._reports, most))
        for _ in batch:
            self._reports.popleft()
        if not self._reports:
            self._reported.clear()
        return batch

    def settled(self, count: int) -> None:
        self._outstanding -= count
        self._on_room()

    def _wake_one(self) -> bool:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return True
        return False
