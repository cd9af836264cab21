"""Breakers against the plainest model of them: a list of all calls since counting began."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gnomon.breakers.breaker import HOST_RULE, TENANT_RULE, Breaker, BreakerChange, Rule

FAR = 10_000.0  # no probe of these tests takes so long


def calls_of(
    breaker: Breaker, *failed: bool, start: float = 0.0, every: float = 0.0
) -> BreakerChange | None:
    """Calls that end one after the other; the last one's change."""
    change = None
    for number, each in enumerate(failed):
        now = start + number * every
        assert breaker.admits(number, now, FAR)
        change = breaker.record(number, now, now, failed=each)
    return change


def opened(rule: Rule = HOST_RULE, at: float = 0.0) -> Breaker:
    breaker = Breaker(rule)
    assert calls_of(breaker, *[True] * 20, start=at) is BreakerChange.OPENED
    return breaker


@given(st.lists(st.booleans(), max_size=60))
def test_a_host_opens_at_over_half_of_twenty(failed: list[bool]) -> None:
    breaker = Breaker(HOST_RULE)
    for number, each in enumerate(failed, start=1):
        change = breaker.record(number, 0.0, 0.0, failed=each)
        too_many = number >= 20 and sum(failed[:number]) * 2 > number
        assert change is (BreakerChange.OPENED if too_many else None)
        if too_many:
            return


def test_calls_of_more_than_a_minute_ago_are_forgotten() -> None:
    breaker = Breaker(HOST_RULE)
    assert calls_of(breaker, *[True] * 19) is None
    assert calls_of(breaker, *[True] * 19, start=60.0) is None
    assert calls_of(breaker, True, start=60.0) is BreakerChange.OPENED


def test_a_closed_one_without_calls_can_be_forgotten() -> None:
    breaker = Breaker(HOST_RULE)
    calls_of(breaker, True)
    assert not breaker.is_idle(59.0)
    assert breaker.is_idle(60.0)
    assert not opened().is_idle(1000.0)


def test_while_it_is_open_nothing_is_admitted_but_one_probe() -> None:
    breaker = opened()
    assert not breaker.admits("a", 29.9, FAR)
    assert breaker.admits("a", 30.0, FAR)
    assert breaker.admits("a", 30.0, FAR), "it has the probe already"
    assert not breaker.admits("b", 31.0, FAR)
    assert breaker.passes("a")
    assert not breaker.passes("b")


def test_a_probe_that_fails_opens_it_for_as_long_again() -> None:
    breaker = opened()
    assert breaker.admits("a", 40.0, FAR)
    assert breaker.record("a", 40.0, 41.0, failed=True) is BreakerChange.STAYED_OPEN
    assert not breaker.admits("b", 70.9, FAR)
    assert breaker.admits("b", 71.0, FAR)


def test_a_probe_that_succeeds_closes_it_and_counting_starts_afresh() -> None:
    breaker = opened()
    assert breaker.admits("a", 30.0, FAR)
    assert breaker.record("a", 30.0, 31.0, failed=False) is BreakerChange.CLOSED
    assert calls_of(breaker, *[True] * 19, start=31.0) is None
    assert breaker.record("late", 5.0, 32.0, failed=True) is None, "it began before"
    assert breaker.record("twentieth", 31.0, 32.0, failed=True) is BreakerChange.OPENED


def test_a_probe_that_is_not_made_leaves_the_place_to_another() -> None:
    breaker = opened()
    assert breaker.admits("a", 30.0, FAR)
    assert not breaker.forgo("b")
    assert breaker.forgo("a")
    assert breaker.admits("b", 30.0, FAR)


def test_nobody_waits_for_a_probe_for_ever() -> None:
    breaker = opened()
    assert breaker.admits("a", 30.0, 90.0)
    breaker.extend("a", 95.0)
    breaker.extend("b", 1000.0)
    assert not breaker.admits("b", 94.9, FAR)
    assert breaker.admits("b", 95.0, FAR)
    assert breaker.record("a", 30.0, 96.0, failed=False) is None, "it is not the probe any more"


def test_a_tenant_opens_only_after_five_minutes_in_a_row() -> None:
    breaker = Breaker(TENANT_RULE)
    # From the twentieth call on it is bad: 300 seconds later it is over.
    assert calls_of(breaker, *[True] * 319, every=1.0) is None
    assert breaker.record("last", 319.0, 319.0, failed=True) is BreakerChange.OPENED
    assert not breaker.admits("a", 378.9, FAR)
    assert breaker.admits("a", 379.0, FAR)


def test_a_minute_of_success_in_between_starts_the_five_minutes_over() -> None:
    breaker = Breaker(TENANT_RULE)
    calls_of(breaker, *[True] * 200, every=1.0)
    calls_of(breaker, *[False] * 10, start=200.0)
    assert calls_of(breaker, *[True] * 300, start=201.0, every=1.0) is None
    # The ten are a tenth of a minute's calls until they are forgotten.
    assert calls_of(breaker, *[True] * 60, start=501.0, every=1.0) is BreakerChange.OPENED


def test_a_pause_of_a_minute_starts_the_five_minutes_over() -> None:
    breaker = Breaker(TENANT_RULE)
    calls_of(breaker, *[True] * 250, every=1.0)
    assert calls_of(breaker, *[True] * 100, start=320.0, every=1.0) is None
    assert not breaker.is_open


def test_after_it_has_closed_the_time_that_it_must_last_starts_over() -> None:
    breaker = Breaker(Rule(share=0.5, calls=1, lasting=10.0, pause=5.0))
    assert calls_of(breaker, True, True, every=10.0) is BreakerChange.OPENED
    assert breaker.admits("probe", 15.0, FAR)
    assert breaker.record("probe", 15.0, 16.0, failed=False) is BreakerChange.CLOSED
    assert calls_of(breaker, True, True, start=17.0, every=9.9) is None
    assert calls_of(breaker, True, start=27.0) is BreakerChange.OPENED


def test_it_knows_when_the_next_call_may_be_made() -> None:
    breaker = opened()
    assert breaker.next_probe_at() == 30.0
    assert breaker.admits("a", 31.0, 90.0)
    assert breaker.next_probe_at() == 90.0
    breaker.extend("a", 95.0)
    assert breaker.next_probe_at() == 95.0
    assert breaker.forgo("a")
    assert breaker.next_probe_at() == 30.0
    assert breaker.admits("b", 31.0, 40.0)
    assert breaker.record("b", 31.0, 32.0, failed=True) is BreakerChange.STAYED_OPEN
    assert breaker.next_probe_at() == 62.0


class BreakerMachine(RuleBasedStateMachine):
    """A host's breaker, whose calls may end in any order and at any time."""

    @initialize(now=st.floats(0, 1e6))
    def start(self, now: float) -> None:
        self.now = now
        self.breaker = Breaker(Rule(share=0.5, calls=4, pause=30.0))
        self.ended: list[tuple[int, bool]] = []  # slice, failed
        self.until: float | None = None
        self.probe: int | None = None
        self.counted_from = now
        self.under_way: dict[int, float] = {}
        self.number = 0

    @rule(seconds=st.floats(0, 3) | st.floats(0, 100))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        self.number += 1
        admitted = self.breaker.admits(self.number, self.now, float("inf"))
        may_probe = self.until is not None and self.now >= self.until and self.probe is None
        assert admitted == (self.until is None or may_probe)
        if admitted:
            self.under_way[self.number] = self.now
        if may_probe:
            self.probe = self.number

    @rule(data=st.data(), failed=st.booleans())
    def end(self, data: st.DataObject, failed: bool) -> None:
        if not self.under_way:
            return
        key = data.draw(st.sampled_from(sorted(self.under_way)))
        change = self.breaker.record(key, self.under_way[key], self.now, failed=failed)
        assert change is self._expected(key, self.under_way.pop(key), failed)

    def _expected(self, key: int, began: float, failed: bool) -> BreakerChange | None:
        if self.until is not None:
            if key != self.probe:
                return None
            self.probe = None
            self.until = self.now + 30.0 if failed else None
            if failed:
                return BreakerChange.STAYED_OPEN
            self.ended, self.counted_from = [], self.now
            return BreakerChange.CLOSED
        if began < self.counted_from:
            return None
        current = int(self.now // 5)
        self.ended.append((current, failed))
        recent = [each for number, each in self.ended if number > current - 12]
        if len(recent) < 4 or sum(recent) * 2 <= len(recent):
            return None
        self.until = self.now + 30.0
        return BreakerChange.OPENED

    @rule(data=st.data())
    def forgo(self, data: st.DataObject) -> None:
        if not self.under_way:
            return
        key = data.draw(st.sampled_from(sorted(self.under_way)))
        del self.under_way[key]
        assert self.breaker.forgo(key) == (key == self.probe)
        self.probe = None if key == self.probe else self.probe

    @invariant()
    def only_the_probe_passes(self) -> None:
        for key in self.under_way:
            assert self.breaker.passes(key) == (self.until is None or key == self.probe)


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(deadline=None)
