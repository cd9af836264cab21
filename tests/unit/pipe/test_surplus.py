"""What is held ahead of its time, beyond the room of the slots: counted once, and bounded."""

import asyncio
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.outcomes.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.model.tasks.priority import Lane
from gnomon.pipe.early_deliveries import EarlyDeliveries
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.testing.contracts.pipe import a_delivery

SLOTS = 8
TIME = 20.0


def held(number: int, at: float = TIME, lane: Lane = Lane.MEDIUM, fence: int = 1) -> Delivery:
    return msgspec.structs.replace(
        a_delivery(number, lane), not_before=at, start_by=at + 5, fence=fence
    )


def a_pipe() -> MemoryPipe:
    return MemoryPipe(SLOTS, lambda: None, prefetch=SLOTS, reserved=1, settling=4)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "pop", "remove", "of"]), st.integers(0, 5)), max_size=40
    )
)
def test_they_are_kept_as_a_sorted_list_would(steps: list[tuple[str, int]]) -> None:
    kept = EarlyDeliveries()
    model: list[Delivery] = []
    for fence, (step, n) in enumerate(steps):
        if step == "add":
            new = [held(n, TIME + n, fence=fence), held(n + 1, TIME, fence=fence)]
            kept.add(new)
            model = sorted(model + new, key=lambda d: d.not_before)
        elif step == "pop":
            popped = kept.pop(n)
            assert popped == model[:n]
            model = model[n:]
        elif step == "remove":
            asked = [*model[n : n + 3], held(n)]
            assert kept.remove(asked) == model[n : n + 3]
            model = model[:n] + model[n + 3 :]
        else:
            key = held(n).key
            of_key = {d.fence for d in model if d.key == key}
            assert {d.fence for d in kept.of(key, None)} == of_key
            assert kept.of(key, fence) == []
        assert kept.all() == model
        assert len(kept) == len(model)
        assert kept.first() == (model[0].not_before if model else None)
        assert kept.due(TIME + 2) == [d for d in model if d.not_before <= TIME + 2]
        assert kept.late(TIME + 7.5) == [d for d in model if d.start_by < TIME + 7.5]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "start", "run", "end", "back", "stop", "settle", "unsent"]),
        st.integers(0, 12),
        st.booleans(),
    ),
    max_size=50,
)


@given(STEPS)
async def test_room_is_taken_and_given_back_exactly_once(
    steps: list[tuple[str, int, bool]],
) -> None:
    pipe = a_pipe()
    before = pipe.room(), pipe.urgent_room(), pipe.surplus_room()
    known: list[Delivery] = []
    running: list[Delivery] = []
    ended: Counter[int] = Counter()

    def give_back(deliveries: list[Delivery]) -> None:
        for each in deliveries:
            pipe.report(Report(each))
            ended[each.fence] += 1

    def end(count: int) -> None:
        for _ in range(min(count, len(running))):
            each = running.pop(0)
            pipe.report(Report(each, SUCCESS, 1.0, 2.0))
            ended[each.fence] += 1

    async def settle() -> None:
        pipe.begun()
        if pipe._reports._waiting and not pipe._reports._paused:
            pipe.settled(await pipe.reports(5))

    for step, n, flag in steps:
        if step == "hold":
            lane = Lane.CRITICAL if flag else Lane.LOW
            new = [held(i, TIME + i % 2, lane, fence=len(known) + i) for i in range(n)]
            pipe.hold(new, surplus=n % 3 == 0)
            known += new
        elif step == "start":
            startable = pipe.startable(TIME + flag)
            pipe.start(startable[: n + 4] if n < 6 else startable)
        elif step == "run":
            while len(running) < n and (delivery := pipe.take()) is not None:
                running.append(delivery)
        elif step == "end":
            end(n)
        elif step == "back":
            give_back(pipe.take_back(known[n : n + 5] if flag else known[-n - 3 : -n - 1]))
        elif step == "stop":
            give_back(pipe.unstarted())
        elif step == "unsent" and flag:
            give_back(pipe.unsent())
        elif step == "settle":
            await settle()
    give_back(pipe.unsent())
    end(len(running))
    while pipe._reports._waiting:
        await settle()
    assert ended == Counter(each.fence for each in known)
    assert (pipe.room(), pipe.urgent_room(), pipe.surplus_room()) == before
    assert (pipe.next_start(), pipe.offered(), pipe.waiting()) == (None, 0, 0)


def test_a_surplus_takes_up_no_room_and_comes_behind_all_else() -> None:
    pipe = a_pipe()
    room = pipe.early_room()
    herd = [held(n) for n in range(room + 10)]
    pipe.hold(herd)
    left = pipe.room()
    assert left == SLOTS // 4
    assert pipe.surplus_room() > 0
    assert pipe.start(herd) == herd[:room]
    other = a_delivery(1000)
    pipe.send([other])
    taken = []
    while (delivery := pipe.take()) is not None:
        taken.append(delivery)
        pipe.report(Report(delivery, SUCCESS, 1.0, 2.0))
    assert taken == [*herd[:room], other, *herd[room:]]
    assert pipe.begun() == herd[room:]


def test_a_surplus_is_bounded_in_number() -> None:
    pipe = a_pipe()
    most = pipe.surplus_room()
    pipe.hold([held(n) for n in range(pipe.early_room() + most - 1)])
    assert pipe.surplus_room() == 1
    pipe.hold([held(-1 % 2**64), held(2**64)])
    assert pipe.surplus_room() == 0
    for each in pipe.take_back(pipe.startable(TIME)):
        pipe.report(Report(each))
    assert pipe.surplus_room() < 10  # until that is written
    assert pipe.room() > 0  # but others find room meanwhile


@pytest.mark.parametrize("apart", [False, True])
def test_a_surplus_is_bounded_in_bytes(apart: bool) -> None:
    pipe = a_pipe()
    size = 17 * 1024 * 1024
    large = [
        msgspec.structs.replace(
            held(n), payload=None if apart else bytes(size), payload_size=size if apart else None
        )
        for n in range(2)
    ]
    pipe.hold(large[:1])
    assert pipe.surplus_room() > 0
    pipe.hold(large[1:])
    assert pipe.surplus_room() == 0
    assert len(pipe.take_back(large[:1])) == 1
    assert pipe.surplus_room() > 0


async def test_large_results_are_written_before_more_of_a_surplus_starts() -> None:
    pipe = a_pipe()
    herd = [held(n) for n in range(pipe.early_room() + 10)]
    pipe.hold(herd)
    direct = pipe.start(herd)
    result = "x" * (20 * 1024 * 1024)
    ran = 0
    while (delivery := pipe.take()) is not None:
        ran += 1
        outcome = Outcome(OutcomeKind.SUCCEEDED, result=result)
        pipe.report(Report(delivery, outcome, 1.0, 2.0))
    assert ran == len(direct)
    reports = await pipe.reports(100)  # though some are offered
    pipe.settled(reports)
    assert pipe.take() is not None


def test_a_surplus_waits_for_no_slot_that_is_busy() -> None:
    pipe = a_pipe()
    pipe.send([a_delivery(n) for n in range(SLOTS // 2)])
    assert pipe.surplus_room() == 0


async def test_what_was_taken_back_of_it_before_is_not_counted_at_the_start() -> None:
    pipe = a_pipe()
    before = pipe.room()
    herd = [held(n) for n in range(pipe.early_room() + 10)]
    pipe.hold(herd)
    back = pipe.take_back(herd[1:4])
    for each in back:
        pipe.report(Report(each))
    pipe.start(pipe.startable(TIME))
    while (delivery := pipe.take()) is not None:
        pipe.report(Report(delivery, SUCCESS, 1.0, 2.0))
    assert len(pipe.begun()) == 7  # of the surplus
    pipe.settled(await pipe.reports(1000))
    assert pipe.room() == before


async def test_reports_are_read_once_nothing_is_offered_though_nobody_asks_what_has_begun() -> None:
    pipe = a_pipe()
    herd = [held(n) for n in range(100)]
    pipe.hold(herd)
    pipe.start(herd)
    while (delivery := pipe.take()) is not None:
        pipe.report(Report(delivery, SUCCESS, 1.0, 2.0))
    assert not pipe._reports._paused
    async with asyncio.timeout(20):
        assert len(await pipe.reports(1000)) == 100


async def test_reports_are_read_though_what_is_offered_stays_so() -> None:
    pipe = a_pipe()
    herd = [held(n) for n in range(100)]
    pipe.hold(herd)
    pipe.start(herd[:50])
    delivery = pipe.take()
    assert delivery is not None
    pipe.report(Report(delivery, SUCCESS, 1.0, 2.0))
    async with asyncio.timeout(20):
        assert len(await pipe.reports(1000)) == 1
    pipe.start(herd[50:])  # more of the same do not stop it again
    assert pipe.offered()
    assert not pipe._reports._paused


def test_what_is_far_ahead_takes_up_no_room_though_there_is_some() -> None:
    pipe = a_pipe()
    room, urgent_room = pipe.room(), pipe.urgent_room()
    herd = [held(n) for n in range(20)]
    pipe.hold(herd, surplus=True)
    assert (pipe.room(), pipe.urgent_room()) == (room, urgent_room)
    assert pipe.start(herd) == []
    assert pipe.offered() == 20
    taken = []
    while (delivery := pipe.take()) is not None:
        taken.append(delivery)
        pipe.report(Report(delivery, SUCCESS, 1.0, 2.0))
    assert taken == herd


def test_what_has_started_is_not_kept() -> None:
    kept = EarlyDeliveries()
    kept.add([held(n) for n in range(100)])
    assert [len(kept.pop(50)) for _ in range(3)] == [50, 50, 0]
    kept.add(herd := [held(n) for n in range(100)])
    assert len(kept.remove(herd)) == 100
    assert kept._order == []
    kept.add(herd)
    assert len(kept.pop(100)) == 100
    assert kept._order == []
