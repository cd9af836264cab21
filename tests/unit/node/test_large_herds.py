"""Large herds of the agenda: taken far ahead, in portions, and where nobody else needs the room."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.store.ports.dispatch import Entry

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def entry(number: int, due: float, lane: Lane = Lane.MEDIUM, tenant: str = "t") -> Entry:
    return Entry(TaskKey(tenant, UUID(int=number)), at(due), lane)


def large_herd(startable: int, count: int = 2500) -> Agenda:
    ready: FairQueue[Entry] = FairQueue()
    known = Agenda(ready, at(0), 10_000, startable=lambda _: startable)
    known.add([entry(n, 1.0) for n in range(count)])
    return known


def test_what_is_far_ahead_waits_where_it_would_take_up_room() -> None:
    known = large_herd(10_000)
    known.advance(at(0.9))
    assert known.take_early(1000, lambda _: True, 0) == []
    assert known.pause(at(0.9), 1.0) == pytest.approx(0.05)  # when it may
    assert len(known.take_early(1000, lambda _: True, 10)) == 10
    known.advance(at(0.95))
    assert len(known.take_early(1000, lambda _: True, 0)) == 1000


def test_of_thousands_a_portion_is_chosen_at_once() -> None:
    known = large_herd(9000, 10_000)
    known.advance(at(0.5))
    chosen = [known.take_early(0, lambda _: True, 12_000) for _ in range(5)]
    assert [len(each) for each in chosen] == [2000, 2000, 2000, 2000, 1000]  # that start at once
    assert known.take_early(0, lambda _: True, 12_000) == []
    assert len({e.key for each in chosen for e in each}) == 9000
    known.advance(at(1.0))
    assert known.ready == 1000


def test_nothing_critical_is_taken_far_ahead_and_all_of_it_is_soon() -> None:
    known = Agenda(FairQueue(), at(0), 10_000, startable=lambda _: 10_000)
    urgent = [entry(n, 1.0, Lane.CRITICAL) for n in range(2000)]
    known.add([*urgent, *[entry(n, 1.0) for n in range(2000, 3000)]])
    known.advance(at(0.9))
    chosen = known.take_early(5000, lambda _: True, 10_000)
    assert {e.lane for e in chosen} == {Lane.MEDIUM}
    assert len(chosen) == 1000
    assert known.take_early(5000, lambda _: True, 10_000) == []
    assert not known.has_herd()
    known.advance(at(0.95))
    assert len(known.take_early(5000, lambda _: True, 0)) == 2000


@pytest.mark.parametrize("has_others", [False, True])
def test_a_tenant_that_has_others_leaves_them_slots_until_its_herd_is_near(
    has_others: bool,
) -> None:
    shares = SlotShares(950, 50, 0.9)
    queue: FairQueue[Entry] = FairQueue(slots=shares, has_others=lambda _: has_others)
    known = Agenda(queue, at(0), 40_000, startable=lambda _: 12_000)
    known.add([entry(n, 1.0) for n in range(10_000)])
    known.advance(at(0.45))
    assert len(known.take_early(1700, lambda _: True, 12_000)) == (0 if has_others else 2000)
    known.add([entry(n, 0.5, tenant="b") for n in range(10_000, 10_200)])
    known.advance(at(0.5))
    assert len(known.take(1000, SuspectRoom(1, 10))) == 200


def test_a_large_herd_is_looked_at_once_and_not_at_every_tick() -> None:
    looks: list[int] = []

    def startable(entries: Sequence[Entry]) -> int:
        looks.append(len(entries))
        return 0

    known = Agenda(FairQueue(), at(0), 100_000, startable=startable)
    for herd_of in range(20):
        due = 0.7 + herd_of / 1000
        known.add([entry(2000 * herd_of + n, due) for n in range(1500)])
    known.advance(at(0.3))
    for _ in range(10):
        known.pause(at(0.3), 1.0)
        assert not known.has_herd()
    assert len(looks) <= 20
