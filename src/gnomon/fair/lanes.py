"""A ready queue that shares slots between priorities by weight, first come first served in each.

Next: tenants, by start-time fair queuing.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Generic

from gnomon.fair.queue import Admit, Flow, T, everyone
from gnomon.model.lane import Lane

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
        self._aside: dict[Flow, deque[T]] = {}

    def put(self, entry: T) -> None:
        aside = self._aside.get((entry.key.tenant_id, entry.flow))
        if aside is not None:
            aside.append(entry)
            return
        self._lanes[entry.lane].append(entry)
        self._size += 1

    def take(
        self, most: int, now: datetime, admit: Admit[T] = everyone, *, urgent: bool = False
    ) -> list[T]:
        del now
        taken: list[T] = []
        last = len(self._round) - 1
        while len(taken) < most and self._size:
            lane = self._lanes[Lane.CRITICAL] if urgent else self._round[self._turn]
            if lane:
                entry = lane.popleft()
                self._size -= 1
                if admit(entry):
                    taken.append(entry)
                else:
                    self._set_aside(entry)
            elif urgent:
                break
            self._turn = self._turn + 1 if self._turn < last else 0
        return taken

    def _set_aside(self, entry: T) -> None:
        self._aside.setdefault((entry.key.tenant_id, entry.flow), deque()).append(entry)

    def put_back(self, entry: T) -> None:
        self._lanes[entry.lane].appendleft(entry)
        self._size += 1

    def let_in(self, flows: Iterable[Flow] | None = None) -> bool:
        chosen = list(self._aside) if flows is None else flows
        found = False
        for flow in chosen:
            for entry in reversed(self._aside.pop(flow, ())):
                self.put_back(entry)
                found = True
        return found

    def started(self, tenant_id: str) -> None:
        del tenant_id

    def ended(self, tenant_id: str, seconds: float | None) -> None:
        del tenant_id, seconds

    def waiting(self, tenant_id: str, lane: Lane, flow: int) -> int:
        ready = sum(e.key.tenant_id == tenant_id and e.flow == flow for e in self._lanes[lane])
        return ready + sum(e.lane == lane for e in self._aside.get((tenant_id, flow), ()))

    def longest_waits(self, now: datetime) -> Mapping[Lane, float]:
        waits = dict.fromkeys(Lane, 0.0)
        for queue in (*self._lanes.values(), *self._aside.values()):
            for entry in queue:
                waits[entry.lane] = max(waits[entry.lane], (now - entry.due_at).total_seconds())
        return waits

    def clear(self) -> list[T]:
        self.let_in()
        cleared = [entry for lane in self._lanes.values() for entry in lane]
        for lane in self._lanes.values():
            lane.clear()
        self._size = 0
        return cleared

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
