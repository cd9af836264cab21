"""The agenda: each task once, never early, suspects where there is room for them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda, tick_at_or_after, tick_at_or_before
from gnomon.node.ahead.suspects import SuspectRoom
from gnomon.store.ports.dispatch import Entry

START = datetime(2026, 1, 1, tzinfo=UTC)


def agenda(window: int = 100) -> Agenda:
    return Agenda(FairQueue(), START, window)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def entry(number: int, due: float = 0.0, *, suspect: bool = False, flow: int = 0) -> Entry:
    return Entry(TaskKey("t", UUID(int=number)), at(due), Lane.MEDIUM, int(suspect), flow=flow)


def room(*, suspect: bool = True) -> SuspectRoom:
    """For one suspect, or for none."""
    return SuspectRoom(4, 2, is_open=lambda: suspect)


def taken(agenda: Agenda, most: int = 100, *, suspect: bool = True) -> list[int]:
    return [e.key.id.int for e in agenda.take(most, room(suspect=suspect))]


def test_ticks_round_away_from_early() -> None:
    moment = START + timedelta(microseconds=1)
    assert tick_at_or_after(moment) == tick_at_or_before(moment) + 1
    assert tick_at_or_after(START) == tick_at_or_before(START)


def test_nothing_is_ready_before_its_time() -> None:
    known = agenda()
    known.add([entry(1, 1.0), entry(2, 2.0)])
    assert known.advance(at(0.999)) == 0
    assert (known.ready, taken(known)) == (0, [])
    assert known.advance(at(1.0)) == 1
    assert (known.ready, taken(known)) == (1, [1])
    known.advance(at(60))
    assert taken(known) == [2]


def test_what_the_store_has_just_made_due_waits_for_no_tick() -> None:
    known = agenda()
    known.add([entry(1, 0.0004, flow=7), entry(2, 0.0004)], due=True)
    assert taken(known) == [1], "the other may be of a flow that is set aside"
    known.advance(at(0.001))
    assert taken(known) == [2]


def test_a_task_is_known_until_it_is_forgotten() -> None:
    known = agenda()
    assert known.add([entry(1), entry(1), entry(2)]) == 2
    assert known.add([entry(1)]) == 0
    known.advance(at(1))
    assert taken(known) == [1, 2]
    assert known.add([entry(1)]) == 0  # being claimed
    known.forget([entry(1).key])
    assert known.add([entry(1)]) == 1


def test_room_is_what_the_window_leaves() -> None:
    known = agenda(window=3)
    known.add([entry(1), entry(2, 50)])
    assert (len(known), known.room()) == (2, 1)
    known.advance(at(1))
    taken(known)
    assert known.room() == 1
    known.forget([entry(1).key])
    assert known.room() == 2


def test_suspects_are_taken_where_there_is_room_for_them() -> None:
    known = agenda()
    known.add([entry(1, suspect=True), entry(2, suspect=True), entry(3)])
    known.advance(at(1))
    assert known.ready == 3
    assert taken(known, 0) == []
    assert taken(known, suspect=False) == [3]
    assert taken(known) == [1]
    assert taken(known) == [2]


def test_a_suspect_that_is_not_admitted_holds_up_no_other() -> None:
    known = agenda()
    known.add([entry(number, suspect=True) for number in range(3)])
    known.advance(at(1))
    (second,) = known.take(10, room(), lambda e: e.key.id.int == 1)
    assert second.key.id.int == 1
    assert known.take(10, room(), lambda _: False) == []
    assert not known.awaits(room()), "its slots are for what can be stolen"
    known.add([entry(4, due=2, suspect=True)])
    known.advance(at(3))
    assert known.awaits(room())
    assert sorted(number for _ in range(3) for number in taken(known)) == [0, 2, 4]


def test_what_is_put_back_is_ready_as_before() -> None:
    known = agenda()
    entries = [entry(1, suspect=True), entry(2), entry(3, suspect=True)]
    known.add(entries)
    known.advance(at(1))
    chosen = known.take(2, room())
    known.put_back(chosen)
    assert known.ready == 3
    assert taken(known) == [1, 2]
    assert known.add(entries) == 0


def test_what_is_put_back_keeps_its_order() -> None:
    known = agenda()
    known.add([entry(number) for number in range(4)])
    known.advance(at(1))
    known.put_back(known.take(3, room()))
    assert taken(known) == [0, 1, 2, 3]


def test_a_tenant_that_may_hold_no_more_leaves_the_slots_to_what_can_be_stolen() -> None:
    slots = SlotShares(general=10, share=0.9)
    ready: FairQueue[Entry] = FairQueue(slots=slots, has_others=lambda _: True)
    known = Agenda(ready, START, 100)
    known.add([entry(number) for number in range(20)])
    known.advance(at(1))
    assert known.awaits(room())
    assert len(known.take(20, room())) == 9
    assert not known.awaits(room())
    assert not known.steal(entry(100), room())
    other = Entry(TaskKey("other", UUID(int=101)), START, Lane.MEDIUM)
    assert not known.steal(other, room(), lambda _: False)
    assert known.steal(other, room())
    known.ended_all([("t", Lane.MEDIUM, 1.0), ("t", Lane.MEDIUM, None)])
    assert known.awaits(room())
    assert len(known.take(20, room())) == 1


def test_a_known_task_can_be_looked_at_again_later() -> None:
    known = agenda()
    known.add([entry(1)])
    known.advance(at(1))
    (chosen,) = known.take(1, room())
    known.again(chosen, at(2))
    assert (known.advance(at(1.9)), known.ready) == (0, 0)
    assert (known.advance(at(2)), taken(known)) == (1, [1])


def test_a_task_that_was_brought_forward_comes_at_its_new_time_and_once() -> None:
    known = agenda()
    known.add([entry(1, 10.0)])
    assert known.add([entry(1, 2.0)]) == 1
    assert len(known) == 1
    assert (known.advance(at(2)), taken(known)) == (1, [1])
    assert (known.advance(at(60)), known.ready) == (0, 0)


def test_a_task_that_was_put_off_comes_at_its_old_time_to_be_looked_at() -> None:
    known = agenda()
    known.add([entry(1, 1.0)])
    assert known.add([entry(1, 10.0)]) == 0
    known.advance(at(1))
    assert taken(known) == [1]


def test_a_ready_task_whose_priority_was_raised_is_taken_by_it() -> None:
    known = agenda()
    known.add([entry(number) for number in range(3)])
    known.advance(at(1))
    raised = Entry(entry(2).key, at(0), Lane.CRITICAL)
    assert known.add([raised]) == 1
    known.advance(at(1))
    assert known.take_urgent(10) == [raised]
    known.forget([raised.key])
    assert known.add([raised]) == 1


def test_a_ready_task_is_not_made_ready_twice() -> None:
    known = agenda()
    known.add([entry(1, 1.0)])
    known.advance(at(5))
    assert known.add([entry(1, 0.5)]) == 0
    known.advance(at(6))
    assert taken(known) == [1]


def test_the_next_tick_is_no_later_than_what_comes_next() -> None:
    known = agenda()
    assert known.next_tick() is None
    known.add([entry(1, 5.0)])
    tick = known.next_tick()
    assert tick is not None
    assert tick <= tick_at_or_after(at(5.0))


@pytest.mark.parametrize("due", [0.002, 0.25, 0.999, 3.5, 7200.0])
def test_who_sleeps_for_as_long_as_it_says_wakes_in_time_and_seldom(due: float) -> None:
    known = agenda()
    assert known.pause(at(0), 1.0) == 1.0
    known.add([entry(1, due)])
    now, looks = 0.0, 0
    while not taken(known):
        pause = known.pause(at(now), 1.0)
        assert 0.001 <= pause <= 1.0
        now, looks = round(now + pause, 6), looks + 1
        known.advance(at(now))
    assert due <= now < due + 0.003
    assert looks <= due + 10


def herd(due: float = 1.0, count: int = 40, first: int = 1) -> list[Entry]:
    return [entry(first + n, due) for n in range(count)]


def early(agenda: Agenda, most: int = 100, plain: bool = True) -> list[int]:
    return [e.key.id.int for e in agenda.take_early(most, lambda _: plain)]


def test_many_that_are_due_at_once_can_be_taken_a_little_before() -> None:
    known = agenda(1000)
    known.add([*herd(), entry(500, 0.99)])
    known.advance(at(0.949))
    assert (known.has_herd(), early(known)) == (False, [])
    known.advance(at(0.95))
    assert known.has_herd()
    assert early(known, 30) == list(range(1, 31))
    assert (known.has_herd(), early(known)) == (False, [])
    known.advance(at(1.0))
    assert taken(known) == [500, *range(31, 41)]  # the others at their time, and none twice


def test_what_is_given_back_early_comes_at_its_time_and_not_early_again() -> None:
    known = agenda(1000)
    known.add(herd())
    known.advance(at(0.96))
    for each in known.take_early(100, lambda _: True):
        known.ended_all([("t", each.lane, None)])
        known.again(each, each.due_at)
    assert early(known) == []
    assert known.pause(at(0.96), 1.0) == pytest.approx(0.04)
    known.advance(at(0.999))
    assert known.ready == 0
    known.advance(at(1.0))
    assert taken(known) == list(range(1, 41))


def test_few_suspects_runs_and_what_is_not_plain_are_not_taken_early() -> None:
    for entries, plain in (
        (herd(count=31), True),
        (herd(), False),
        ([entry(n, 1.0, suspect=True) for n in range(40)], True),
        ([Entry(e.key, e.due_at, e.lane, recurring=True) for e in herd()], True),
    ):
        known = agenda(1000)
        known.add(entries)
        known.advance(at(0.97))
        assert early(known, plain=plain) == []
        known.advance(at(1.0))
        assert known.ready == len(entries)


def test_nothing_is_taken_early_while_anything_is_due_or_set_aside() -> None:
    known = agenda(1000)
    known.add([*herd(), entry(500, 0.0, flow=7)])
    known.advance(at(0.97))
    assert (known.has_herd(), early(known)) == (False, [])
    assert known.take(10, room(), lambda _: False) == []  # set aside
    assert (known.ready, known.has_herd(), early(known)) == (0, False, [])
    known.let_in([("t", 7)])
    assert taken(known) == [500]
    assert len(early(known)) == 40


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60)), max_size=8),
    st.lists(st.integers(1, 40), min_size=1, max_size=60),
)
def test_each_is_taken_once_and_never_more_than_a_little_early(
    herds: list[tuple[int, int]], steps: list[int]
) -> None:
    known = agenda(10_000)
    entries = [
        entry(1000 * number + n, ms / 1000)
        for number, (ms, count) in enumerate(herds)
        for n in range(count)
    ]
    known.add(entries)
    got: list[Entry] = []
    now = 0
    for step in (*steps, 1000):
        now += step
        known.advance(at(now / 1000))
        due = known.take(10_000, room())
        assert all(e.due_at <= at(now / 1000) for e in due)
        soon = known.take_early(50, lambda _: True)
        assert all(at(now / 1000) < e.due_at <= at((now + 50) / 1000) for e in soon)
        got += [*due, *soon]
    assert sorted(e.key for e in got) == sorted(e.key for e in entries)


def test_what_is_the_business_of_others_uses_up_no_turns() -> None:
    known = agenda()
    high = [Entry(TaskKey("t", UUID(int=n)), at(0), Lane.HIGH) for n in range(20)]
    low = [Entry(TaskKey("t", UUID(int=100 + n)), at(0), Lane.LOW) for n in range(20)]
    known.add([*high, *low, entry(200, 60.0), entry(201, 60.0), entry(202, suspect=True)])
    known.advance(at(1))
    known.retain(lambda entries: [e for e in entries if e.key.id.int % 4 == 0])
    assert (len(known), known.ready) == (11, 10)
    got = taken(known, 8)
    assert [n for n in got if n < 100] == [0, 4, 8, 12, 16]
    assert [n for n in got if n >= 100] == [100, 104, 108]
    assert known.add([high[1]]) == 1
    known.advance(at(61))
    assert sorted(taken(known)) == [1, 112, 116, 200]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 5), st.integers(0, 3000), st.booleans()),
        st.tuples(st.just("advance"), st.integers(0, 1500), st.just(0), st.just(False)),
        st.tuples(st.just("take"), st.integers(0, 3), st.integers(0, 2), st.booleans()),
    ),
    max_size=40,
)


@given(STEPS)
def test_against_a_model(steps: list[tuple[str, int, int, bool]]) -> None:
    """Whatever is added comes out once, at its earliest known time or later (at once, where that
    has passed), and then again only after it was forgotten, looked at again, or put back."""
    known, now = agenda(), 0
    due: dict[int, int] = {}  # task -> the earliest time it is kept for, in ms
    fired: set[int] = set()
    for what, first, second, flag in steps:
        if what == "add":
            moment = now + second
            known.add([entry(first, moment / 1000, suspect=flag, flow=first % 2)])
            if first not in due or (first not in fired and moment < due[first]):
                due[first] = moment
                fired |= {first} if moment <= now else set()
        elif what == "advance":
            now += first
            known.advance(at(now / 1000))
            fired |= {n for n, moment in due.items() if moment <= now}
            assert known.ready == len(fired)
        else:
            chosen = known.take(first, room(suspect=flag))
            numbers = [e.key.id.int for e in chosen]
            assert len(set(numbers)) == len(numbers) <= first
            assert set(numbers) <= fired
            assert sum(e.losses for e in chosen) <= flag
            if second == 0:
                known.put_back(chosen)
            else:
                known.forget(e.key for e in chosen)
                fired -= set(numbers)
                for number in numbers:
                    del due[number]
        assert len(known) == len(due)


def test_a_task_that_was_changed_while_it_was_due_is_kept_as_what_it_is() -> None:
    queue = FairQueue[Entry](slots=SlotShares(8, 0, 0.5), has_others=lambda _: True)
    known = Agenda(queue, START, 100)
    known.add([entry(1, flow=1), entry(2, flow=1)])
    for flow in (2, 3):
        known.add([entry(1, flow=flow)])
    chosen = known.take(10, room())
    assert sorted(e.key.id.int for e in chosen) == [1, 1, 1, 2]
    assert not queue.allows("t", Lane.MEDIUM)
    assert {(e.key.id.int, e.flow) for e in known.once(chosen)} == {(1, 3), (2, 1)}
    for _ in range(2):
        assert queue.allows("t", Lane.MEDIUM)
        queue.started("t", Lane.MEDIUM)
    assert not queue.allows("t", Lane.MEDIUM), "two of the four are held"


def test_what_is_there_once_stays_in_its_order() -> None:
    chosen = [entry(n) for n in (3, 1, 2)]
    assert agenda().once(chosen) is chosen


def test_what_is_let_in_while_others_are_taken_is_so_afterwards() -> None:
    """Whoever refuses one flow may thereby have something for another."""
    queue = FairQueue[Entry](slots=SlotShares(4, 0, 0.5), has_others=lambda _: True)
    known = Agenda(queue, START, 100)
    known.add(entry(n, flow=1) for n in range(10))
    assert known.take(10, room(), lambda _: False) == []
    known.add([entry(10, flow=2)])

    def first_alone(of: Entry) -> bool:
        return of.flow == 1 or not known.let_in([("t", 1)])

    found: list[Entry] = []
    for left in (10, 8, 6, 4, 2, 0):
        chosen = known.take(10, room(), first_alone)
        known.ended_all(("t", e.lane, 0.1) for e in chosen)
        found += chosen
        assert known.ready == left
        assert queue.offers() == (left > 0)
    assert [e.key.id.int for e in found] == [*range(10)]
    assert known.let_in([("t", 2)])
    assert taken(known) == [10]


def large_herd(startable: int, count: int = 2500) -> Agenda:
    ready: FairQueue[Entry] = FairQueue()
    known = Agenda(ready, at(0), 10_000, startable=lambda _: startable)
    known.add([entry(n, 1.0) for n in range(count)])
    return known


def test_a_large_herd_that_starts_at_once_can_be_taken_further_ahead() -> None:
    known = large_herd(10_000)
    known.advance(at(0.5))
    assert known.pause(at(0.5), 1.0) == pytest.approx(0.325)  # 50 ms, and 2 500 of 20 a millisecond
    known.advance(at(0.824))
    assert not known.has_herd()
    known.advance(at(0.825))
    assert known.has_herd()
    assert not known.has_herd(before=at(1.0))
    assert known.has_herd(before=at(1.001))
    assert len(known.take_early(100, lambda _: True, 2000)) == 2000
    known.advance(at(0.949))
    assert known.take_early(100, lambda _: True) == []
    known.advance(at(0.95))
    assert len(known.take_early(100, lambda _: True)) == 100
    known.advance(at(1.0))
    assert known.ready == 400


@pytest.mark.parametrize("startable", [0, 100, 1000])
def test_one_that_does_not_waits_like_any_other(startable: int) -> None:
    known = large_herd(startable)
    known.advance(at(0.6))
    assert known.pause(at(0.6), 1.0) == pytest.approx(0.35)
    known.advance(at(0.949))
    assert not known.has_herd()
    known.advance(at(0.95))
    assert len(known.take_early(100, lambda _: True, 2000)) == max(100, startable)


def test_what_was_not_asked_for_may_be_taken_early_again() -> None:
    known = large_herd(10_000)
    known.advance(at(0.825))
    chosen = known.take_early(100, lambda _: True, 2400)
    known.ended_all([("t", each.lane, None) for each in chosen[500:]])
    known.forget([each.key for each in chosen[:500]])
    known.not_yet(chosen[500:])
    assert known.has_herd()
    assert len(known.take_early(0, lambda _: True, 3000)) == 2000


def test_a_herd_that_comes_sooner_is_taken_first() -> None:
    known = large_herd(10_000)
    known.add([entry(n, 0.9) for n in range(10_000, 10_040)])
    known.advance(at(0.851))
    assert known.has_herd(before=at(1.0))
    assert len(known.take_early(100, lambda _: True, 3000)) == 40
    assert len(known.take_early(100, lambda _: True, 3000)) == 2500
