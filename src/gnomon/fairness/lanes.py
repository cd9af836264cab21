"""The four lanes of one tenant: weights, aging, and flows that are set aside."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Generic, NamedTuple

from gnomon.fairness.ready_queue import Admit, AdmitFirst, T, everyone, none_at_once
from gnomon.model.tasks.priority import Lane

DEFAULT_WEIGHTS: Mapping[Lane, int] = MappingProxyType(
    {Lane.CRITICAL: 4, Lane.HIGH: 3, Lane.MEDIUM: 2, Lane.LOW: 1}
)

_OF = tuple(Lane)  # by its number
_LANES = tuple(range(len(Lane)))
# The lanes in a set of them; bit n of a set is lane n.
_IN_SET = tuple(tuple(n for n in _LANES if lanes >> n & 1) for lanes in range(1 << len(Lane)))
_ALL = len(_IN_SET) - 1
_ONLY = tuple(lanes[0] if len(lanes) == 1 else None for lanes in _IN_SET)

Turn = tuple[int, int]  # a lane, and the position in the round after its turn


class Ages(NamedTuple):
    """Moments: a task due before has waited for half of the bound, or for all of it."""

    late: datetime
    lost: datetime


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

    def oldest(self) -> datetime:
        """When the first was due. There must be one."""
        if not self.own:
            return self.main[0].due_at
        queues = [self.main, *self.own.values()]
        return min(queue[0].due_at for queue in queues if queue)

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
        return len(self.main) + (sum(map(len, self.own.values())) if self.own else 0)


class TenantLanes(Generic[T]):
    """The waiting tasks of one tenant.

    Lanes share by weight. Beside that, lanes age. Half of the bound after its head was due, a lane
    is *late*; from the bound on it is *lost*. While any lane is late, every second turn is for the
    one of them whose head was due first. Otherwise, while some lanes are lost and others are not,
    every second turn is for the lost ones, by weight.

    So no entry waits beyond the bound while those that have waited for half of it, in lanes that
    are not lost, are no more than the tenant starts in a quarter of it: they are taken in the order
    of their due times, in every second turn of the remaining half. That is so as long as what
    comes to wait that long comes at half of the rate at which the tenant starts tasks, at the most.
    Where more comes, holding the bound would take more than every second turn: those belong to
    all, so that what is new keeps half of its share, however many old entries there are.
    """

    __slots__ = (
        "_aside", "_counts", "_extra_next", "_queues", "_ready", "_round", "_turn", "held_back",
        "lanes", "ready",
    )  # fmt: skip

    def __init__(self, order: LaneRound) -> None:
        self.ready = 0  # entries that are not aside
        self.held_back = 0  # entries that are
        self.lanes = 0  # the set of lanes that have such as are ready
        self._ready = [0 for _ in _LANES]
        self._queues: defaultdict[int, _Queue[T]] = defaultdict(_Queue)  # by lane
        self._counts: dict[int, list[int]] = {}  # by flow, of each lane, aside or not
        self._aside: set[int] = set()
        self._round = order.turns
        self._turn = [0, 0]  # positions in the round: of all lanes, of those that are lost
        self._extra_next = True

    def put_all(self, entries: Sequence[T]) -> None:
        if len(entries) == 1:  # as where many tenants have few
            lane, flow = entries[0].lane, entries[0].flow
            self._queues[lane].main.append(entries[0])
            self._more(lane, flow, 1)
            return
        kinds = Counter([(entry.lane, entry.flow) for entry in entries])  # few, of many entries
        for (lane, flow), number in kinds.items():
            self._more(lane, flow, number)
        lanes = {lane for lane, _ in kinds}
        for lane in lanes:
            some = entries if len(lanes) == 1 else [e for e in entries if e.lane == lane]
            self._queues[lane].main.extend(some)

    def put_back(self, entry: T) -> None:
        lane, flow = entry.lane, entry.flow
        self._queues[lane].put_back(entry)
        self._more(lane, flow, 1)

    def _more(self, lane: int, flow: int, number: int) -> None:
        """So many of a flow were put."""
        counts = self._counts.get(flow)
        if counts is None:
            counts = self._counts[flow] = [0, 0, 0, 0]
        counts[lane] += number
        if flow in self._aside:
            self.held_back += number
        else:
            self._more_ready(lane, number)

    def take(
        self,
        most: int,
        ages: Ages,
        admit: Admit[T],
        within: int = _ALL,
        at_once: AdmitFirst[T] = none_at_once,
    ) -> list[T]:
        """Remove the entries whose turn it is, from a set of lanes; of flows that are not admitted
        none, and they are set aside. Gives fewer only when nothing more is ready there."""
        taken: list[T] = []
        only = _ONLY[self.lanes & within]
        if only is not None and not self._aside and not self._queues[only].first:
            waiting, ready = self._queues[only].main, self._ready
            if admit is everyone:
                return self._take_run(only, min(most, ready[only]))
            while (left := min(most - len(taken), ready[only])) and (n := at_once(waiting, left)):
                taken += self._take_run(only, n)
        return taken + self._take_each(most - len(taken), ages, admit, within)

    def _take_each(self, most: int, ages: Ages, admit: Admit[T], within: int) -> list[T]:
        """The same, entry by entry."""
        queues, by_flow, aside, ready = self._queues, self._counts, self._aside, self._ready
        taken: list[T] = []
        late, served = None, 0  # the lanes that are late or lost, before that one was served
        while len(taken) < most and (lanes := self.lanes & within):
            lane, is_extra = _ONLY[lanes], False
            if lane is None:
                if late is None:
                    late = self._late(ages)
                elif ready[served] and queues[served].head(aside).due_at <= ages.late:
                    late |= 1 << served
                else:
                    late &= ~(1 << served)
                lane, is_extra = self._next(late, ages)
            queue = queues[lane]
            entry = queue.pop(aside) if aside or queue.first else queue.main.popleft()
            if not admit(entry):
                self._set_aside(entry)
                self._extra_next |= is_extra  # it was not used
                late = None  # all the heads may have changed
                continue
            taken.append(entry)
            served = lane
            counts = by_flow[entry.flow]
            counts[lane] -= 1
            if not counts[lane] and not any(counts):
                del by_flow[entry.flow]
            ready[lane] -= 1
            if not ready[lane]:
                self.lanes &= ~(1 << lane)
        self.ready -= len(taken)
        return taken

    def _take_run(self, lane: int, number: int) -> list[T]:
        """The first so many of one lane: what `take` gives where that one alone has something,
        nothing is set aside, and these are admitted."""
        popleft = self._queues[lane].main.popleft
        taken = [popleft() for _ in range(number)]
        flows = {taken[0].flow: 1} if number == 1 else Counter([entry.flow for entry in taken])
        for flow, count in flows.items():
            counts = self._counts[flow]
            counts[lane] -= count
            if not any(counts):
                del self._counts[flow]
        self._more_ready(lane, -number)
        return taken

    def _next(self, late: int, ages: Ages) -> tuple[int, bool]:
        """The lane whose turn it is, where several have something ready; and whether it is a turn
        beside their shares."""
        if late and (extra := self._extra(late, ages)) is not None:
            return extra, True
        lane, self._turn[0] = self._round[self.lanes][self._turn[0]]
        return lane, False

    def _late(self, ages: Ages) -> int:
        """The set of lanes that are late, or lost."""
        late = 0
        for lane in _IN_SET[self.lanes]:
            if self._queues[lane].head(self._aside).due_at <= ages.late:
                late |= 1 << lane
        return late

    def _extra(self, late: int, ages: Ages) -> int | None:
        """Whose turn it is beside the shares, if it is one of those."""
        heads = [(self._queues[n].head(self._aside).due_at, -n) for n in _IN_SET[late]]
        in_time = [head for head in heads if head[0] > ages.lost]
        if not in_time and late == self.lanes:
            return None  # all are lost
        extra = self._extra_next
        self._extra_next = not extra
        if not extra:
            return None
        if in_time:
            return -min(in_time)[1]
        lane, self._turn[1] = self._round[late][self._turn[1]]
        return lane

    def _set_aside(self, entry: T) -> None:
        flow = entry.flow
        self._aside.add(flow)
        for lane, count in enumerate(self._counts[flow]):
            self._queues[lane].set_aside(flow, entry if lane == entry.lane else None)
            self._more_ready(lane, -count)
            self.held_back += count

    def let_in(self, flow: int) -> bool:
        """Gives whether anything was aside."""
        if flow not in self._aside:
            return False
        self._aside.remove(flow)
        for lane, count in enumerate(self._counts[flow]):
            self._queues[lane].let_in(flow)
            self._more_ready(lane, count)
            self.held_back -= count
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
        self.held_back -= found
        return [entry for queue in self._queues.values() for entry in queue.drop(flows)]

    def aside(self) -> list[int]:
        return list(self._aside)

    def waiting(self, lane: int, flow: int) -> int:
        counts = self._counts.get(flow)
        return 0 if counts is None else counts[lane]

    def depths(self) -> list[tuple[Lane, int]]:
        """Entries in each lane that has any, or had."""
        return [(_OF[lane], len(queue)) for lane, queue in self._queues.items()]

    def oldest(self) -> list[tuple[Lane, datetime]]:
        """When the first of each lane was due, over the flows that are aside and the rest."""
        return [(_OF[lane], queue.oldest()) for lane, queue in self._queues.items() if queue]

    def clear(self) -> list[T]:
        cleared = [entry for queue in self._queues.values() for entry in queue.clear()]
        self.ready = self.held_back = self.lanes = 0
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
