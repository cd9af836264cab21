"""Entries by the tick at which they are looked at, where single ticks must be got at. Pure."""

from collections.abc import Iterable
from heapq import heappop, heappush

from gnomon.store.ports.dispatch import Entry


class Soon:
    """Few ticks, each with any number of entries, in the order they were added."""

    def __init__(self) -> None:
        self._ticks: dict[int, list[Entry]] = {}
        self._order: list[int] = []  # also of ticks that were removed

    def add(self, tick: int, entries: Iterable[Entry]) -> None:
        known = self._ticks.get(tick)
        if known is None:
            self._ticks[tick] = list(entries)
            heappush(self._order, tick)  # twice, where it was removed before: `first` skips it
        else:
            known.extend(entries)

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
            passed += self._ticks.pop(tick)
        return passed

    def crowded(self, least: int) -> int | None:
        """The first tick with so many entries."""
        return min((t for t, entries in self._ticks.items() if len(entries) >= least), default=None)

    def remove(self, tick: int) -> list[Entry]:
        """All entries of one tick."""
        return self._ticks.pop(tick)
