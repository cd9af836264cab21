"""How far behind the cursors a repair reads. Pure.

A row that was invisible at one repair and is visible at the next was written by a transaction that
has ended in between. So the next one reads from where the first of those began, and not from where
the oldest that is still open did: what that one has written cannot be seen yet, however often it is
looked for.

Where more waits in that stretch than a repair reads, and all of it was known, the next one goes on
from there: a backlog that has just been stored lies in it, and to send the cursors back would have
all of it read again, each time. When the whole stretch has been read, the next one begins.

Now and then everything is read again, from the first task that was found to wait in each shard.
Only some shards are read from the very beginning, for what was backdated, by hand or by a
transaction that was never seen to be open: while an old snapshot keeps dead index entries, all of
them would be walked. How many is decided by how long it takes, and by how late such a row may be
found.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from gnomon.store.ports.dispatch import BEGINNING, Cursor
from gnomon.store.ports.work.writer import Writer

# A row may be due since its transaction began, which it did before it was seen to write.
SLACK = timedelta(seconds=5)
EVERYWHERE_SECONDS = 30.0
_LONG_SECONDS, _SHORT_SECONDS = 0.1, 0.02  # that a look everywhere takes
# However long it takes, all shards are read from the very beginning within this time: a transaction
# that began long ago, and wrote and ended between two repairs, was not seen by either.
ROUND_SECONDS = 120.0
_MOST = 256  # shards that are read from the very beginning at once
_FEWEST = math.ceil(_MOST * EVERYWHERE_SECONDS / ROUND_SECONDS)


class Reach:
    """The state of the last repair, and from it what the next one must read."""

    def __init__(self) -> None:
        self._open: frozenset[Writer] = frozenset()
        self._seen_at = BEGINNING
        # Shards of which a part is still to be read, from there on, and what was known when the
        # first part was.
        self._rest: dict[int, datetime] = {}
        self._begun: tuple[frozenset[Writer], datetime] = (frozenset(), BEGINNING)
        self._first: dict[int, datetime] = {}  # before it, nothing of a shard waits
        self._everywhere_at = float("-inf")
        self._from_beginning = _MOST
        self._turn = 0  # the shard from which on the next are read from the beginning

    def retain(self, shards: Iterable[int]) -> None:
        """Forget what is known of other shards than these."""
        kept = set(shards)
        self._open = self._seen()
        self._first = {shard: at for shard, at in self._first.items() if shard in kept}
        self._rest = {shard: at for shard, at in self._rest.items() if shard in kept}

    def look_everywhere(self) -> None:
        """Read everything at the next repair."""
        self._everywhere_at = float("-inf")

    def is_everywhere(self, monotonic: float) -> bool:
        """Whether it is time to read everything."""
        return monotonic - self._everywhere_at >= EVERYWHERE_SECONDS

    def looking_everywhere(self, monotonic: float) -> None:
        """Note that it is being done; whoever asks for it from now on means another one."""
        self._everywhere_at = monotonic

    def since(self, writers: frozenset[Writer]) -> datetime:
        """From when on to read what has become visible since the last repair."""
        ended = (writer.began for writer in self._seen() - writers)
        return min(self._seen_at, min(ended, default=self._seen_at)) - SLACK

    def _seen(self) -> frozenset[Writer]:
        """Who was seen to be open and may have ended since; also while a stretch is being read."""
        return self._open | self._begun[0] if self._rest else self._open

    def stretch(
        self, shards: Iterable[int], writers: frozenset[Writer], now: datetime
    ) -> dict[int, datetime]:
        """The shards that the next repair reads, and from when on; these were seen to be open just
        now."""
        if not self._rest:
            self._begun = writers, now
            self._rest = dict.fromkeys(shards, self.since(writers))
        else:  # who began to write meanwhile may end before the next stretch begins
            self._begun = self._begun[0] | writers, self._begun[1]
        return dict(self._rest)

    def lasts(self, now: datetime) -> timedelta:
        """How long ago the stretch that is being read was begun."""
        return now - self._begun[1]

    def read(self, rest: Mapping[int, datetime]) -> None:
        """The stretch was read, but for these shards, from there on."""
        self._rest = {shard: at for shard, at in rest.items() if shard in self._rest}
        if not self._rest:
            self.done(*self._begun)

    def everything(self, cursors: Sequence[Cursor], since: datetime) -> list[datetime]:
        """From when on to read each shard, if everything is to be read."""
        return [
            BEGINNING
            if self._has_turn(c.shard)
            else min(since, self._first.get(c.shard, BEGINNING))
            for c in cursors
        ]

    def _has_turn(self, shard: int) -> bool:
        return (shard - self._turn) % _MOST < self._from_beginning

    def done(self, writers: frozenset[Writer], now: datetime) -> None:
        """A repair has read what it was told to, after these were seen to be open."""
        self._rest = {}
        self._open = writers
        self._seen_at = now

    def done_everywhere(
        self, cursors: Sequence[Cursor], first: Mapping[int, datetime], now: datetime, took: float
    ) -> None:
        """Everything up to the cursors was read; `first` that waits in each shard, if any does."""
        self._first |= {c.shard: first.get(c.shard, min(c.due_at, now - SLACK)) for c in cursors}
        self._turn = (self._turn + self._from_beginning) % _MOST
        if took > _LONG_SECONDS:
            self._from_beginning = max(_FEWEST, self._from_beginning // 2)
        elif took < _SHORT_SECONDS:
            self._from_beginning = min(_MOST, self._from_beginning * 2)
