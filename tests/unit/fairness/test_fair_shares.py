"""Shares of tenants: by work done and weight, whatever their tasks are like and whenever they
come; and slots that one leaves to others."""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations, count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fairness.fair_entries import START, at, entry

from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

Cost = Callable[[], float]


class Node:
    """Runs what the queue gives, on so many slots, in simulated time. Tenants in `costs` always
    have more waiting."""

    def __init__(self, ready: FairQueue[Entry], slots: int, costs: Mapping[str, Cost]) -> None:
        self.ready = ready
        self.costs = dict(costs)
        self.free = slots
        self.work: dict[str, float] = defaultdict(float)
        self.running: list[tuple[float, int, Entry, float]] = []
        self.now = 0.0
        self._looked = 0.0
        self._numbers = count()
        for tenant in costs:
            self.put(tenant)

    def put(self, tenant: str) -> None:
        while self.ready.waiting(tenant, Lane.MEDIUM, 1) < 100:
            self.ready.put_all([entry(next(self._numbers), tenant)])

    def step(self) -> None:
        """Start what there is room for, and let the next task end."""
        taken = self.ready.take(self.free, START)
        self.free -= len(taken)
        for began in taken:
            tenant = began.key.tenant_id
            cost = self.costs[tenant]()
            heapq.heappush(self.running, (self.now + cost, next(self._numbers), began, cost))
            self.put(tenant)
        self.now, _, ended, cost = heapq.heappop(self.running)
        if self.now - self._looked > 1:
            self._looked = self.now
            self.ready.runs(
                (e.key.tenant_id, self.now - (end - took)) for end, _, e, took in self.running
            )
        self.free += 1
        self.work[ended.key.tenant_id] += cost
        self.ready.ended_all([(ended.key.tenant_id, ended.lane, cost)])

    def shares(self, tenants: str) -> dict[str, float]:
        total = sum(self.work[t] for t in tenants)
        return {t: self.work[t] / total for t in tenants}


def random_costs(draws: Random, most: Mapping[str, float]) -> dict[str, Cost]:
    return {tenant: partial(draws.uniform, 0.001, m) for tenant, m in most.items()}


weights = st.fixed_dictionaries({t: st.sampled_from([0.5, 1.0, 3.0]) for t in "abc"})
longest = st.fixed_dictionaries({t: st.sampled_from([0.002, 0.05, 2.0]) for t in "abc"})


@settings(deadline=None, max_examples=40)
@given(weights, longest, st.sampled_from([1, 4, 20]), st.randoms(use_true_random=False))
def test_two_backlogged_tenants_are_never_further_apart_than_their_longest_tasks(
    weights: dict[str, float], longest: dict[str, float], slots: int, draws: Random
) -> None:
    """Start-time fair queuing: on one slot, the work of two tenants by weight differs by the
    longest task of each at the most. On more slots, by as many as they can hold; and by what a
    guess was wrong, twice."""
    ready: FairQueue[Entry] = FairQueue(weight=weights.__getitem__)
    node = Node(ready, slots, random_costs(draws, longest))
    most = {t: max(longest[t], 0.05 if slots > 1 else 0) / weights[t] for t in weights}
    held = 1 if slots == 1 else 2 * slots + 1
    for _ in range(600):
        node.step()
        for a, b in combinations(weights, 2):
            apart = abs(node.work[a] / weights[a] - node.work[b] / weights[b])
            assert apart <= held * (most[a] + most[b]) + 1e-6


@pytest.mark.parametrize("slots", [SlotShares(10), SlotShares(60, 0, 0.9), SlotShares(57, 3, 0.9)])
@pytest.mark.parametrize(("a", "b"), [(0.005, 0.02), (0.02, 0.005), (0.1, 1.0)])
def test_weights_of_three_to_one_are_shares_of_work(slots: SlotShares, a: float, b: float) -> None:
    ready: FairQueue[Entry] = FairQueue(
        slots=slots, weight={"a": 3.0, "b": 1.0}.__getitem__, has_others=lambda _: True
    )
    node = Node(ready, slots.general, {"a": lambda: a, "b": lambda: b})
    for _ in range(10_000):
        node.step()
    assert node.shares("ab") == pytest.approx({"a": 0.75, "b": 0.25}, abs=0.0125)


@settings(deadline=None, max_examples=30)
@given(longest, st.integers(1, 300), st.randoms(use_true_random=False))
def test_nothing_is_saved_up_by_being_idle(
    longest: dict[str, float], alone: int, draws: Random
) -> None:
    """Who comes late is served as much as the others from then on, and not what it missed."""
    costs = random_costs(draws, longest)
    late = costs.pop("c")
    node = Node(FairQueue(), 4, costs)
    for _ in range(alone):
        node.step()
    node.costs["c"] = late
    node.put("c")
    before = dict(node.work)
    for _ in range(400):
        node.step()
        since = {t: node.work[t] - before.get(t, 0.0) for t in "abc"}
        for a, b in combinations("abc", 2):
            assert abs(since[a] - since[b]) <= 9 * (max(longest[a], 0.05) + max(longest[b], 0.05))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 20), st.integers(0, 200), st.randoms(use_true_random=False))
def test_who_comes_new_goes_before_the_second_task_of_anybody_else(
    others: int, steps: int, draws: Random
) -> None:
    costs = {f"t{n}": (lambda: draws.uniform(0.001, 1.0)) for n in range(others)}
    node = Node(FairQueue(), 5, costs)
    for _ in range(steps):
        node.step()
    node.ready.put_all([entry(10**6, "new")])
    taken = [e.key.tenant_id for e in node.ready.take(10**6, at(0))]
    ahead = taken[: taken.index("new")]
    assert len(set(ahead)) == len(ahead)


def test_a_task_that_never_ends_is_charged_while_it_runs() -> None:
    ready: FairQueue[Entry] = FairQueue()
    for number in range(100):
        for tenant in "ab":
            ready.put_all([entry(number, tenant)])
    first = ready.take(2, START)
    assert sorted(e.key.tenant_id for e in first) == ["a", "b"]
    ready.ended_all([("b", Lane.MEDIUM, 0.05)])
    for second in range(1, 11):
        ready.runs([("a", float(second))])
        assert ready.take(1, START)[0].key.tenant_id == "b"
        ready.ended_all([("b", Lane.MEDIUM, 0.5)])
    # Its end costs nothing more, and by then it is five seconds ahead.
    ready.ended_all([("a", Lane.MEDIUM, 10.0)])
    taken: Counter[str] = Counter()
    while not taken["a"]:
        (began,) = ready.take(1, START)
        taken[began.key.tenant_id] += 1
        ready.ended_all([(began.key.tenant_id, began.lane, 0.5)])
    assert taken["b"] in (9, 10, 11)


def test_what_was_not_run_costs_nothing() -> None:
    ready: FairQueue[Entry] = FairQueue()
    for number in range(100):
        for tenant in "ab":
            ready.put_all([entry(number, tenant)])
    for _ in range(20):
        (began,) = ready.take(1, START)
        assert began.key.tenant_id == "a"
        if began.key.id.int % 2:
            ready.put_back(began)
        else:
            ready.ended_all([("a", Lane.MEDIUM, None)])


def test_who_was_charged_in_vain_goes_before_the_others_again() -> None:
    ready: FairQueue[Entry] = FairQueue()
    for number in range(20):
        for tenant in "ab":
            ready.put_all([entry(number, tenant)])
    assert Counter(e.key.tenant_id for e in ready.take(4, START)) == {"a": 2, "b": 2}
    for _ in range(2):
        ready.ended_all([("b", Lane.MEDIUM, None)])
    assert [e.key.tenant_id for e in ready.take(2, START)] == ["b", "b"]


def test_weights_change_while_tasks_wait() -> None:
    weights = {"a": 1.0, "b": 1.0}
    node = Node(FairQueue(weight=weights.__getitem__), 4, {t: lambda: 0.1 for t in "ab"})
    for _ in range(100):
        node.step()
    weights["a"] = 4.0
    node.ready.runs([])
    node.work.clear()
    for _ in range(1000):
        node.step()
    assert node.shares("ab")["a"] == pytest.approx(0.8, abs=0.02)


def test_idle_tenants_are_forgotten() -> None:
    ready: FairQueue[Entry] = FairQueue()
    for number in range(1000):
        ready.put_all([entry(number, f"t{number}")])
    for began in ready.take(1000, START):
        ready.ended_all([(began.key.tenant_id, began.lane, 0.01)])
    ready.put_all([entry(1, "busy")])
    ready.take(1, START)
    ready.runs([("busy", 1.0)])
    assert list(ready._accounts) == ["busy"]


def greedy(ready: FairQueue[Entry], tenant: str, lane: Lane = Lane.MEDIUM) -> int:
    """How many slots a tenant gets whose tasks do not end."""
    for number in range(2000):
        ready.put_all([entry(number, tenant, lane)])
    taken = ready.take(2000, START) + ready.take(2000, START, urgent=True)
    held = Counter(e.key.tenant_id for e in taken)
    assert set(held) <= {tenant}
    return held[tenant]


@pytest.mark.parametrize(
    ("slots", "held"),
    [
        (1, [1]),
        (2, [1, 1]),
        (10, [9, 1]),
        (50, [45, 2, 2, 1]),
        (1000, [900, 10, 9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1]),
    ],
)
def test_tasks_that_never_end_leave_slots_to_those_who_come_later(
    slots: int, held: list[int]
) -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(slots, 0, 0.9), has_others=lambda _: True)
    got = [greedy(ready, f"t{number}") for number in range(len(held))]
    assert got == held
    assert sum(got) == slots


def test_a_tenant_alone_may_hold_everything() -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(10, 0, 0.9))
    assert greedy(ready, "a") == 2000  # the pipe says how many there are


def test_slots_for_critical_tasks_are_left_to_others_too() -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(90, 10, 0.9), has_others=lambda _: True)
    assert greedy(ready, "a", Lane.MEDIUM) == 81
    assert greedy(ready, "a", Lane.CRITICAL) == 9
    assert greedy(ready, "b", Lane.CRITICAL) > 1  # one that is kept, others of the general ones
    assert greedy(ready, "c", Lane.MEDIUM) > 0


def test_who_has_its_part_of_the_kept_slots_does_not_stand_in_the_way_of_others() -> None:
    """All general slots are taken, and the first in turn may hold no more of the kept ones."""
    ready: FairQueue[Entry] = FairQueue(
        slots=SlotShares(10, 4, 0.9),
        has_others=lambda _: True,
        weight=lambda tenant: 1000.0 if tenant == "a" else 1.0,
    )
    assert [greedy(ready, tenant) for tenant in "bc"] == [9, 1]
    assert greedy(ready, "a", Lane.CRITICAL) == 3
    ready.put_all([entry(3000, "c", Lane.CRITICAL)])
    assert [e.key.tenant_id for e in ready.take(9, START, urgent=True)] == ["c"]


def test_critical_tasks_of_one_tenant_do_not_take_what_is_kept_for_newcomers() -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(90, 10, 0.9), has_others=lambda _: True)
    assert greedy(ready, "a", Lane.CRITICAL) == 91  # the general ones, and the kept
    assert greedy(ready, "b", Lane.MEDIUM) > 0


def test_a_critical_task_for_which_another_leaves_its_slot_costs_nobody_else_one() -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(10, 0, 0.9), has_others=lambda _: True)
    assert greedy(ready, "a") == 9
    ready.put_all([entry(1, "a", Lane.CRITICAL)])
    assert ready.take(1, START, urgent=True) == []
    assert len(ready.take(1, START, urgent=True, evicting=True)) == 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=80),
    st.integers(1, 30),
    st.floats(0.1, 0.99),
)
def test_a_slot_goes_to_whoever_holds_few_and_stays_free_only_for_those(
    steps: list[tuple[str, bool]], general: int, share: float
) -> None:
    ready: FairQueue[Entry] = FairQueue(
        slots=SlotShares(general, 0, share), has_others=lambda _: True
    )
    rest = math.ceil(round(general * (1 - share), 6))
    held: Counter[str] = Counter()

    def may_take(tenant: str) -> bool:
        free = general - held.total()
        return free > min(rest, held[tenant] ** 2)

    for number, (tenant, is_new) in enumerate(steps):
        if is_new:
            ready.put_all([entry(number, tenant)])
            ready.put_all([entry(number, tenant)])
        elif held[tenant]:
            held[tenant] -= 1
            ready.ended_all([(tenant, Lane.MEDIUM, 0.1)])
        for began in ready.take(1, START):
            assert may_take(began.key.tenant_id)
            held[began.key.tenant_id] += 1
            break
        else:
            waiting = [t for t in "abcd" if ready.waiting(t, Lane.MEDIUM, 1)]
            assert not any(map(may_take, waiting))


def test_slots_are_free_again_whether_tasks_were_put_back_or_have_ended() -> None:
    """As many as before, in every lane."""
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(10, 5, 0.8), has_others=lambda _: True)
    for number in range(100):
        ready.put_all([entry(number, "a"), entry(number, "a", Lane.CRITICAL)])
    counts = set()
    for turn in range(6):
        taken = ready.take(100, START) + ready.take(100, START, urgent=True)
        lanes = Counter(began.lane for began in taken)
        counts.add((len(taken), lanes[Lane.CRITICAL] > 0, lanes[Lane.MEDIUM] > 0))
        for began in reversed(taken):
            if turn % 2:
                ready.ended_all([("a", began.lane, 0.05)])
            else:
                ready.put_back(began)
    assert counts == {(13, True, True)}
    assert ready.allows("b", Lane.MEDIUM)


def test_critical_tasks_that_have_ended_leave_their_own_slots_and_no_others() -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(10, 5, 0.8), has_others=lambda _: True)
    assert greedy(ready, "a") == 8
    for number in range(20):
        ready.put_all([entry(number, "b", Lane.CRITICAL)])
        (began,) = ready.take(1, START, urgent=True)
        ready.ended_all([("b", began.lane, 0.05)])
    assert ready.take(100, START) == [], "a holds what it may"
    assert greedy(ready, "c", Lane.CRITICAL) == 4


def test_who_held_too_much_is_not_owed_what_others_gained_meanwhile() -> None:
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(10, 0, 0.9), has_others=lambda _: True)
    ready.put_all([entry(number, "a") for number in range(100)])
    assert len(ready.take(10, START)) == 9
    ready.put_all([entry(number, "b") for number in range(300)])
    for _ in range(200):
        (began,) = ready.take(1, START)
        assert began.key.tenant_id == "b"
        ready.ended_all([("b", Lane.MEDIUM, 0.05)])
    ready.ended_all([("a", Lane.MEDIUM, 0.05)] * 9)
    served: Counter[str] = Counter()
    for _ in range(20):
        (began,) = ready.take(1, START)
        served[began.key.tenant_id] += 1
        ready.ended_all([(began.key.tenant_id, Lane.MEDIUM, 0.05)])
    assert abs(served["a"] - served["b"]) <= 2


def test_who_comes_while_long_tasks_run_and_nobody_waits_is_not_owed_their_time() -> None:
    ready: FairQueue[Entry] = FairQueue()
    ready.put_all([entry(0, "a")])
    ready.take(1, START)
    ready.runs([("a", 10.0)])
    for tenant in "ba":
        ready.put_all([entry(number, tenant) for number in range(1, 100)])
    assert Counter(e.key.tenant_id for e in ready.take(20, START)) == {"a": 10, "b": 10}


def test_who_has_nothing_critical_left_does_not_stand_in_the_way_of_others() -> None:
    """It holds all that it may, and comes before the other."""
    ready: FairQueue[Entry] = FairQueue(slots=SlotShares(10, 4, 0.9), has_others=lambda _: True)
    assert greedy(ready, "a") == 9
    ready.put_all([entry(number, "a", Lane.CRITICAL) for number in range(3)])
    assert len(ready.take(9, START, urgent=True)) == 3
    ready.put_all([entry(3, "b", Lane.CRITICAL)])
    assert [e.key.tenant_id for e in ready.take(9, START, urgent=True)] == ["b"]
