"""The pace at which requests that nobody vouches for are refused.

To find out that a key is wrong costs little, but not nothing, and whoever tries keys can send the
next one as soon as the last one is refused. So beyond a number a second the refusals wait. Good
keys never do.
"""

from gnomon.clock import Clock

REFUSALS_A_SECOND = 200.0  # a fiftieth of the time that a process has
AT_ONCE_SECONDS = 1.0  # so many of them are answered at once, after a quiet time
DROPPED_A_SECOND = 64 * 1024 * 1024  # bytes, which take a tenth of the time that a process has
MOST_SECONDS = 5.0
MOST_WAITING = 5_000  # beyond that, those who wait would cost more than their answers


class Refusals:
    """The refusals of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_at = clock.monotonic() - AT_ONCE_SECONDS  # before it, nobody was refused
        self._waiting = 0

    def may_drop(self, size: int) -> bool:
        """Whether there is time to read that many bytes of a request that is refused, only to drop
        them. If so they count: the refusals after it wait for it."""
        now = self._clock.monotonic()
        if self._next_at > now:
            return False
        next_at = max(self._next_at, now - AT_ONCE_SECONDS) + size / DROPPED_A_SECOND
        self._next_at = min(next_at, now + MOST_SECONDS)
        return True

    async def wait(self) -> None:
        """Returns when it is time for the next one."""
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
