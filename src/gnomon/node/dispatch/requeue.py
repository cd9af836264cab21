"""Puts entries back on the agenda that were chosen and not claimed, or drops them."""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from gnomon.clock import Clock
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.scanner import Scanner
from gnomon.store.ports.dispatch import Entry

# A key that was not claimed may be locked for a moment, or not due by the database's clock. After
# these looks it is dropped; if it still waits, a repair scan brings it back.
_LOOK_AGAIN = (timedelta(milliseconds=5), timedelta(milliseconds=100), timedelta(seconds=1))
# So many misses in a row say that others have been stealing. What they took is best dropped at
# once: with two slots, a look at each of thousands takes minutes.
_MISSES = 100
_START_OVER_SECONDS = 1.0  # at least between two; rows may also be locked for long


class Requeue:
    """Keeps on the agenda only what this node serves, and looks at a miss only a few times."""

    def __init__(self, agenda: Agenda, scanner: Scanner, clock: Clock) -> None:
        self._agenda = agenda
        self._scanner = scanner
        self._clock = clock
        self._looks: dict[TaskKey, int] = {}
        self._missed = 0  # since the last claim
        self._started_over_at = float("-inf")

    def still_own(self, chosen: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Entries that this node serves, and the others, which are forgotten."""
        own = self._scanner.still_own(chosen)
        if len(own) == len(chosen):
            return own, []
        kept = {e.key for e in own}
        others = [e for e in chosen if e.key not in kept]
        self.forget([e.key for e in others])
        return own, others

    def own(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries that this node serves; what others serve has no place on the agenda."""
        own = self._scanner.own_of(entries)
        if len(own) < len(entries):
            kept = {e.key for e in own}
            self.forget([e.key for e in entries if e.key not in kept])
        return own

    def hinted(self, entries: Iterable[Entry]) -> None:
        """These may start: queued runs, or what was taken back from this node."""
        self._scanner.hinted(entries)

    def forget(self, keys: Collection[TaskKey]) -> None:
        """These were claimed, or are given up."""
        self._agenda.forget(keys)
        if self._looks:
            for key in keys:
                self._looks.pop(key, None)

    def claimed(self, keys: Collection[TaskKey]) -> None:
        """These were claimed: others have not been stealing all of it."""
        self._missed = 0
        self.forget(keys)
        self._scanner.claimed(keys)

    def later(self, entry: Entry, seconds: float) -> None:
        """Look at it after a while."""
        if self._agenda.knows(entry.key):
            self._agenda.again(entry, self._clock.now() + timedelta(seconds=seconds))

    def look_again(self, entries: Sequence[Entry]) -> bool:
        """Look at them soon, or, where there were too many of them, start over; gives whether."""
        if not entries:
            return False
        own = [e for e in self.own(entries) if self._agenda.knows(e.key)]
        self._missed += len(own)
        if self._missed >= _MISSES and self._start_over():
            self.forget([e.key for e in own])
            return True
        now = self._clock.now()
        for entry in own:
            looks = self._looks.pop(entry.key, 0)
            if looks == len(_LOOK_AGAIN):
                self._agenda.forget([entry.key])
            else:
                self._looks[entry.key] = looks + 1
                self._agenda.again(entry, now + _LOOK_AGAIN[looks])
        return False

    def _start_over(self) -> bool:
        now = self._clock.monotonic()
        if now - self._started_over_at < _START_OVER_SECONDS:
            return False
        self._started_over_at = now
        self._missed = 0
        self._looks.clear()
        self._scanner.start_over()
        return True
