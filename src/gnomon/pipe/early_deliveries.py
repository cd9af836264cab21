"""Deliveries that were claimed ahead of their time, until they have started or gone back."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery

_time = attrgetter("not_before")


class EarlyDeliveries:
    """In the order in which they are to start: by their times, then as they were added. There may
    be thousands, and each may be removed alone: so what was removed stays in its place until
    most of it is such."""

    def __init__(self) -> None:
        self._order: list[Delivery] = []
        self._passed = 0  # places at the front that nothing is held in
        self._by_key: dict[TaskKey, tuple[Delivery, ...]] = {}  # of more than one claim, rarely
        self._count = 0
        self.bytes = 0  # of their payloads, as stored

    def __len__(self) -> int:
        return self._count

    def add(self, deliveries: Iterable[Delivery]) -> None:
        by_key, added = self._by_key, list(deliveries)
        for each in added:
            by_key[each.key] = (*by_key.get(each.key, ()), each)
        self._count += len(added)
        self.bytes += _bytes(added)
        self._order.extend(added)
        self._order.sort(key=_time)
        self._passed = 0

    def first(self) -> float | None:
        """The time of the first."""
        first = self._first()
        return None if first is None else first.not_before

    def pop(self, most: int) -> list[Delivery]:
        """Remove the first, up to so many."""
        popped: list[Delivery] = []
        while (missing := most - len(popped)) > 0 and self._first() is not None:
            first = self._passed
            held = self._held_of(self._order[first : first + missing])
            self._passed = min(first + missing, len(self._order))
            popped += self.remove(held)
        return popped

    def due(self, now: float) -> list[Delivery]:
        """Those whose time has come; they stay."""
        order = self._order
        return self._held_of(order[self._passed : bisect_right(order, now, key=_time)])

    def remove(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those of them that are still held, in the order they are given."""
        removed, by_key = [], self._by_key
        for each in deliveries:
            of_key = by_key.get(each.key)
            if of_key is None or not _is_among(each, of_key):
                continue
            if len(of_key) == 1:
                del by_key[each.key]
            else:
                by_key[each.key] = tuple(other for other in of_key if other is not each)
            removed.append(each)
        self._count -= len(removed)
        self.bytes -= _bytes(removed)
        if not self._count:
            self._order, self._passed = [], 0
        elif 2 * self._count < len(self._order) - self._passed:
            self._order, self._passed = self.all(), 0
        return removed

    def of(self, key: TaskKey, fence: int | None) -> list[Delivery]:
        """Those of one task, of one of its claims if there is one given."""
        return [d for d in self._by_key.get(key, ()) if fence in (None, d.fence)]

    def late(self, now: float) -> list[Delivery]:
        """Those that may not start any more."""
        return [d for d in self.all() if d.start_by < now] if self._count else []

    def all(self) -> list[Delivery]:
        return self._held_of(self._order[self._passed :])

    def _first(self) -> Delivery | None:
        order = self._order
        if not self._count:
            return None
        while not self._held_of(order[self._passed : self._passed + 1]):
            self._passed += 1
        return order[self._passed]

    def _held_of(self, deliveries: list[Delivery]) -> list[Delivery]:
        by_key = self._by_key
        if len(self._order) - self._passed == self._count:
            return deliveries  # none was removed
        return [d for d in deliveries if _is_among(d, by_key.get(d.key, ()))]


def _is_among(delivery: Delivery, others: Sequence[Delivery]) -> bool:
    for other in others:  # noqa: SIM110 - a generator costs more, and mostly there is one
        if other is delivery:
            return True
    return False


def _bytes(deliveries: Sequence[Delivery]) -> int:
    inline = sum([len(d.payload) for d in deliveries if d.payload is not None])
    return inline + sum([d.payload_size for d in deliveries if d.payload_size is not None])
