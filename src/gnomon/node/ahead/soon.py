"""Entries by the tick at which they are looked at, where single ticks must be got at. Pure."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from gnomon.store.ports.dispatch import Entry


class Soon:
    """Few ticks, each with any number of entries, in the order they were added. A tick is crowded
    that has `crowd` of them."""

    def __init__(self, crowd: int) -> None:
        self._crowd = crowd
        self._crowded: set[int] = set()
        self._ticks: dict[int, list[Entry]] = {}
        self._order: list[int] = []  # also of ticks that were removed

    def add(self, tick: int, entries: Iterable[Entry]) -> None:
        known = self._ticks.get(tick)
        if known is None:
            known = list(entries)
            if not known:
                return
            self._ticks[tick] = known
            heappush(self._order, tick)  # twice, where it was removed before: `first` skips it
        else:
            known.extend(entries)
        if len(known) >= self._crowd:
            self._crowded.add(tick)

    def first(self) -> int | None:
        """The earliest tick that has entries."""
        order = self._order
        while order and order[0] not in self._ticks:
            heappop(order)
        return order[0] if order else None

    def passed(self, now: int) -> list[Entry]:
        """Remove all entries of the ticks up to `now`, in order."""
        passed: list[Entry] = []
        while (tick := self.first()) is not None and tick <= now:
            passed += self.remove(tick)
        return passed

    def crowded(self) -> list[int]:
        """The ticks that are crowded, in order."""
        return sorted(self._crowded)

    def at(self, tick: int) -> Sequence[Entry]:
        """All entries of one tick."""
        return self._ticks[tick]

    def remove(self, tick: int) -> list[Entry]:
        """The same, which are not here any more."""
        self._crowded.discard(tick)
        return self._ticks.pop(tick)
