"""A fixed number of coroutines that serve, whatever becomes of any one of them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from gnomon.clock import Clock

log = structlog.get_logger("gnomon.node.run")

Serve = Callable[[], Coroutine[Any, Any, None]]


class SlotPool:
    """Owns the slots like a task group, but one that hangs can be replaced. Nothing waits for
    those that were, and at the end for nobody longer than `patience`."""

    def __init__(self, serve: Serve, count: int, clock: Clock, patience: float) -> None:
        self._serve = serve
        self._count = count
        self._clock = clock
        self._patience = patience
        self._serving: set[asyncio.Task[None]] = set()
        self._replaced: set[asyncio.Task[None]] = set()  # kept, or they would be collected
        self.ending = False  # the slots were told to stop by their owner, and not from within
        self._empty = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled. Raises what a slot has died of."""
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for _ in range(self._count):
            self._add()
        try:
            await self._broken
        finally:
            self.ending = True
            for slot in self._serving:
                slot.cancel()
            if self._serving:
                await self._clock.wait(self._empty, self._patience)

    def replace(self, slot: "asyncio.Task[None]") -> None:
        """Leave this one to its fate, and have another in its place."""
        self._serving.discard(slot)
        self._replaced.add(slot)
        self._make_up()

    def _add(self) -> None:
        slot = asyncio.get_running_loop().create_task(self._serve())
        slot.add_done_callback(self._ended)
        self._serving.add(slot)

    def _ended(self, slot: "asyncio.Task[None]") -> None:
        error = None if slot.cancelled() else slot.exception()
        if slot in self._replaced:
            self._replaced.discard(slot)
            return
        self._serving.discard(slot)
        if error is not None and not self._broken.done():
            log.error("a slot has died, and the node ends with it", why=str(error))
            self._broken.set_exception(error)
        else:
            self._make_up()  # its handler has cancelled it, unless this is the end

    def _make_up(self) -> None:
        """For one slot less."""
        if not self.ending:
            self._add()
        elif not self._serving:
            self._empty.set()
