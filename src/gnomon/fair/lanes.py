"""The four lanes of one tenant: weights, aging, and flows that are set aside."""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Generic

from gnomon.fair.queue import Admit, T
from gnomon.model.lane import Lane

DEFAULT_WEIGHTS: Mapping[Lane, int] = MappingProxyType(
    {Lane.CRITICAL: 4, Lane.HIGH: 3, Lane.MEDIUM: 2, Lane.LOW: 1}
)

_LANES = tuple(range(len(Lane)))
# The lanes in a set of them; bit n of a set is lane n.
_IN_SET = tuple(tuple(n for n in _LANES if lanes >> n & 1) for lanes in range(1 << len(Lane)))

Turn = tuple[int, int]  # a lane, and the position in the round after its turn


class LaneRound:
    """A fixed round in which each lane has as many turns as its weight.

    A turn of a lane that is not among those asked for is skipped, never saved: they share all
    there is, exactly by weight in every round. Turns of one lane are spread over the round, so a
    critical task that arrives while others are served waits for a few of them and not for a run.
    """

    def __init__(self, weights: Mapping[Lane, int] = DEFAULT_WEIGHTS) -> None:
        if any(weights.get(lane, 0) < 1 for lane in Lane):
            raise ValueError("every lane needs a weight of at least 1, or its tasks never run")
        turns = _smooth_round(weights)
        self.turns: list[list[Turn]] = [_turns_of(lanes, turns) for lanes in _IN_SET]


class _Queue(Generic[T]):
    """One lane. `main` holds what was put, in order. Entries of a flow that is set aside are moved
    to a queue of their own when they come to the head of it, once; they stay there while the flow
    is let in and set aside again, so that this costs the same however many there are. `first` are
    the flows with such a queue that are let in: all in them was put before all in `main`."""

    __slots__ = ("first", "main", "own")

    def __init__(self) -> None:
        self.main: deque[T] = deque()
        self.own: dict[int, deque[T]] = {}
        self.first: dict[int, None] = {}

    def head(self, aside: set[int]) -> T:
        """The next entry of a flow that is not aside. There must be one."""
        if self.first:
            return self.own[next(iter(self.first))][0]
        main = self.main
        if aside:
            while (entry := main[0]).flow in aside:
                self.own.setdefault(entry.flow, deque()).append(main.popleft())
        return main[0]

    def pop(self, aside: set[int]) -> T:
        """Take that entry out."""
        if not self.first and not aside:
            return self.main.popleft()
        entry = self.head(aside)
        if not self.first:
            return self.main.popleft()
        own = self.own[entry.flow]
        own.popleft()
        if not own:
            del self.own[entry.flow], self.first[entry.flow]
        return entry

    def put_back(self, entry: T) -> None:
        self.own.get(entry.flow, self.main).appendleft(entry)

    def set_aside(self, flow: int, refused: T | None) -> None:
        self.first.pop(flow, None)
        if refused is not None:
            self.own.setdefault(flow, deque()).appendleft(refused)

    def let_in(self, flow: int) -> None:
        if flow in self.own:
            self.first[flow] = None

    def heads(self) -> Iterator[T]:
        if self.main:
            yield self.main[0]
        for own in self.own.values():
            yield own[0]

    def drop(self, flows: set[int]) -> Iterator[T]:
        """Remove all entries of flows that are aside."""
        for flow in flows:
            yield from self.own.pop(flow, ())
        yield from (entry for entry in self.main if entry.flow in flows)
        self.main = deque(entry for entry in self.main if entry.flow not in flows)

    def clear(self) -> Iterator[T]:
        for own in self.own.values():
            yield from own
        yield from self.main
        self.own.clear()
        self.first.clear()
        self.main.clear()

    def __len__(self) -> int:
        return len(self.main) + sum(map(len, self.own.values()))


class TenantLanes(Generic[T]):
    """What waits of one tenant.

    Lanes share by weight. Beside that, a lane ages: while its head is older than the bound, and
    that of another is not, every second turn is for the lanes that have aged alone (by weight,
    where there are several). So an entry past the bound waits for at most twice what aged lanes
    hold before it, whatever is put into the others; and however many old entries there are, what
    is new keeps half of its share.
    """

    __slots__ = (
        "_aside", "_counts", "_extra_next", "_queues", "_ready", "_round", "_turn", "lanes",
        "ready", "total",
    )  # fmt: skip

    def __init__(self, order: LaneRound) -> None:
        self.total = 0  # entries, aside or not
        self.ready = 0  # entries that are not aside
        self.lanes = 0  # the set of lanes that have such
        self._ready = [0 for _ in _LANES]
        self._queues: list[_Queue[T]] = [_Queue() for _ in _LANES]
        self._counts: dict[int, list[int]] = {}  # by flow, of each lane, aside or not
        self._aside: set[int] = set()
        self._round = order.turns
        self._turn = [0, 0]  # positions in the round: of all lanes, of those that have aged
        self._extra_next = True

    def put(self, entry: T) -> None:
        self._count(entry)
        self._queues[entry.lane].main.append(entry)

    def put_back(self, entry: T) -> None:
        self._count(entry)
        self._queues[entry.lane].put_back(entry)

    def _count(self, entry: T) -> None:
        lane, flow = entry.lane, entry.flow
        counts = self._counts.get(flow)
        if counts is None:
            counts = self._counts[flow] = [0, 0, 0, 0]
        counts[lane] += 1
        self.total += 1
        if flow not in self._aside:
            self.ready += 1
            self._ready[lane] += 1
            self.lanes |= 1 << lane

    def take(self, aged_before: datetime, admit: Admit[T]) -> T | None:
        """Remove the entry whose turn it is; None: its flow was not admitted, and is set aside.
        Something must be ready."""
        lanes = self.lanes
        if lanes & (lanes - 1):
            return self.take_from(self._next_lane(lanes, aged_before), admit)
        return self.take_from(lanes.bit_length() - 1, admit)  # the only one

    def _next_lane(self, lanes: int, aged_before: datetime) -> int:
        aged = 0
        for lane in _IN_SET[lanes]:
            if self._queues[lane].head(self._aside).due_at <= aged_before:
                aged |= 1 << lane
        extra = False
        if aged and aged != lanes:
            extra = self._extra_next
            self._extra_next = not extra
        lane, self._turn[extra] = self._round[aged if extra else lanes][self._turn[extra]]
        return lane

    def take_from(self, lane: int, admit: Admit[T]) -> T | None:
        """The same from one lane, which must have something ready."""
        entry = self._queues[lane].pop(self._aside)
        if not admit(entry):
            self._set_aside(entry)
            return None
        counts = self._counts[entry.flow]
        counts[lane] -= 1
        if not counts[lane] and not any(counts):
            del self._counts[entry.flow]
        self.total -= 1
        self.ready -= 1
        ready = self._ready
        ready[lane] -= 1
        if not ready[lane]:
            self.lanes &= ~(1 << lane)
        return entry

    def _set_aside(self, entry: T) -> None:
        flow = entry.flow
        self._aside.add(flow)
        for lane, count in enumerate(self._counts[flow]):
            self._queues[lane].set_aside(flow, entry if lane == entry.lane else None)
            self._more_ready(lane, -count)

    def let_in(self, flow: int) -> bool:
        """Gives whether anything was aside."""
        if flow not in self._aside:
            return False
        self._aside.remove(flow)
        for lane, count in enumerate(self._counts[flow]):
            self._queues[lane].let_in(flow)
            self._more_ready(lane, count)
        return True

    def _more_ready(self, lane: int, count: int) -> None:
        self.ready += count
        self._ready[lane] += count
        if self._ready[lane]:
            self.lanes |= 1 << lane
        else:
            self.lanes &= ~(1 << lane)

    def drop_aside(self, most: int) -> list[T]:
        """Remove what is aside, flow by flow, until there are so many."""
        flows: set[int] = set()
        found = 0
        for flow in self._aside:
            if found >= most:
                break
            flows.add(flow)
            found += sum(self._counts.pop(flow))
        self._aside -= flows
        self.total -= found
        return [entry for queue in self._queues for entry in queue.drop(flows)]

    def aside(self) -> list[int]:
        return list(self._aside)

    def waiting(self, lane: int, flow: int) -> int:
        counts = self._counts.get(flow)
        return 0 if counts is None else counts[lane]

    def depth(self, lane: int) -> int:
        return len(self._queues[lane])

    def heads(self, lane: int) -> Iterator[T]:
        return self._queues[lane].heads()

    def clear(self) -> list[T]:
        cleared = [entry for queue in self._queues for entry in queue.clear()]
        self.total = self.ready = self.lanes = 0
        self._ready = [0 for _ in _LANES]
        self._counts.clear()
        self._aside.clear()
        return cleared

    def __bool__(self) -> bool:
        """Whether anything waits, aside or not."""
        return bool(self._counts)


def _turns_of(lanes: tuple[int, ...], turns: list[Lane]) -> list[Turn]:
    """For every position, the next turn of one of these lanes."""
    if not lanes:
        return []
    found: list[Turn] = []
    for position in range(len(turns)):
        ahead = position
        while turns[ahead] not in lanes:
            ahead = (ahead + 1) % len(turns)
        found.append((int(turns[ahead]), (ahead + 1) % len(turns)))
    return found


def _smooth_round(weights: Mapping[Lane, int]) -> list[Lane]:
    """Each lane as often as its weight, as evenly spread as it goes.

    Every lane earns its weight at every turn, and the richest pays the whole round to be served.
    """
    common = math.gcd(*(weights[lane] for lane in Lane))
    earned = {lane: weights[lane] // common for lane in Lane}
    total = sum(earned.values())
    credit = dict.fromkeys(Lane, 0)
    turns = []
    for _ in range(total):
        for lane in Lane:
            credit[lane] += earned[lane]
        richest = max(Lane, key=lambda lane: credit[lane])
        credit[richest] -= total
        turns.append(richest)
    return turns
