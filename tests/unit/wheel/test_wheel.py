"""The wheel against the plainest model of it: a list, sorted by due tick."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gnomon.wheel import Wheel

# Sizes that matter: the same tick, within level 0, around its edge, within level 1, and far.
distances = (
    st.integers(0, 3)
    | st.integers(0, 1100)
    | st.integers(1020, 1028)
    | st.integers(0, 5_000_000)
    | st.integers(0, 1 << 45)
    | st.builds(lambda bits, off: (1 << bits) + off, st.integers(2, 45), st.integers(-2, 2))
)
moments = st.integers(0, 1 << 45) | st.builds(
    lambda digit, bits, off: (digit << bits) + off,
    st.integers(1, 5),
    st.sampled_from([10, 20, 30, 40]),
    st.integers(-3, 3),
)


class WheelMachine(RuleBasedStateMachine):
    @initialize(now=moments)
    def start(self, now: int) -> None:
        self.now = now
        self.wheel: Wheel[tuple[int, int]] = Wheel(now)
        self.held: list[tuple[int, int]] = []
        self.added = 0

    def add_at(self, due: int) -> None:
        entry = (due, self.added)
        self.added += 1
        self.held.append(entry)
        self.wheel.add(due, entry)

    @rule(ahead=distances)
    def add(self, ahead: int) -> None:
        self.add_at(self.now + ahead)

    @rule(ahead=distances, gaps=st.lists(st.integers(0, 2), max_size=40))
    def add_dense(self, ahead: int, gaps: list[int]) -> None:
        for index, gap in enumerate(gaps):
            self.add_at(self.now + ahead + gap * index)

    @rule(behind=distances)
    def add_late(self, behind: int) -> None:
        self.add_at(max(0, self.now - behind))

    @rule(step=distances)
    def advance(self, step: int) -> None:
        self.advance_to(self.now + step)

    @rule(back=distances)
    def go_back(self, back: int) -> None:
        self.advance_to(max(0, self.now - back))

    @precondition(lambda self: self.held)
    @rule(off=st.integers(-1, 1))
    def advance_to_an_entry(self, off: int) -> None:
        self.advance_to(min(self.held)[0] + off)

    @precondition(lambda self: self.held)
    @rule()
    def wake(self) -> None:
        due = self.wheel.next_due()
        assert due is not None
        self.advance_to(due)

    def advance_to(self, now: int) -> None:
        self.now = max(self.now, now)
        expected = sorted(entry for entry in self.held if entry[0] <= self.now)
        self.held = [entry for entry in self.held if entry[0] > self.now]
        assert self.wheel.advance(now) == expected

    @invariant()
    def counts(self) -> None:
        assert len(self.wheel) == len(self.held)

    @invariant()
    def sleeps_past_no_entry_and_never_without_pause(self) -> None:
        due = self.wheel.next_due()
        if not self.held:
            assert due is None
            return
        assert due is not None
        earliest = min(self.held)[0]
        assert due <= earliest
        assert due > self.now or due == earliest


TestWheel = WheelMachine.TestCase
TestWheel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@settings(deadline=None)
@given(now=moments, ahead=st.lists(distances.map(lambda n: n + 1), min_size=1, max_size=50))
def test_sleeping_until_next_due_fires_each_entry_on_its_very_tick(
    now: int, ahead: list[int]
) -> None:
    wheel: Wheel[int] = Wheel(now)
    for distance in ahead:
        wheel.add(now + distance, now + distance)
    fired, wakes = [], 0
    while (due := wheel.next_due()) is not None:
        assert due > now
        now = due
        wakes += 1
        for entry in wheel.advance(now):
            assert entry == now
            fired.append(entry)
    assert len(fired) == len(ahead)
    # Besides its tick, an entry can cause one wake for each of the levels it moves down from.
    assert wakes <= len(set(ahead)) * 5


def test_next_due_is_exact_within_the_coming_second() -> None:
    wheel: Wheel[str] = Wheel(2047)
    wheel.add(3071, "last tick of the second")
    assert wheel.next_due() == 3071


def test_a_slot_that_begins_at_the_next_tick_is_known_exactly() -> None:
    wheel: Wheel[str] = Wheel(0)
    wheel.add(1500, "a")
    assert wheel.next_due() == 1024
    assert wheel.advance(1023) == []
    assert wheel.next_due() == 1500


def test_late_entries_come_first_and_by_due_tick() -> None:
    wheel: Wheel[str] = Wheel(1023)  # the next tick begins a new turn of level 0
    wheel.add(1024, "next")
    wheel.add(900, "late")
    wheel.add(1023, "just due")
    wheel.add(300, "very late")
    wheel.add(900, "late too")
    assert wheel.next_due() == 300
    assert wheel.advance(1023) == ["very late", "late", "late too", "just due"]
    assert wheel.next_due() == 1024


def test_a_jump_of_centuries_costs_no_more_than_its_entries() -> None:
    century = 100 * 365 * 86_400_000
    wheel: Wheel[int] = Wheel(0)
    for n in (3, 1, 2):
        wheel.add(n * century, n)
    # Ticks in between number 10**13: walking them would run into the test's timeout.
    assert wheel.advance(3 * century - 1) == [1, 2]
    assert wheel.advance(3 * century) == [3]
