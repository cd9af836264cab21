"""The reports of a pipe that wait to be written."""

import asyncio
from collections import deque

from gnomon.pipe.envelope import Report

_NOBODY = 1 << 62  # more than ever wait
_LONGEST_PAUSE = 0.3  # seconds


class ReportQueue:
    """Oldest first. Several may read: each says how many it waits for. A pause ends by itself, as
    soon as somebody has read once: whatever becomes of whoever wanted it, reports are read."""

    def __init__(self) -> None:
        self._waiting: deque[Report] = deque()
        self._readers: list[tuple[int, asyncio.Future[None]]] = []
        self._least = _NOBODY  # that any of them waits for
        self._paused = False
        self._loop: asyncio.AbstractEventLoop | None = None  # of those who read
        self._end_of_pause: asyncio.TimerHandle | None = None

    def put(self, report: Report) -> None:
        self._waiting.append(report)
        if len(self._waiting) >= self._least and not self._paused:
            self._wake()

    def pause(self) -> None:
        """Let nobody read until they are to go on; but not for long."""
        self._paused = True
        self._limit_pause()

    def _limit_pause(self) -> None:
        if self._loop is not None and self._end_of_pause is None:
            self._end_of_pause = self._loop.call_later(_LONGEST_PAUSE, self.resume)

    def resume(self) -> None:
        if self._end_of_pause is not None:
            self._end_of_pause.cancel()
            self._end_of_pause = None
        if self._paused:
            self._paused = False
            self._wake()

    async def take(self, most: int, least: int = 1) -> list[Report]:
        """At least `least` of them, up to `most`."""
        self._loop = asyncio.get_running_loop()
        while self._paused or len(self._waiting) < least:
            if self._paused:
                self._limit_pause()
            reader = self._loop.create_future()
            self._readers.append((least, reader))
            self._least = min(self._least, least)
            try:
                await reader
            finally:
                self._leave(reader)
            if len(self._waiting) >= least:
                break  # it was told to read, and another pause may have begun since
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
