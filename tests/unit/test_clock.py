"""The estimate of the database's time: never ahead of it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gnomon.clock import SystemClock, from_micros, new_id, to_micros
from gnomon.model.ids import created_at

START = datetime(2026, 1, 1, tzinfo=UTC)
# Floats hold the seconds since 1970 to about a quarter of a microsecond.
EXACT = timedelta(microseconds=2)


class Machine:
    """A local clock that is turned by hand, and a database's clock that runs beside it."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.seconds = 1000.0
        self.ahead = ahead
        self.speed = 1.0
        self.clock = SystemClock(lambda: self.seconds)

    def database(self) -> datetime:
        elapsed = (self.seconds - 1000.0) * self.speed
        return START + timedelta(seconds=elapsed + self.ahead)

    def ask(self, there: float, back: float) -> None:
        """A question and its answer, and how long each was under way."""
        asked_at = self.seconds
        self.seconds += there
        answer = self.database()
        self.seconds += back
        self.clock.observe(answer, asked_at)


delays = st.floats(0, 2)
exchanges = st.lists(st.tuples(delays, delays, st.floats(0, 3600)), min_size=1, max_size=20)


@given(exchanges, st.floats(-1e6, 1e6), st.floats(-0.9e-4, 0.9e-4))
def test_the_estimate_is_never_ahead_whatever_the_delays(
    exchanges: list[tuple[float, float, float]], ahead: float, drift: float
) -> None:
    machine = Machine(ahead)
    machine.speed = 1.0 + drift
    for there, back, pause in exchanges:
        machine.ask(there, back)
        assert machine.clock.now() <= machine.database() + EXACT
        machine.seconds += pause
        assert machine.clock.now() <= machine.database() + EXACT


@given(exchanges)
def test_right_after_an_answer_it_is_behind_by_no_more_than_its_way_back(
    exchanges: list[tuple[float, float, float]],
) -> None:
    machine = Machine()
    for there, back, pause in exchanges:
        machine.ask(there, back)
        behind = machine.database() - machine.clock.now()
        assert behind <= timedelta(seconds=back) + EXACT
        machine.seconds += pause


def test_one_quick_answer_serves_through_many_slow_ones() -> None:
    machine = Machine()
    machine.ask(0.5, 0.001)
    for _ in range(20):
        machine.ask(1.0, 1.0)
    assert machine.database() - machine.clock.now() < timedelta(seconds=0.01)


def test_it_steps_back_when_the_databases_clock_is_set_back() -> None:
    machine = Machine()
    machine.ask(0.001, 0.001)
    machine.ahead = -3600.0
    machine.ask(0.001, 0.001)
    assert machine.clock.now() <= machine.database() + EXACT


def test_it_steps_forward_when_the_databases_clock_is_set_forward() -> None:
    machine = Machine()
    machine.ask(0.001, 0.001)
    machine.ahead = 3600.0
    machine.ask(0.001, 0.001)
    assert machine.database() - machine.clock.now() < timedelta(seconds=0.01)


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_are_exact(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


def test_ids_are_new_each_time_and_know_their_moment() -> None:
    ids = {new_id(START) for _ in range(100)}
    assert len(ids) == 100
    assert {created_at(i) for i in ids} == {START}
