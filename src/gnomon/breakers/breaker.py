"""Circuit breakers: whether calls that mostly fail go on being made. Pure: time is a parameter.

A breaker is closed while calls go well. When too many of the last minute's calls have failed it
opens: nothing is called for a while, then one call, the probe, decides. If it succeeds the breaker
closes and counting starts afresh; if it fails the breaker stays open for as long again.
"""

from collections import deque
from collections.abc import Hashable
from enum import Enum

import msgspec

_SLICES, _SLICE_SECONDS = 12, 5.0
WINDOW_SECONDS = _SLICES * _SLICE_SECONDS
_NEVER = float("-inf")


class Rule(msgspec.Struct, frozen=True):
    """When a breaker opens, and for how long."""

    share: float  # more than this of the calls in the last minute have failed,
    calls: int = 20  # of which there were at least so many,
    lasting: float = 0.0  # at every call of so many seconds
    pause: float = 30.0  # seconds before a probe


HOST_RULE = Rule(share=0.5, pause=30.0)
TENANT_RULE = Rule(share=0.9, lasting=300.0, pause=60.0)


class BreakerChange(Enum):
    """The effect of a call on a breaker."""

    OPENED = "opened"
    STAYED_OPEN = "stayed open"  # the probe failed
    CLOSED = "closed"


class Tally:
    """Calls and failures of the last minute, in slices of five seconds."""

    def __init__(self) -> None:
        self._slices: deque[list[int]] = deque()  # number, calls, failures; the oldest first
        self._last_until = _NEVER  # when the last of them ends
        self.calls = 0
        self.failures = 0

    def add(self, now: float, *, failed: bool, calls: int = 1) -> None:
        if now >= self._last_until:
            number = self._drop_old(now)
            if not self._slices or self._slices[-1][0] < number:
                self._slices.append([number, 0, 0])
            self._last_until = (number + 1) * _SLICE_SECONDS
        last = self._slices[-1]
        last[1] += calls
        self.calls += calls
        if failed:
            last[2] += calls
            self.failures += calls

    def is_empty(self, now: float) -> bool:
        self._drop_old(now)
        return not self._slices

    def clear(self) -> None:
        self._slices.clear()
        self._last_until = _NEVER
        self.calls = self.failures = 0

    def _drop_old(self, now: float) -> int:
        number = int(now // _SLICE_SECONDS)
        while self._slices and self._slices[0][0] <= number - _SLICES:
            _, calls, failures = self._slices.popleft()
            self.calls -= calls
            self.failures -= failures
        if not self._slices:
            self._last_until = _NEVER
        return number


class Breaker:
    """One breaker. Calls are told apart by keys; each is begun at most once at a time."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.tally = Tally()
        self.until: float | None = None  # open at least until then; None: it is closed
        self.probe: Hashable | None = None
        self._probe_until = 0.0
        self._bad_since: float | None = None
        self._counts_from = _NEVER  # calls that began before are not counted

    @property
    def is_open(self) -> bool:
        return self.until is not None

    def admits(self, key: Hashable, now: float, probe_until: float) -> bool:
        """Whether this call may be made; where it is to be the probe, it is from now on, until it
        is recorded or forgone, or `probe_until`, after which nobody waits for it."""
        if self.until is None or self.probe == key:
            return True
        if now < self.until or (self.probe is not None and now < self._probe_until):
            return False
        self.probe, self._probe_until = key, probe_until
        return True

    def next_probe_at(self) -> float:
        """When the next call may be admitted, if nothing ends before; of an open one."""
        assert self.until is not None, "a closed one admits whatever comes"
        return self.until if self.probe is None else max(self.until, self._probe_until)

    def passes(self, key: Hashable) -> bool:
        """Whether a call that was admitted before may still be made."""
        return self.until is None or self.probe == key

    def extend(self, key: Hashable, probe_until: float) -> None:
        """How long the probe can take is known by now."""
        if self.probe == key:
            self._probe_until = probe_until

    def forgo(self, key: Hashable) -> bool:
        """The call was not made, or says nothing; gives whether it was the probe."""
        was_probe = self.probe == key
        if was_probe:
            self.probe = None
        return was_probe

    def record(
        self, key: Hashable, began: float, now: float, *, failed: bool
    ) -> BreakerChange | None:
        """A call has ended. While the breaker is open only the probe's end counts: the others
        began before."""
        if self.until is None:
            return self._count(began, now, failed=failed)
        if not self.forgo(key):
            return None
        if failed:
            self.until = now + self.rule.pause
            return BreakerChange.STAYED_OPEN
        self.until = None
        self.tally.clear()
        self._counts_from = now
        return BreakerChange.CLOSED

    def _count(self, began: float, now: float, *, failed: bool) -> BreakerChange | None:
        if began < self._counts_from:
            return None
        self.tally.add(now, failed=failed)
        if not self.tally.failures or not self._is_bad():
            self._bad_since = None
            return None
        if self._bad_since is None:
            self._bad_since = now
        if now - self._bad_since < self.rule.lasting:
            return None
        self.until = now + self.rule.pause
        self._bad_since = None
        return BreakerChange.OPENED

    def _is_bad(self) -> bool:
        calls = self.tally.calls
        return calls >= self.rule.calls and self.tally.failures > self.rule.share * calls

    def is_idle(self, now: float) -> bool:
        """Whether it can be forgotten: closed, and nothing was called within a minute."""
        return self.until is None and self.tally.is_empty(now)
