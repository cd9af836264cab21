"""Stops a gateway: releases what it has not delivered, and leaves its sessions alive."""

from gnomon.clock import Clock
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.workers import Workers
from gnomon.pipe.http.http_pipe import HttpPipe

_LONGEST_SECONDS = 3.0  # for reports that have come to be written


class GatewayDrain:
    """Stops claiming at once, and waits for what must be written. What sessions run goes on."""

    def __init__(self, held: HeldTasks, worker: Workers, pipe: HttpPipe, clock: Clock) -> None:
        self._held = held
        self._worker = worker
        self._pipe = pipe
        self._clock = clock

    @property
    def held(self) -> int:
        """Tasks that are claimed and not settled."""
        return len(self._held.fences)

    async def run(self) -> None:
        self._held.stopped = True
        deadline = self._clock.monotonic() + _LONGEST_SECONDS
        while True:
            self._worker.drain()  # again and again: a claim under way brings more
            busy = self._held.claiming.locked() or self._pipe.is_busy
            if not busy or self._clock.monotonic() >= deadline:
                return
            await self._clock.sleep(0.01)
