"""One group of triples: the engine against the oracle, and both against the peers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from proof.cron_oracle import models, oracle, peers
from proof.cron_oracle.clocks import Fires
from proof.cron_oracle.generator import Group, Triple
from proof.cron_oracle.grammar import Reading, read
from proof.cron_oracle.oracle import DAY, DEFAULT, Policy, Window
from proof.cron_oracle.peers import Question

from gnomon.cron.schedule import Dst, Fold, Gap, Schedule, cron_schedule
from gnomon.model.errors import InvalidSchedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Of an expression that is walked by days, so many fires are looked at.
MOST_DAYS = 24
# Backwards a peer is asked for one triple in so many.
BACKWARDS = 8


@dataclass(frozen=True)
class Failure:
    """A disagreement that has no name."""

    group: str
    triple: Triple
    what: str
    expected: list[int]
    found: list[int] | str

    def __str__(self) -> str:
        triple, zone = self.triple, ZoneInfo(self.triple.zone)
        found = self.found if isinstance(self.found, str) else _shown(self.found, zone)
        return (
            f"{self.what}\n  {triple.expression!r} in {triple.zone} after {triple.start}"
            f" ({_shown([triple.start], zone)}) up to {triple.end},"
            f" gap {triple.policy.gap}, fold {triple.policy.fold}\n"
            f"  expected {_shown(self.expected, zone)}\n  found    {found}\n"
            f'  again: make fuzz ARGS="--only {self.group}"'
        )


@dataclass
class Tally:
    """What was compared, and what came of it."""

    triples: Counter[str] = field(default_factory=Counter)
    fires: int = 0
    near: int = 0
    refused: int = 0
    agreed: Counter[str] = field(default_factory=Counter)
    unclaimed: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        for mine, its in (
            (self.triples, other.triples),
            (self.agreed, other.agreed),
            (self.unclaimed, other.unclaimed),
            (self.known, other.known),
        ):
            mine.update(its)
        self.fires += other.fires
        self.near += other.near
        self.refused += other.refused
        self.failures += other.failures


def _shown(instants: list[int], zone: ZoneInfo) -> str:
    some = [datetime.fromtimestamp(at, zone).isoformat(" ") for at in instants[:60]]
    return ", ".join(some) + (f" and {len(instants) - 60} more" if len(instants) > 60 else "")


def compare(group: Group, with_peers: bool = True) -> Tally:
    tally, rng, zone = Tally(), Random(group.seed + " compare"), ZoneInfo(group.zone)
    window = None
    if group.kind != "days":
        window = Window(zone, group.start, group.end, 60 if group.kind == "minutes" else 1)
    for triple in group.triples:
        tally.triples[triple.kind] += 1
        tally.near += abs(group.start - group.focus) <= 36 * 3600 and group.near
        reading = read(triple.expression)
        if not oracle.possible(reading):
            _expect_refusal(group, triple, tally)
            continue
        if window is not None:
            _compare(group, triple, reading, window_fires(window), rng, tally, with_peers)
        else:
            triple = shortened(triple, reading)
            _compare(group, triple, reading, day_fires(triple), rng, tally, with_peers)
    return tally


def window_fires(window: Window) -> Fires:
    return window.fires


def day_fires(triple: Triple) -> Fires:
    zone = ZoneInfo(triple.zone)

    def fires(reading: Reading, policy: Policy, elapsed: bool | None) -> list[int]:
        return oracle.daily_fires(zone, reading, policy, triple.start, triple.end, elapsed)

    return fires


def shortened(triple: Triple, reading: Reading) -> Triple:
    """Up to a day with enough fires before it, so that what is not so rare does not take long."""
    days = oracle.matching_days(ZoneInfo(triple.zone), reading, triple.start, triple.end)
    for count, day in enumerate(days):
        if count == MOST_DAYS and day * DAY + DAY < triple.end:
            return Triple(
                triple.expression,
                triple.zone,
                triple.start,
                max(day * DAY + DAY, triple.start + DAY),
                triple.policy,
                triple.kind,
            )
    return triple


def _expect_refusal(group: Group, triple: Triple, tally: Tally) -> None:
    try:
        scheduled(triple, triple.policy)
    except InvalidSchedule:
        tally.refused += 1
    else:
        tally.failures.append(Failure(group.seed, triple, "takes what never fires", [], "accepted"))


def scheduled(triple: Triple, policy: Policy) -> Schedule:
    dst = Dst(gap=Gap(policy.gap), fold=Fold(policy.fold))
    return cron_schedule(triple.expression, triple.zone, dst)


def _compare(
    group: Group,
    triple: Triple,
    reading: Reading,
    fires: Fires,
    rng: Random,
    tally: Tally,
    with_peers: bool,
) -> None:
    expected = fires(reading, triple.policy, None)
    tally.fires += len(expected)
    plain = expected if triple.policy == DEFAULT else fires(reading, DEFAULT, None)
    # Where the policies differ, the engine is asked under the peers' policy as well.
    asked = {triple.policy: expected} | ({} if plain == expected else {DEFAULT: plain})
    for policy, wanted in asked.items():
        for what, found in _engine(triple, policy, rng):
            if found != wanted:
                tally.failures.append(
                    Failure(group.seed, triple, f"{what}, {policy}", wanted, found)
                )
    if not with_peers:
        return
    for reverse in (False, True) if rng.randrange(BACKWARDS) == 0 else (False,):
        _ask_peers(group, triple, plain, fires, reverse, tally)


def _engine(triple: Triple, policy: Policy, rng: Random) -> Iterator[tuple[str, list[int]]]:
    """The engine's fires by each of its ways, ascending."""
    try:
        schedule = scheduled(triple, policy)
    except InvalidSchedule as refusal:
        yield f"refused: {refusal}", [-1]
        return
    # Part of a second before, so that a start in between is not rounded the wrong way.
    start = EPOCH + timedelta(seconds=triple.start, microseconds=rng.choice((0, 0, 1, 999_999)))
    end = EPOCH + timedelta(seconds=triple.end)
    found, at = [], schedule.next_after(start)
    while at is not None and at <= end:
        found.append(_epoch(at))
        at = schedule.next_after(at)
    yield "next_after", found
    found, at = [], schedule.previous_before(end + timedelta(microseconds=rng.choice((1, 999_999))))
    while at is not None and at > start:
        found.append(_epoch(at))
        at = schedule.previous_before(at)
    yield "previous_before", found[::-1]
    if rng.randrange(8) == 0:
        yield "fires", [_epoch(at) for at in schedule.fires(start, end)]
        count = min(rng.randrange(6), len(found))
        seen = [_epoch(fire.at) for fire in schedule.preview(start, count)]
        yield "preview", seen + found[::-1][count:]


def _epoch(moment: datetime) -> int:
    assert moment.tzinfo is UTC
    assert moment.microsecond == 0
    return (moment - EPOCH) // timedelta(seconds=1)


def _ask_peers(
    group: Group, triple: Triple, plain: list[int], fires: Fires, reverse: bool, tally: Tally
) -> None:
    """For the fires around the transition, under the policy that peers have."""
    place = next((i for i, at in enumerate(plain) if at >= group.focus), 0)
    low = max(0, place - peers.MOST // 2)
    high = low + peers.MOST
    start = plain[low - 1] if low else triple.start
    end = plain[high] - 1 if high < len(plain) else triple.end
    question = Question(triple.expression, triple.zone, start, end, reverse)
    expected = plain[low:high][:: -1 if reverse else 1]
    for name in ("cronsim", "croniter"):
        answer = peers.ask(name, question)
        if answer is None:
            tally.unclaimed[name] += 1
        elif answer == expected:
            tally.agreed[name] += 1
        elif (known := models.known(name, question, answer, fires)) is not None:
            tally.known.update(known)
        else:
            what = f"{name} {'backwards' if reverse else 'forwards'}, {question}"
            tally.failures.append(Failure(group.seed, triple, what, expected, answer))
