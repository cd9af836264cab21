"""Deliveries that were claimed ahead of their time, until that has come."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery

_time = attrgetter("not_before")


class EarlyDeliveries:
    """In the order in which they are to start: by their times, then as they were added."""

    def __init__(self) -> None:
        self._held: list[Delivery] = []

    def __len__(self) -> int:
        return len(self._held)

    def add(self, deliveries: Iterable[Delivery]) -> None:
        self._held.extend(deliveries)
        self._held.sort(key=_time)

    def first(self) -> float | None:
        """The time of the first."""
        return self._held[0].not_before if self._held else None

    def due(self, now: float) -> list[Delivery]:
        """Those whose time has come; they stay."""
        return self._held[: bisect_right(self._held, now, key=_time)]

    def remove(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those of them that are still held, in their order."""
        asked = {id(each) for each in deliveries}
        removed = [each for each in self._held if id(each) in asked]
        self._held = [each for each in self._held if id(each) not in asked]
        return removed

    def of(self, key: TaskKey, fence: int | None) -> list[Delivery]:
        """Those of one task, of one of its claims if there is one given."""
        return [d for d in self._held if d.key == key and fence in (None, d.fence)]

    def late(self, now: float) -> list[Delivery]:
        """Those that may not start any more."""
        return [d for d in self._held if d.start_by < now]

    def all(self) -> list[Delivery]:
        return list(self._held)
