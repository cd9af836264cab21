"""The reports of a pipe that wait to be written."""

import asyncio
from collections import deque

from gnomon.pipe.envelope import Report

_NOBODY = 1 << 62  # more than ever wait


class ReportQueue:
    """Oldest first. Several may read: each says how many it waits for."""

    def __init__(self) -> None:
        self._waiting: deque[Report] = deque()
        self._readers: list[tuple[int, asyncio.Future[None]]] = []
        self._least = _NOBODY  # that any of them waits for
        self._paused = False

    def put(self, report: Report) -> None:
        self._waiting.append(report)
        if len(self._waiting) >= self._least and not self._paused:
            self._wake()

    def pause(self) -> None:
        """Let nobody read until they are to go on."""
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._wake()

    async def take(self, most: int, least: int = 1) -> list[Report]:
        """At least `least` of them, up to `most`."""
        while self._paused or len(self._waiting) < least:
            reader = asyncio.get_running_loop().create_future()
            self._readers.append((least, reader))
            self._least = min(self._least, least)
            try:
                await reader
            finally:
                self._leave(reader)
        if len(self._waiting) <= most:
            batch = list(self._waiting)
            self._waiting.clear()
            return batch
        return [self._waiting.popleft() for _ in range(most)]

    def _wake(self) -> None:
        found = len(self._waiting)
        for least, reader in self._readers:
            if least <= found and not reader.done():
                reader.set_result(None)
        self._readers = [each for each in self._readers if not each[1].done()]
        self._least = min((least for least, _ in self._readers), default=_NOBODY)

    def _leave(self, reader: "asyncio.Future[None]") -> None:
        """One that was cancelled; those that were woken have left."""
        if not reader.done() or reader.cancelled():
            self._readers = [each for each in self._readers if each[1] is not reader]
            self._least = min((least for least, _ in self._readers), default=_NOBODY)
