"""The timing wheel: holds entries until they are due, at a small constant cost for each.

Read a tick as a number of base 1024. An entry waits at the level of the highest digit in which
its due tick differs from the present one, and moves down when the present reaches that digit. So
all that waits at a level comes before all that waits at the level above, and the earliest entry
is in the first occupied slot of the lowest level.
"""

from operator import itemgetter
from typing import Generic, TypeVar

from gnomon.wheel.level import SLOT_BITS, Level

T = TypeVar("T")


class Wheel(Generic[T]):
    """Entries by due tick. A tick is a millisecond since any fixed moment, never negative.

    The wheel knows no more of time than it is told. Entries cannot be removed: they are hints,
    and one that has become pointless comes out at its time and is dropped by whoever gets it.
    """

    def __init__(self, now: int) -> None:
        self._next = now + 1  # the first tick that has not been fired
        self._late: list[tuple[int, T]] = []  # were due before that when they came
        self._levels: list[Level[T]] = [Level(0)]
        self._size = 0

    def add(self, due: int, entry: T) -> None:
        """Hold `entry` until `due`. One that is due already comes out of the next advance."""
        self._size += 1
        if due < self._next:
            self._late.append((due, entry))
        else:
            self._place((due, entry))

    def advance(self, now: int) -> list[T]:
        """Remove every entry with `due <= now`, in order of due tick, then of being added.

        Time does not go back: an earlier `now` than the last gives only what came late.
        """
        upto = max(self._next, now + 1)
        fired = _in_order(self._late)
        self._late = []
        while level := self._lowest():
            start = level.start()
            if start + level.width <= upto:
                # All of it is due: after a long jump, sorting beats walking it down.
                fired += _in_order(level.take())
            elif start > upto or level.width == 1:
                break
            else:
                # Also when it starts just at `upto`, so that next_due is exact for what is in it.
                self._next = start
                for item in level.take():
                    self._place(item)
        self._next = upto
        self._size -= len(fired)
        return fired

    def next_due(self) -> int | None:
        """How long it is safe to sleep: a tick that no entry is due before; None when empty.

        It is later than the last advance unless an entry came late. It is exact once the first
        entry has come down to level 0, less than 1024 ticks ahead; before that it is the tick at
        which its slot moves down. So a loop of "sleep until next_due, advance" wakes once for
        every tick that fires something, and rarely to move entries down.
        """
        if self._late:
            return min(due for due, _ in self._late)
        level = self._lowest()
        return level.start() if level else None

    def __len__(self) -> int:
        return self._size

    def _place(self, item: tuple[int, T]) -> None:
        distance = item[0] ^ self._next
        depth = (distance.bit_length() - 1) // SLOT_BITS if distance else 0
        # Levels are made as they are needed: no due tick is too far ahead.
        while depth >= len(self._levels):
            self._levels.append(Level(len(self._levels)))
        self._levels[depth].put(item)

    def _lowest(self) -> Level[T] | None:
        for level in self._levels:
            if level:
                return level
        return None


def _in_order(items: list[tuple[int, T]]) -> list[T]:
    items.sort(key=itemgetter(0))  # stable: what was added first stays first
    return [entry for _, entry in items]
