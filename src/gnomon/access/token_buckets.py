"""Token buckets: a rate a second, and a burst at once. Pure."""

from collections.abc import Hashable

MOST_DEBT_SECONDS = 5.0  # a bucket from which more was charged than it held has one after that
_ROUNDING = 1e-9  # seconds that adding fractions of them may be wrong by


class TokenBuckets:
    """A bucket of tokens for each key, of which `rate` come back in a second, up to `burst`.

    A full bucket is one that nobody remembers. Of the others the `most` that were used last are
    remembered, so that no number of keys takes more memory than that.
    """

    def __init__(self, rate: float, burst: float, most: int) -> None:
        self._rate = rate
        self._at_once = burst / rate  # in seconds
        self._most = most
        self._full_at: dict[Hashable, float] = {}  # used last is last

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: Hashable, now: float) -> float:
        """Take a token; returns the seconds to wait for one, or 0 where it was taken."""
        full_at = max(self._full_at.get(key, now), now) + 1 / self._rate
        wait = full_at - now - self._at_once
        if wait > _ROUNDING:
            return wait
        self._remember(key, full_at)
        return 0.0

    def charge(self, key: Hashable, now: float, tokens: float) -> None:
        """Take tokens, even where the bucket has too few; a negative number returns them."""
        full_at = max(self._full_at.get(key, now), now) + tokens / self._rate
        self._remember(key, min(full_at, now + self._at_once + MOST_DEBT_SECONDS))

    def _remember(self, key: Hashable, full_at: float) -> None:
        self._full_at.pop(key, None)
        self._full_at[key] = full_at
        if len(self._full_at) > self._most:
            del self._full_at[next(iter(self._full_at))]
