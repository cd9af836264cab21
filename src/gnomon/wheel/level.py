"""One level of the timing wheel: 1024 slots, each as wide as the whole level below."""

from typing import Generic, TypeVar

T = TypeVar("T")

# With ticks of 1 ms, level 0 spans a second and level 1 a quarter of an hour. The 15 seconds that
# are read ahead nearly always fit in these two, so entries move down once, a second's worth at a
# time; with 256 slots, all that is held would move at once every minute, and fire late for it.
SLOT_BITS = 10
SLOTS = 1 << SLOT_BITS


class Level(Generic[T]):
    """Slots of `width` ticks. All its entries are due within one turn, so slots never wrap.

    A bitmap of the occupied slots makes the first one a matter of a few integer operations,
    however many empty ones are before it.
    """

    __slots__ = ("_occupied", "_shift", "_slots", "width")

    def __init__(self, depth: int) -> None:
        self._shift = SLOT_BITS * depth
        self.width = 1 << self._shift
        self._slots: list[list[tuple[int, T]]] = [[] for _ in range(SLOTS)]
        self._occupied = 0

    def __bool__(self) -> bool:
        return self._occupied != 0

    def put(self, item: tuple[int, T]) -> None:
        """Add a due tick and its entry."""
        index = (item[0] >> self._shift) & (SLOTS - 1)
        slot = self._slots[index]
        if not slot:
            self._occupied |= 1 << index
        slot.append(item)

    def start(self) -> int:
        """The first tick of the first occupied slot."""
        due, _ = self._slots[self._first()][0]
        return due >> self._shift << self._shift

    def take(self) -> list[tuple[int, T]]:
        """Empty the first occupied slot. Its items keep the order in which they were put."""
        index = self._first()
        slot, self._slots[index] = self._slots[index], []
        self._occupied &= self._occupied - 1
        return slot

    def _first(self) -> int:
        return (self._occupied & -self._occupied).bit_length() - 1
