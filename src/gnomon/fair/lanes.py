"""A ready queue that shares slots between priorities by weight, first come first served in each.

Next: tenants within a lane, by start-time fair queuing.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from gnomon.model.lane import Lane

T = TypeVar("T")

DEFAULT_WEIGHTS: Mapping[Lane, int] = MappingProxyType(
    {Lane.CRITICAL: 4, Lane.HIGH: 3, Lane.MEDIUM: 2, Lane.LOW: 1}
)


class WeightedLanes(Generic[T]):
    """Serves the lanes in a fixed round, in which each has as many turns as its weight.

    A turn of an empty lane is skipped, never saved: lanes that hold entries share all there is,
    exactly by weight in every round, and each waits for one round at most. Turns of one lane are
    spread over the round (smooth weighted round robin), so a critical task that arrives while
    others are served waits for a few of them and not for a run.
    """

    def __init__(self, weights: Mapping[Lane, int] = DEFAULT_WEIGHTS) -> None:
        if any(weights.get(lane, 0) < 1 for lane in Lane):
            raise ValueError("every lane needs a weight of at least 1, or its tasks never run")
        self._lanes: dict[Lane, deque[T]] = {lane: deque() for lane in Lane}
        self._round = [self._lanes[lane] for lane in _smooth_round(weights)]
        self._turn = 0
        self._size = 0

    def put(self, lane: Lane, tenant_id: str, entry: T) -> None:
        del tenant_id  # all tenants share a lane's queue in this version
        self._lanes[lane].append(entry)
        self._size += 1

    def take(self, most: int) -> list[T]:
        wanted = min(most, self._size)
        turn, last = self._turn, len(self._round) - 1
        taken: list[T] = []
        while len(taken) < wanted:
            if lane := self._round[turn]:
                taken.append(lane.popleft())
            turn = turn + 1 if turn < last else 0
        self._turn = turn
        self._size -= len(taken)
        return taken

    def __len__(self) -> int:
        return self._size


def _smooth_round(weights: Mapping[Lane, int]) -> list[Lane]:
    """Each lane as often as its weight, as evenly spread as it goes.

    Every lane earns its weight at every turn, and the richest pays the whole round to be served.
    """
    total = sum(weights[lane] for lane in Lane)
    credit = dict.fromkeys(Lane, 0)
    turns = []
    for _ in range(total):
        for lane in Lane:
            credit[lane] += weights[lane]
        richest = max(Lane, key=lambda lane: credit[lane])
        credit[richest] -= total
        turns.append(richest)
    return turns
