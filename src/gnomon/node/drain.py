"""Stops a node: lets running tasks end, and releases the rest."""

import structlog

from gnomon.clock import Clock
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.workers import Workers

log = structlog.get_logger("gnomon.node")

_INTERRUPTED_SECONDS = 5.0  # for what was interrupted at the end of the drain
_LAST_SECONDS = 1.0  # to settle what ignores even that


class Drain:
    """Stops claiming at once, and waits up to `seconds` for what runs."""

    def __init__(self, held: HeldTasks, worker: Workers, clock: Clock, seconds: float) -> None:
        self._held = held
        self._worker = worker
        self._clock = clock
        self._seconds = seconds

    @property
    def held(self) -> int:
        """Tasks that are claimed and not settled."""
        return len(self._held.fences)

    async def run(self) -> None:
        self._held.stopped = True
        deadline = self._clock.monotonic() + self._seconds
        while True:
            self._worker.drain()  # again and again: a claim under way brings more
            under_way = self._held.claiming.locked() or self._held.taking.locked()
            busy = self._held.fences or under_way
            if not busy or self._clock.monotonic() >= deadline:
                break
            await self._clock.sleep(0.02)
        if self._held.fences:
            log.warning("interrupting tasks at the end of the drain", count=len(self._held.fences))
            self._worker.interrupt_all("the node shut down before the execution ended")
            await self._settled_within(_INTERRUPTED_SECONDS)
            self._worker.give_up_hung(at_once=True)
            await self._settled_within(_LAST_SECONDS)

    async def _settled_within(self, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while self._held.fences and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.02)
