"""What an error of a chore leads to: noted, counted, retried later, and blamed on the right one."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest
from structlog.testing import capture_logs

from gnomon.chores import (
    THE_CHORE,
    About,
    Chores,
    Trouble,
    TroubleKeeper,
    Troubles,
    every,
    isolated,
    one_by_one,
)
from gnomon.chores.troubles import (
    FIRST_PAUSE,
    LONGEST_ASIDE,
    LONGEST_PAUSE,
    LONGEST_PAUSE_UNAVAILABLE,
    MOST_KEPT,
)
from gnomon.clock import SystemClock
from gnomon.model.errors import (
    BrokenInvariant,
    LeaseLost,
    StatementRefused,
    StoreError,
    StoreExhausted,
    StoreUnavailable,
    Unstorable,
)
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.store.postgres.refusals import of_driver, translated

HOUSE = About("acme", "task 7")


class World:
    def __init__(self) -> None:
        self.time = 0.0
        self.metrics = ApiMetrics()
        self.clock = SystemClock(lambda: self.time)
        self.troubles = Troubles(self.clock, self.metrics)
        self.chores = Chores(self.clock, self.troubles)


class Sleeps(SystemClock):
    """A clock by which every sleep lasts for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.Event().wait()


async def test_chores_that_no_task_waits_for_begin_one_after_the_other() -> None:
    clock, done = Sleeps(), asyncio.Event()
    chores = Chores(clock, Troubles(clock, ApiMetrics()))

    async def once() -> None:
        done.set()

    later = one_by_one([every(name, once, clock, 60.0) for name in "abcd"], 1.0)
    running = [asyncio.create_task(chores.run(each)) for each in later]
    await asyncio.sleep(0)
    assert (sorted(clock.slept), done.is_set()) == ([0.25, 0.5, 0.75, 1.0], False)
    at_once = asyncio.create_task(chores.run(every("e", once, clock, 60.0)))
    await done.wait()
    for each in (*running, at_once):
        each.cancel()


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("08006", StoreUnavailable),
        ("40001", StoreUnavailable),
        ("40P01", StoreUnavailable),
        ("53100", StoreExhausted),
        ("53300", StoreExhausted),
        ("55P03", StoreUnavailable),
        ("57014", StoreExhausted),
        ("57P01", StoreUnavailable),
        ("25006", StoreUnavailable),
        ("22P05", Unstorable),
        ("54000", Unstorable),
        ("23514", Unstorable),
        ("23505", StatementRefused),
        ("42501", StatementRefused),
        ("XX000", StatementRefused),
        ("P0001", StatementRefused),
        ("ZZ999", StatementRefused),
    ],
)
def test_every_sqlstate_means_one_of_three(sqlstate: str, meaning: type[StoreError]) -> None:
    error = of_driver(asyncpg.PostgresError.new({"C": sqlstate, "M": "no"}))
    assert type(error) is meaning
    assert error.sqlstate == sqlstate
    assert sqlstate in str(error)


def test_no_error_of_the_driver_is_left_out() -> None:
    known = [c for c in vars(asyncpg.exceptions).values() if isinstance(c, type)]
    errors = [c for c in known if issubclass(c, Exception) and not issubclass(c, Warning)]
    assert len(errors) > 200
    for kind in errors:
        if not issubclass(kind, asyncpg.exceptions.PostgresLogMessage):
            with pytest.raises(StoreError), translated():
                raise kind("no")


@pytest.mark.parametrize(
    "error", [OSError("gone"), TimeoutError(), UnicodeEncodeError("u", "", 0, 1, "?")]
)
def test_nor_what_comes_from_below(error: Exception) -> None:
    with pytest.raises(StoreError), translated():
        raise error


async def test_an_error_is_noted_and_over_when_it_goes_well() -> None:
    world = World()

    async def fail() -> None:
        raise StatementRefused("no", "42501")

    async def succeed() -> int:
        return 7

    pauses = [await world.chores.run_once("chore", fail) for _ in range(12)]
    assert pauses[:3] == [0.05, 0.1, 0.2]
    assert pauses[-1] == LONGEST_PAUSE
    (trouble,) = world.troubles.all()
    assert (trouble.chore, trouble.about, trouble.sqlstate) == ("chore", THE_CHORE, "42501")
    assert trouble.count == 12
    counted = world.metrics.registry.get_sample_value(
        "gnomon_chore_errors_total", {"chore": "chore"}
    )
    assert counted == 12
    assert await world.chores.run_once("chore", succeed) is None
    assert world.troubles.all() == []


async def test_who_takes_on_work_yields_while_postgresql_is_exhausted() -> None:
    world = World()
    chances = iter([0.0, 0.5, 0.999] * 10)
    world.troubles = Troubles(world.clock, world.metrics, lambda: next(chances))
    world.chores = Chores(world.clock, world.troubles)

    async def fail() -> None:
        raise of_driver(TimeoutError())  # no connection of the pool within its time

    others = [await world.chores.run_once("record", fail) for _ in range(12)]
    assert others[-1] == LONGEST_PAUSE_UNAVAILABLE
    pauses = [await world.chores.run_once("dispatch", fail, yields=True) for _ in range(12)]
    assert pauses[:3] == pytest.approx([0.25, 0.75, 1.999])
    assert pauses[-3:] == pytest.approx([5.0, 7.5, 9.995])

    async def away() -> None:
        raise of_driver(ConnectionRefusedError(111, "refused"))

    # It comes back at some moment, and is not slower for those who ask.
    assert await world.chores.run_once("steal", away, yields=True) == FIRST_PAUSE


@pytest.mark.parametrize("kind", [BrokenInvariant, LeaseLost])
async def test_what_must_end_a_node_does(kind: type[Exception]) -> None:
    async def fail() -> None:
        raise kind("it is so")

    with pytest.raises(kind):
        await World().chores.run_once("chore", fail)


@pytest.mark.parametrize("kind", [KeyError, AssertionError, RecursionError, MemoryError])
async def test_no_other_error_does(kind: type[Exception]) -> None:
    async def fail() -> None:
        raise kind("it is so")

    assert (await World().chores.run_once("chore", fail)) is not None


async def test_being_cancelled_is_no_error() -> None:
    world = World()
    running = asyncio.create_task(
        world.chores.run(every("chore", asyncio.Event().wait, world.clock, 60.0))
    )
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert world.troubles.all() == []


def test_the_log_has_a_line_a_minute() -> None:
    world = World()
    with capture_logs() as lines:
        for _ in range(100):
            world.troubles.note("chore", Unstorable("no"), HOUSE)
            world.time += 1.0
        for chore in "abc":
            world.troubles.note(chore, StoreUnavailable("gone"))
    assert [line["log_level"] for line in lines] == ["error", "error", "warning"]


def test_what_is_set_aside_waits_longer_and_longer() -> None:
    world = World()
    for _ in range(30):
        pause = world.troubles.note("chore", Unstorable("no"), HOUSE)
    assert pause == LONGEST_ASIDE
    assert world.troubles.aside("chore") == [HOUSE]
    began = world.time
    world.time += pause
    assert world.troubles.aside("chore") == []
    world.troubles.over_since("chore", began)
    assert world.troubles.all() != []  # its time had not come
    world.troubles.over_since("chore", world.time)
    assert world.troubles.all() == []


def test_the_book_is_bounded() -> None:
    world = World()
    for number in range(2 * MOST_KEPT):
        world.time += 1.0
        world.troubles.note(
            "chore", ValueError("x\0" * 10_000), About("acme", "y" * 10_000 + str(number))
        )
        world.troubles.note("chore", Unstorable("no"), About("acme", f"task {number}"))
    kept = world.troubles.all()
    assert len(kept) == MOST_KEPT
    assert all(len(t.error) <= 500 and len(t.about.subject) <= 200 for t in kept)
    assert not any("\0" in t.error for t in kept)
    world.time += 7200.0
    assert world.troubles.all() == []


async def test_the_store_is_told_of_changes_and_again() -> None:
    class Store:
        def __init__(self) -> None:
            self.kept: list[int] = []

        async def keep(self, troubles: Sequence[Trouble], seconds: float) -> None:
            self.kept.append(len(troubles))
            if len(self.kept) == 1:
                raise StoreUnavailable("gone")

    world, store = World(), Store()
    keeper = TroubleKeeper(world.troubles, store, world.clock)
    assert await keeper.run_once() == 0
    world.troubles.note("chore", Unstorable("no"), HOUSE)
    with pytest.raises(StoreUnavailable):
        await keeper.run_once()
    assert [await keeper.run_once() for _ in range(2)] == [1, 0]
    world.time += 20.0
    assert await keeper.run_once() == 1
    world.troubles.over("chore", HOUSE)
    assert await keeper.run_once() == 0
    assert store.kept == [1, 1, 1, 0]


async def search(refused: set[int], count: int) -> tuple[list[int], list[int], int]:
    """What was done, whom was blamed, and how often the store was asked."""
    asked, blamed = 0, []

    async def work(items: Sequence[int]) -> list[int]:
        nonlocal asked
        asked += 1
        if refused & set(items):
            raise Unstorable("no")
        return list(items)

    async def blame(item: int, error: StoreError) -> list[int]:
        blamed.append(item)
        return []

    return sorted(await isolated(range(count), work, blame)), blamed, asked


async def test_the_culprits_are_found_and_the_others_done() -> None:
    done, blamed, asked = await search({3, 77}, 100)
    assert blamed == [3, 77]
    assert len(done) == 98
    assert asked < 40
    assert await search({0}, 1) == ([], [0], 1)


async def test_where_all_are_refused_nobody_is_blamed() -> None:
    with pytest.raises(Unstorable):
        await search(set(range(100)), 100)
