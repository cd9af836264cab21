"""Counts of activity are kept until they are written, within bounds."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.insight.activity import ALL_TYPES, ActivityKey, Counts
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.observe.counts import Counted, EndCount, StartCount
from gnomon.observe.events import TaskBatch, TasksSettled, TasksStarted
from gnomon.observe.tally import MOST_KEYS, ActivityTally
from gnomon.store.activity_writer import (
    MOST_MINUTES,
    MOST_NAMED,
    MOST_ROWS,
    ActivityWriter,
    NamedKeys,
)
from gnomon.store.ports.insight.activity import ActivityRow

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


class TurnedClock(SystemClock):
    """Shows the time that it was set to."""

    at = NOON

    def now(self) -> datetime:
        return self.at


class Shelf:
    """A store that refuses for as long as it is told to."""

    def __init__(self) -> None:
        self.refuses = False
        self.refuses_from: int | None = None  # so many rows on
        self.rows: list[ActivityRow] = []
        self.longest = 0  # of what was added at once

    async def add(self, rows: list[ActivityRow]) -> None:
        full = self.refuses_from is not None and len(self.rows) >= self.refuses_from
        self.longest = max(self.longest, len(rows))
        if self.refuses or full:
            raise StoreUnavailable("not now")
        self.rows += rows

    def started(self) -> Counter[tuple[str, str]]:
        sums = Counter[tuple[str, str]]()
        for row in self.rows:
            sums[row.key.tenant_id, row.key.task_type] += row.counts.started
        return sums


def started(*starts: tuple[str, str]) -> TasksStarted:
    counts = [
        StartCount(tenant, kind, Lane.HIGH, False, 1, [(0, 1)], 0.0) for tenant, kind in starts
    ]
    nothing: list[object] = []
    return TasksStarted(
        TaskBatch(lambda: iter(nothing)),  # type: ignore[arg-type]
        TaskBatch(lambda: iter(nothing)),  # type: ignore[arg-type]
        Counted(lambda: counts),
    )


def settled(outcome: OutcomeKind | None, state: State) -> TasksSettled:
    count = EndCount("a", "mail", Lane.LOW, False, outcome, False, state, 1, [(1, 1)], 0.5)
    nothing: list[object] = []
    return TasksSettled(
        TaskBatch(lambda: iter(nothing)),  # type: ignore[arg-type]
        Counted(lambda: [count]),
    )


@pytest.mark.parametrize(
    ("outcome", "state", "expected"),
    [
        (OutcomeKind.SUCCEEDED, State.COMPLETED, (1, 0, 0)),
        (OutcomeKind.FAILED, State.WAITING, (0, 1, 0)),
        (OutcomeKind.TIMED_OUT, State.WAITING, (0, 1, 0)),
        (OutcomeKind.LOST, State.DEAD, (0, 1, 1)),
        (OutcomeKind.FAILED, State.CANCELLED, (0, 0, 0)),
        (OutcomeKind.SNOOZED, State.WAITING, (0, 0, 0)),
        (OutcomeKind.PREEMPTED, State.WAITING, (0, 0, 0)),
        (None, State.DEAD, (0, 0, 1)),
        (None, State.WAITING, (0, 0, 0)),
    ],
)
def test_what_an_end_counts_as(
    outcome: OutcomeKind | None, state: State, expected: tuple[int, int, int]
) -> None:
    tally = ActivityTally(TurnedClock())
    tally(settled(outcome, state))
    counts = tally.take()[NOON][ActivityKey("a", "mail", Lane.LOW)]
    assert (counts.succeeded, counts.failed, counts.dead) == expected
    assert counts.seconds == 0.5
    assert tally.take() == {}


async def test_what_cannot_be_written_is_written_later_once() -> None:
    tally, shelf = ActivityTally(TurnedClock()), Shelf()
    writer = ActivityWriter(tally, shelf)
    shelf.refuses = True
    for _ in range(3):
        tally(started(("a", "mail"), ("a", "mail")))
        with pytest.raises(StoreUnavailable):
            await writer.run_once()
    shelf.refuses = False
    assert await writer.run_once() == 2, "the type, and all types"
    assert shelf.started() == {("a", "mail"): 6, ("a", ALL_TYPES): 6}
    assert await writer.run_once() == 0


async def test_of_much_a_part_is_written_at_a_time_and_each_row_once() -> None:
    tally, shelf = ActivityTally(TurnedClock()), Shelf()
    writer = ActivityWriter(tally, shelf)
    tally(started(*((f"t{n}", "mail") for n in range(8 * MOST_ROWS))))
    rows = 8 * MOST_ROWS + MOST_NAMED
    shelf.refuses_from = 2 * MOST_ROWS
    with pytest.raises(StoreUnavailable):
        await writer.run_once()
    assert len(shelf.rows) == 2 * MOST_ROWS
    shelf.refuses_from = None
    assert await writer.run_once() == (rows - 2 * MOST_ROWS) // 4
    tally(started(("t1", "mail"), ("t7999", "mail")))  # of which the second waits still
    while await writer.run_once():
        pass
    assert shelf.longest == MOST_ROWS
    assert len(shelf.rows) == rows + 2, "the first one, and its type, were written before"
    assert Counter(shelf.started().values()) == {1: rows - 3, 2: 3}
    assert shelf.started()["t7999", ALL_TYPES] == 2


async def test_all_that_is_left_is_written_at_the_end() -> None:
    clock, shelf = TurnedClock(), Shelf()
    tally = ActivityTally(clock)
    writer = ActivityWriter(tally, shelf)
    for minute in range(2):
        clock.at = NOON + timedelta(minutes=minute)
        tally(started(*((f"t{n}", "mail") for n in range(2 * MOST_ROWS))))
    await writer.run_once()
    assert {row.minute for row in shelf.rows} == {NOON}, "the earliest go first"
    await writer.finish()
    assert len(shelf.rows) == 2 * (2 * MOST_ROWS + MOST_NAMED)
    assert await writer.run_once() == 0


async def test_only_some_minutes_are_kept_while_nothing_can_be_written() -> None:
    clock, shelf = TurnedClock(), Shelf()
    tally = ActivityTally(clock)
    writer = ActivityWriter(tally, shelf)
    shelf.refuses = True
    for minute in range(100):
        clock.at = NOON + timedelta(minutes=minute)
        tally(started(("a", "mail")))
        with pytest.raises(StoreUnavailable):
            await writer.run_once()
    shelf.refuses = False
    await writer.run_once()
    kept = {row.minute for row in shelf.rows}
    assert kept == {NOON + timedelta(minutes=m) for m in range(100 - MOST_MINUTES, 100)}


async def test_types_beyond_the_bounds_are_counted_with_all_types() -> None:
    clock, shelf = TurnedClock(), Shelf()
    tally = ActivityTally(clock)
    writer = ActivityWriter(tally, shelf)
    tally(started(*(("noisy", f"t{n}") for n in range(MOST_KEYS + 500))))
    tally(started(*(("noisy", "busy") for _ in range(3)), ("quiet", "mail"), ("quiet", "x" * 201)))
    await writer.run_once()
    found = shelf.started()
    assert found["noisy", ALL_TYPES] == MOST_KEYS + 503
    assert found["quiet", ALL_TYPES] == 2
    assert found["quiet", "mail"] == 0, "the whole minute was full"
    assert sum(tenant == "noisy" for tenant, _ in found) == 51

    clock.at += timedelta(minutes=1)
    tally(started(("quiet", "mail"), ("quiet", "x" * 201)))
    await writer.run_once()
    found = shelf.started()
    assert found["quiet", "mail"] == 1
    assert ("quiet", "x" * 201) not in found


def named(keys: NamedKeys, hour: datetime, **weights: int) -> set[str]:
    counts = {
        ActivityKey(kind[0], kind, Lane.LOW): Counts(started=weight)
        for kind, weight in weights.items()
    }
    return {key.task_type for key in keys.among(hour, counts)}


def test_the_busiest_of_an_hour_are_named_in_the_next_one() -> None:
    keys = NamedKeys(4, 3)
    assert named(keys, NOON, a1=1, a2=2, a3=3, a4=4) == {"a2", "a3", "a4"}
    assert named(keys, NOON, a1=100, b1=1, b2=50) == {"b2"}
    assert named(keys, NOON, b1=99) == set(), "the room is used up"
    later = NOON + timedelta(hours=1)
    # Three quarters of the room are for those that were busiest, named or not.
    assert named(keys, later, a1=1, b1=1, b2=1, c1=1) == {"a1", "b1", "b2", "c1"}
    assert named(keys, later, a4=1000) == set()
    assert named(keys, NOON, a4=1000) == set(), "a minute that was kept, of the hour before"
