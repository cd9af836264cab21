"""Grouping: nothing is lost or told twice, a storm is told a few times, and so is its end."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.insight.event_kinds import KINDS
from gnomon.model.insight.severity import Severity
from gnomon.notify.grouping import (
    AT_ONCE,
    MOST_GROUPS,
    Gathered,
    GroupState,
    Inbox,
    step,
    wakes_at,
)
from gnomon.notify.quiet_hours import QuietHours
from gnomon.notify.subscription import NotedEvent, SubscriptionRules

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
RULES = SubscriptionRules(digest_seconds=300, resolve_seconds=900)


def event(
    number: int,
    at: datetime,
    fingerprint: str = "a",
    severity: Severity = Severity.ERROR,
    count: int = 1,
    *,
    is_end: bool = False,
    has_end: bool = False,
) -> NotedEvent:
    return NotedEvent(
        id=str(number),
        tenant_id="acme",
        kind="tasks.dead_lettered",
        severity=Severity.INFO if is_end else severity,
        at=at,
        fingerprint=fingerprint,
        is_end=is_end,
        has_end=has_end,
        count=count,
    )


class Subscriber:
    """A subscription that is looked at as the notifier does, and what it was told."""

    def __init__(self, rules: SubscriptionRules = RULES) -> None:
        self.rules = rules
        self.inbox = Inbox()
        self.told: list[Gathered] = []
        self.muted_until: datetime | None = None

    def step(self, now: datetime, events: Iterable[NotedEvent] = ()) -> Gathered | None:
        gathered = step(self.inbox, self.rules, events, now, self.muted_until)
        if gathered is not None:
            self.told.append(gathered)
            # As it is stored and read again.
            self.inbox = msgspec.json.decode(msgspec.json.encode(self.inbox), type=Inbox)
        return gathered

    def wait(self, now: datetime, most: int = 1000) -> datetime:
        """Look whenever it has to be looked at, until there is nothing to wait for."""
        for _ in range(most):
            woken = wakes_at(self.inbox, self.rules, now, self.muted_until)
            if woken is None:
                return now
            now = max(now, woken)
            self.step(now)
        raise AssertionError("there is always something to wait for")

    @property
    def count(self) -> int:
        return sum(group.count for each in self.told for group in each.groups)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_the_first_is_told_at_once_and_the_rest_by_digests() -> None:
    subscriber = Subscriber()
    first = subscriber.step(NOON, [event(1, NOON)])
    assert first is not None
    assert [group.state for group in first.groups] == [GroupState.NEW]
    for number in range(2, 50):
        assert subscriber.step(NOON + seconds(number), [event(number, NOON)]) is None
    digest = subscriber.step(NOON + seconds(300))
    assert digest is not None
    assert [(g.state, g.count, g.total) for g in digest.groups] == [(GroupState.ONGOING, 48, 49)]


def test_ten_thousand_in_a_minute_are_one_notification_its_digests_and_the_end() -> None:
    subscriber = Subscriber()
    for number in range(10_000):
        now = NOON + seconds(number * 0.006)
        subscriber.step(now, [event(number, now)])
    subscriber.wait(NOON + seconds(60))
    states = [[group.state for group in each.groups] for each in subscriber.told]
    assert states == [[GroupState.NEW], [GroupState.ONGOING], [GroupState.RESOLVED]]
    assert subscriber.count == 10_000
    assert subscriber.inbox.groups == {}


def test_an_event_that_grows_is_counted_by_what_it_has_grown() -> None:
    subscriber = Subscriber()
    for number, count in enumerate((3, 3, 10, 250)):
        subscriber.step(NOON + seconds(number), [event(7, NOON + seconds(number), count=count)])
    subscriber.wait(NOON + seconds(10))
    assert subscriber.count == 250


def test_one_that_grows_after_it_was_over_is_counted_by_what_it_has_grown() -> None:
    subscriber = Subscriber()
    subscriber.step(NOON, [event(1, NOON, count=10)])
    later = subscriber.wait(NOON)
    assert subscriber.told[-1].groups[0].state is GroupState.RESOLVED
    assert subscriber.step(later, [event(1, NOON, count=10)]) is None  # told again, and not grown
    assert subscriber.inbox.groups == {}
    subscriber.step(later, [event(1, later, count=13)])
    subscriber.wait(later)
    assert [each.groups[0].count for each in subscriber.told] == [10, 0, 3, 0]


def test_two_that_grow_by_turns_are_counted_apart() -> None:
    subscriber = Subscriber()
    for number in range(1, 20):
        for each in (1, 2):
            now = NOON + seconds(number)
            subscriber.step(now, [event(each, now, count=number)])
    subscriber.wait(NOON + seconds(60))
    assert subscriber.count == 38


def test_the_end_of_a_condition_is_told_with_the_next_digest() -> None:
    subscriber = Subscriber()
    subscriber.step(NOON, [event(1, NOON)])
    over = NOON + seconds(20)
    assert subscriber.step(over, [event(2, over, is_end=True)]) is None
    told = subscriber.step(NOON + seconds(300))
    assert told is not None
    assert [group.state for group in told.groups] == [GroupState.RESOLVED]


def test_a_condition_whose_end_is_told_is_not_over_by_silence() -> None:
    subscriber = Subscriber()
    subscriber.step(NOON, [event(1, NOON, has_end=True)])
    later = NOON + timedelta(days=2)
    for hours in range(48):
        assert subscriber.step(NOON + timedelta(hours=hours)) is None, "it goes on"
    told = subscriber.step(later, [event(2, later, is_end=True)])
    assert told is not None
    assert [group.state for group in told.groups] == [GroupState.RESOLVED]


def test_a_condition_whose_end_was_never_seen_is_not_kept_for_ever() -> None:
    subscriber = Subscriber()
    subscriber.step(NOON, [event(1, NOON, has_end=True)])
    subscriber.wait(NOON)
    assert subscriber.inbox.groups == {}


def test_a_condition_that_flaps_is_told_by_digests() -> None:
    subscriber = Subscriber()
    for number in range(0, 3000, 10):
        now = NOON + seconds(number)
        subscriber.step(now, [event(number, now, is_end=bool(number // 10 % 2))])
    subscriber.wait(NOON + seconds(3000))
    assert len(subscriber.told) <= 3000 / 300 + 3


def test_the_end_of_what_was_never_told_is_no_news() -> None:
    subscriber = Subscriber()
    assert subscriber.step(NOON, [event(1, NOON, is_end=True)]) is None
    assert subscriber.inbox.groups == {}


def test_a_storm_of_groups_is_bounded() -> None:
    subscriber = Subscriber()
    for number in range(1_000):
        now = NOON + seconds(number * 0.25)
        subscriber.step(now, [event(number, now, fingerprint=f"f{number}")])
    assert len(subscriber.told) <= AT_ONCE + 1
    assert len(subscriber.inbox.groups) <= MOST_GROUPS + 51
    subscriber.wait(NOON + seconds(250))
    assert subscriber.count == 1_000


def test_nothing_is_told_while_it_is_muted_and_what_was_over_never() -> None:
    subscriber = Subscriber()
    subscriber.muted_until = NOON + seconds(7200)
    for number in range(10):
        assert subscriber.step(NOON + seconds(number), [event(number, NOON)]) is None
    subscriber.wait(NOON + seconds(10))
    assert subscriber.told == []


def test_what_goes_on_after_it_was_muted_is_told() -> None:
    subscriber = Subscriber()
    subscriber.muted_until = NOON + seconds(600)
    for number in range(0, 590, 10):
        subscriber.step(NOON + seconds(number), [event(number, NOON + seconds(number))])
    told = subscriber.step(NOON + seconds(600))
    assert told is not None
    assert told.groups[0].count == 59


def test_good_news_has_no_end() -> None:
    subscriber = Subscriber(msgspec.structs.replace(RULES, severity=Severity.INFO))
    subscriber.step(NOON, [event(1, NOON, severity=Severity.INFO)])
    subscriber.wait(NOON)
    assert [group.state for each in subscriber.told for group in each.groups] == [GroupState.NEW]


QUIET = QuietHours(start="22:00", end="07:00", timezone="Europe/Berlin")
NIGHT = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)  # 23:30 in Berlin
MORNING = datetime(2026, 3, 3, 6, tzinfo=UTC)


def test_quiet_hours_end_with_one_digest() -> None:
    subscriber = Subscriber(msgspec.structs.replace(RULES, quiet_hours=QUIET, resolve_seconds=1e5))
    for number in range(100):
        now = NIGHT + seconds(number * 60)
        assert subscriber.step(now, [event(number, now, fingerprint=f"f{number % 5}")]) is None
    woken = wakes_at(subscriber.inbox, subscriber.rules, NIGHT + seconds(6000))
    assert woken == MORNING
    told = subscriber.step(MORNING)
    assert told is not None
    assert (len(told.groups), subscriber.count) == (5, 100)


def test_errors_break_through_by_choice() -> None:
    through = msgspec.structs.replace(QUIET, errors_through=True)
    subscriber = Subscriber(msgspec.structs.replace(RULES, quiet_hours=through))
    assert subscriber.step(NIGHT, [event(1, NIGHT, "w", Severity.WARNING)]) is None
    told = subscriber.step(NIGHT, [event(2, NIGHT, "e")])
    assert told is not None
    assert [group.severity for group in told.groups] == [Severity.ERROR]
    subscriber.wait(NIGHT)
    assert subscriber.count == 2


STEPS = st.lists(
    st.tuples(
        st.floats(0, 700),
        st.lists(
            st.tuples(
                st.sampled_from("abcdef"),
                st.sampled_from(Severity),
                st.booleans(),
                st.integers(1, 5),
            ),
            max_size=4,
        ),
    ),
    max_size=40,
)
HOURS = st.one_of(
    st.none(),
    st.builds(
        QuietHours,
        start=st.sampled_from(["08:00", "13:00", "22:00"]),
        end=st.sampled_from(["07:30", "12:30", "23:15"]),
        timezone=st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]),
        errors_through=st.booleans(),
    ),
)


@given(STEPS, HOURS, st.sampled_from(Severity))
def test_every_event_is_told_once_and_every_beginning_has_an_end(
    steps: list[tuple[float, list[tuple[str, Severity, bool, int]]]],
    hours: QuietHours | None,
    least: Severity,
) -> None:
    rules = msgspec.structs.replace(RULES, quiet_hours=hours, severity=least)
    subscriber = Subscriber(rules)
    now, number, wanted = NOON, 0, 0
    for pause, events in steps:
        now += seconds(pause)
        # Looked at in time, as the notifier does.
        while (woken := wakes_at(subscriber.inbox, rules, now)) is not None and woken <= now:
            if subscriber.step(now) is None:
                break
        made: list[NotedEvent] = []
        for fingerprint, severity, is_end, count in events:
            number += 1
            each = event(number, now, fingerprint, severity, count, is_end=is_end)
            ends = is_end and fingerprint in subscriber.inbox.groups
            ends = ends or (is_end and any(m.fingerprint == fingerprint for m in made))
            if rules.wants(each) and not is_end:
                wanted += count
            if not is_end or ends or not rules.wants(each):
                made.append(each)
        subscriber.step(now, made)
    subscriber.wait(now)
    assert subscriber.inbox.groups == {}
    begun, over = Counter[str](), Counter[str]()
    for told in subscriber.told:
        for group in told.groups:
            begun[group.kind] += group.state is GroupState.NEW and group.severity != "info"
            over[group.kind] += group.state is GroupState.RESOLVED
    assert begun <= over  # some were over when they were told first
    assert [each.sequence for each in subscriber.told] == [*range(1, len(subscriber.told) + 1)]
    told_of_ends = subscriber.count - wanted
    assert 0 <= told_of_ends <= number


@given(st.lists(st.floats(0, 60), min_size=1, max_size=200), st.integers(1, 5))
def test_an_interval_has_a_few_notifications(pauses: list[float], groups: int) -> None:
    subscriber = Subscriber()
    now = NOON
    for number, pause in enumerate(pauses):
        now += seconds(pause)
        subscriber.step(now, [event(number, now, fingerprint=f"f{number % groups}")])
    moments = [each.at for each in subscriber.told]
    for begin in moments:
        within = [at for at in moments if begin <= at < begin + seconds(300)]
        assert len(within) <= 2 * (AT_ONCE + 1)


def test_every_kind_whose_end_is_told_says_so() -> None:
    ended = {kind.family for kind in KINDS.values() if kind.is_end}
    begins = {kind.family for kind in KINDS.values() if kind.has_end}
    assert begins == ended
