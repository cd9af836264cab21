"""Thousands of tenants that wait while no slot is free: looking for one costs nearly nothing."""

import pytest
from tests.unit.fairness.fair_entries import START, entry, number_of

from gnomon.fairness import FairQueue
from gnomon.fairness.slot_shares import SlotShares
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

TENANTS = 1000


class Crowd:
    def __init__(self, lane: Lane) -> None:
        self.looks = 0
        self.queue: FairQueue[Entry] = FairQueue(slots=SlotShares(9, 1, 0.9), has_others=self._look)
        for number in range(TENANTS):
            self.queue.put_all([entry(number, tenant=f"t{number}", lane=lane)])

    def _look(self, _: str) -> bool:
        self.looks += 1
        return True


@pytest.mark.parametrize("urgent", [True, False])
def test_where_no_slot_is_free_nobody_is_looked_at(urgent: bool) -> None:
    crowd = Crowd(Lane.CRITICAL if urgent else Lane.LOW)
    queue = crowd.queue
    first = queue.take(TENANTS, START) + queue.take(TENANTS, START, urgent=True)
    assert [number_of(each) for each in first] == list(range(10 if urgent else 9))

    crowd.looks = 0
    for _ in range(3):
        assert queue.take(TENANTS, START, urgent=urgent) == []
    assert crowd.looks < 10

    queue.ended_all([("t3", first[3].lane, 0.01)])
    (following,) = queue.take(TENANTS, START, urgent=urgent)
    assert number_of(following) == len(first)
    assert crowd.looks < 20


def test_urgent_ones_come_by_tag() -> None:
    queue: FairQueue[Entry] = FairQueue()
    for number in range(6):
        queue.put_all([entry(number, tenant=f"t{number % 3}", lane=Lane.CRITICAL)])
    taken = [number_of(each) for each in queue.take(5, START, urgent=True)]
    assert taken == [0, 1, 2, 3, 4]


def test_the_heap_is_swept_when_most_of_it_is_of_no_use_and_not_before() -> None:
    """Sweeping takes as long as the heap is: not for every tenant that comes."""
    queue: FairQueue[Entry] = FairQueue()
    heap = queue._heap
    for number in range(TENANTS):
        queue.put_all([entry(number, tenant=f"t{number}"), entry(number, tenant=f"t{number}")])
    assert queue._heap is heap
    for _ in range(10):
        # Who was charged in vain moves ahead, and leaves an entry behind.
        for began in queue.take(TENANTS, START):
            queue.put_back(began)
    assert TENANTS <= len(queue._heap) <= 5 * TENANTS
