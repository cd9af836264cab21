"""Slows down refusals of requests without a valid key.

Checking a wrong key costs little, but not nothing, and a client that guesses keys sends the next
one as soon as the last is refused. So refusals beyond a number a second wait. Valid keys never do.
"""

from gnomon.clock import Clock

REFUSALS_A_SECOND = 200.0  # a fiftieth of the time that a process has
AT_ONCE_SECONDS = 1.0  # the refusals of so many seconds are answered at once after a pause
DROPPED_A_SECOND = 64 * 1024 * 1024  # bytes, which take a tenth of the time that a process has
MOST_SECONDS = 5.0
MOST_WAITING = 5_000  # more waiters would cost more than their answers


class Refusals:
    """Paces the refusals of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_at = clock.monotonic() - AT_ONCE_SECONDS  # as if the last one was then
        self._waiting = 0

    def may_drop(self, size: int) -> bool:
        """Whether there is time to read and drop so many bytes of a refused request. If so, they
        are counted, and the refusals after it wait longer."""
        now = self._clock.monotonic()
        if self._next_at > now:
            return False
        next_at = max(self._next_at, now - AT_ONCE_SECONDS) + size / DROPPED_A_SECOND
        self._next_at = min(next_at, now + MOST_SECONDS)
        return True

    async def wait(self) -> None:
        """Returns when the next request may be refused."""
        now = self._clock.monotonic()
        next_at = max(self._next_at, now - AT_ONCE_SECONDS) + 1 / REFUSALS_A_SECOND
        self._next_at = min(next_at, now + MOST_SECONDS)
        if self._next_at <= now or self._waiting >= MOST_WAITING:
            return
        self._waiting += 1
        try:
            await self._clock.sleep(self._next_at - now)
        finally:
            self._waiting -= 1
