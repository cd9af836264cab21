"""How much is claimed at once after PostgreSQL had more to do than it could. Pure.

The chore that claims pauses (`gnomon.chores`). When it goes on, all nodes would ask for whole
batches together, and exhaust it again: so the first claim is small, and each that goes well allows
more.
"""

FEWEST = 16
_GROWTH = 4


class Ramp:
    """The size of the next claim."""

    def __init__(self) -> None:
        self._most: int | None = None  # None: there is no need to hold back

    def most(self, batch: int) -> int:
        return batch if self._most is None else min(batch, self._most)

    def exhausted(self) -> None:
        self._most = FEWEST

    def went_well(self, batch: int) -> None:
        if self._most is not None:
            self._most *= _GROWTH
            if self._most >= batch:
                self._most = None
