"""The bound of aging: no task waits longer because of its priority, as far as that can be had."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fairness.fair_entries import at, entry

from gnomon.fairness import FairQueue
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

BOUND = 60.0
TURN = 0.5  # seconds in which one task starts
QUARTER = int(BOUND / 4 / TURN)  # turns
lanes = st.sampled_from(Lane)


class Server:
    """Starts one task at every turn, in simulated time."""

    def __init__(self) -> None:
        self.ready: FairQueue[Entry] = FairQueue(bound=timedelta(seconds=BOUND))
        self.now = 0.0
        self.due: dict[Lane, list[float]] = {lane: [] for lane in Lane}  # of what waits
        self.waits: dict[Lane, list[float]] = {lane: [] for lane in Lane}
        self._numbers = count()

    def put(self, lane: Lane, count: int, due: float | None = None) -> None:
        due = self.now if due is None else due
        self.due[lane] += [due] * count
        self.ready.put_all(entry(next(self._numbers), lane=lane, due=due) for _ in range(count))

    def turn(self) -> None:
        self.now += TURN
        for taken in self.ready.take(1, at(self.now)):
            self.ready.ended_all([(taken.key.tenant_id, taken.lane, TURN)])
            self.waits[taken.lane].append(self.now - self.due[taken.lane].pop(0))

    def late(self) -> int:
        """How many have waited for half of the bound or longer."""
        return sum(self.now - due >= BOUND / 2 for lane in Lane for due in self.due[lane])


def bucket(draws: Random, rate: float, burst: int) -> Iterator[int]:
    """Arrivals at each turn: no more than so many a turn over any time, beside one burst."""
    tokens = float(burst)
    eager = draws.choice([0.02, 0.1, 1.0])
    while True:
        come = int(tokens) if draws.random() < eager else 0
        tokens = min(burst, tokens - come + rate)
        yield come


Others = Callable[[Server, Lane], None]


def always_busy(server: Server, lane: Lane) -> None:
    server.put(lane, 4 - len(server.due[lane]))


def beyond_saving(server: Server, lane: Lane) -> None:
    if not server.due[lane]:
        server.put(lane, 2000, due=-2 * BOUND)


def absent(server: Server, lane: Lane) -> None:
    """Nothing is put."""


@settings(deadline=None, max_examples=25)
@given(
    lanes,
    st.fixed_dictionaries(
        {lane: st.sampled_from([always_busy, beyond_saving, absent]) for lane in Lane}
    ),
    st.integers(1, QUARTER - 1),
    st.randoms(use_true_random=False),
)
def test_what_comes_at_half_of_the_rate_never_waits_beyond_the_bound(
    lane: Lane, others: dict[Lane, Others], burst: int, draws: Random
) -> None:
    """Whatever the lane is, and whether the others are busy with what is new or have been waiting
    for far too long."""
    server = Server()
    arrivals = bucket(draws, 0.5, burst)
    for _ in range(16 * QUARTER):
        server.put(lane, next(arrivals))
        for other in set(Lane) - {lane}:
            others[other](server, other)
        server.turn()
        assert all(server.now - due <= BOUND for due in server.due[lane][:1])
    assert max(server.waits[lane], default=0.0) <= BOUND


@settings(deadline=None, max_examples=25)
@given(
    st.fixed_dictionaries({lane: st.sampled_from([0.0, 0.1, 0.3, 0.6]) for lane in Lane}),
    st.integers(1, 2 * QUARTER),
    st.randoms(use_true_random=False),
)
def test_nobody_waits_beyond_the_bound_while_few_have_waited_for_half_of_it(
    rates: dict[Lane, float], burst: int, draws: Random
) -> None:
    """Few: as many as start in a quarter of it, of all lanes together."""
    server = Server()
    arrivals = {lane: bucket(draws, rate, burst) for lane, rate in rates.items() if rate}
    for _ in range(16 * QUARTER):
        for lane, comes in arrivals.items():
            server.put(lane, next(comes))
        server.turn()
        if server.late() > QUARTER:
            return
        assert all(server.now - due[0] <= BOUND for due in server.due.values() if due)


@pytest.mark.parametrize("lane", [Lane.HIGH, Lane.MEDIUM, Lane.LOW])
def test_by_weight_alone_they_would(lane: Lane) -> None:
    """So that the above says something: without aging in time, the same arrivals wait longer."""
    server = Server()
    server.ready = FairQueue(bound=timedelta(hours=1))
    arrivals = bucket(Random(1), 0.5, QUARTER - 1)
    for _ in range(16 * QUARTER):
        server.put(lane, next(arrivals))
        for other in set(Lane) - {lane}:
            always_busy(server, other)
        server.turn()
    assert max(server.waits[lane]) > BOUND


@settings(deadline=None, max_examples=20)
@given(st.sets(lanes, min_size=1, max_size=3), st.integers(1, 500))
def test_what_is_new_keeps_half_of_its_share_however_much_is_old(old: set[Lane], each: int) -> None:
    """Old tasks that have been waiting for longer than the bound, for nearly as long, or for half
    of it."""
    for age in (3.0, 0.99, 0.5):
        server = Server()
        new = sorted(set(Lane) - old)
        for lane in old:
            server.put(lane, 500, due=-age * BOUND)
        for _ in range(each):
            for lane in new:
                always_busy(server, lane)
            server.turn()
        served = Counter({lane: len(server.waits[lane]) for lane in Lane})
        weights = {lane: 4 - lane for lane in Lane}
        for lane in new:
            assert served[lane] >= int(each / 2) * weights[lane] / 10 - 4


def test_among_those_that_can_be_saved_the_earlier_goes_first() -> None:
    server = Server()
    server.put(Lane.HIGH, 9, due=-3 * BOUND)  # beyond saving
    server.put(Lane.MEDIUM, 9, due=-0.8 * BOUND)
    server.put(Lane.LOW, 4, due=-0.9 * BOUND)
    server.put(Lane.CRITICAL, 9)
    taken = [e.lane for e in server.ready.take(16, at(0))]
    assert taken[0::2] == [Lane.LOW] * 4 + [Lane.MEDIUM] * 4


def test_an_extra_turn_is_not_used_up_by_what_is_not_admitted() -> None:
    ready: FairQueue[Entry] = FairQueue(bound=timedelta(seconds=BOUND))
    for number in range(20):
        ready.put_all([entry(number, lane=Lane.LOW, flow=1 + min(number, 9))])
        ready.put_all([entry(number, lane=Lane.CRITICAL, due=BOUND / 2)])
    taken = ready.take(8, at(BOUND / 2), lambda e: e.lane is not Lane.LOW or e.flow == 10)
    assert [e.lane for e in taken[0::2]] == [Lane.LOW] * 4
