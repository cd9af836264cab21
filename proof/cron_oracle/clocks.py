"""What the peers do where clocks are changed: their rules, and where they lose their way.

A rule is a policy for the oracle, and the answer must be exactly what that finds. Where a peer has
no rule but goes astray, only fires beside the clock change in question may differ.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from proof.cron_oracle import oracle
from proof.cron_oracle.grammar import Reading
from proof.cron_oracle.oracle import DEFAULT, Policy
from proof.cron_oracle.peers import ENDLESS, LONG, Question, six, words

Fires = Callable[[Reading, Policy, bool | None], list[int]]

REAL_SECONDS = "cronsim: six fields fire at every real match, a fixed time too"
REAL_STAR_LIST = "cronsim: */20,7 fires at every real match, as */20 does"
FOLD_TWICE = "croniter: a fixed time fires in both passes of a fold"
FIXED_HOUR = "croniter: */15 beside a fixed hour is moved out of a gap"
REAL_HOURS = "croniter: hours 0-23 are *, so that nothing is moved out of a gap"
EVERY_DAY = 26 * 3600


@dataclass(frozen=True)
class Shift:
    """A change of the clock at an instant, from one offset to another."""

    at: int
    before: int
    after: int

    @property
    def fold(self) -> int:
        """How long what repeats is; 0 for a gap."""
        return max(0, self.before - self.after)

    @property
    def odd(self) -> bool:
        """Not by whole hours, or not on the hour."""
        return bool((self.after - self.before) % 3600 or (self.at + self.before) % 3600)

    @property
    def midnight(self) -> bool:
        """The gap swallows a midnight, or the fold touches one."""
        low, high = sorted((self.at + self.before, self.at + self.after))
        return low // oracle.DAY != high // oracle.DAY or low % oracle.DAY == 0


@dataclass(frozen=True)
class Stray:
    """How a peer goes astray: by which clock changes, and how far from them fires may differ."""

    name: str
    by: Callable[[Shift, Question], bool]
    reach: Callable[[Shift], tuple[int, int]]
    only_misses: bool = False


def shifts(question: Question) -> list[Shift]:
    """Those that can have to do with an answer."""
    zone, found = ZoneInfo(question.zone), []
    for at in oracle.transitions(question.zone):
        if question.start - EVERY_DAY <= at <= question.end + EVERY_DAY:
            before = oracle.wall(zone, at - 1) - (at - 1)
            found.append(Shift(at, before, oracle.wall(zone, at) - at))
    return found


def _aware(question: Question) -> bool:
    """Where cronsim walks in real time: six fields, or a star in front of the minute or hour."""
    fields = words(question.expression)
    return six(question.expression) or "*" in (fields[1][0], fields[2][0])


def _cronsim_rule(question: Question, reading: Reading, fires: Fires) -> tuple[str, list[int]]:
    name = REAL_SECONDS if six(question.expression) else REAL_STAR_LIST
    return name, fires(reading, DEFAULT, _aware(question))


def _croniter_rule(question: Question, reading: Reading, fires: Fires) -> tuple[str, list[int]]:
    every_hour = len(reading.hours) == 24
    found = fires(reading, Policy("fire_after", "both"), every_hour)
    if reading.elapsed:
        return FIXED_HOUR, found
    return REAL_HOURS if every_hour and not _two_passes(question) else FOLD_TWICE, found


def _two_passes(question: Question) -> bool:
    return any(shift.fold for shift in shifts(question))


def _second_pass(shift: Shift, question: Question) -> bool:
    begin = question.end + 1 if question.reverse else question.start
    return not _aware(question) and shift.at <= begin < shift.at + shift.fold


CRONSIM_STRAYS = (
    Stray(
        "cronsim: a fixed time, begun in the second pass of a fold, is looked for in the first",
        _second_pass,
        lambda shift: (shift.fold, shift.fold),
    ),
    Stray(
        "cronsim: out of a gap it goes by whole minutes, also where offsets have seconds",
        lambda shift, question: bool(shift.before % 60 or shift.after % 60),
        lambda shift: (0, 60),
    ),
    Stray(
        "cronsim: walking real hours, it misses what follows a shift that is not of whole hours",
        lambda shift, question: shift.odd and _aware(question),
        lambda shift: (EVERY_DAY, EVERY_DAY),
    ),
    Stray(
        "cronsim: walking real hours, it enters a day at a midnight that does not exist",
        lambda shift, question: shift.midnight and not shift.fold and _aware(question),
        lambda shift: (0, EVERY_DAY),
    ),
    Stray(
        "cronsim: backwards it enters a day that ends in a fold by the first pass",
        lambda shift, question: bool(shift.midnight and shift.fold) and _aware(question),
        lambda shift: (0, shift.fold),
    ),
)
CRONITER_STRAYS = (
    Stray(
        "croniter: it misses times beside a shift that is not of whole hours, or not on the hour",
        lambda shift, question: shift.odd,
        lambda shift: (EVERY_DAY, EVERY_DAY),
    ),
    Stray(
        "croniter: in six fields, what is moved out of a gap keeps its second",
        lambda shift, question: not shift.fold and six(question.expression),
        lambda shift: (0, 59),
    ),
    Stray(
        "croniter: some fixed times fire in one pass of a fold only",
        lambda shift, question: bool(shift.fold),
        lambda shift: (shift.fold, shift.fold),
        only_misses=True,
    ),
    Stray(
        "croniter: hours * are moved out of a gap that takes a midnight",
        lambda shift, question: shift.midnight and not shift.fold,
        lambda shift: (0, 0),
    ),
)


def known_clock(
    peer: str, question: Question, reading: Reading, answer: list[int] | str, fires: Fires
) -> list[str] | None:
    """What explains the answer for an expression read as the peer reads it; None if nothing."""
    if answer == ENDLESS:
        searched = _searched(question, reading)
        odd = any(question.reverse or shift.odd for shift in shifts(searched))
        return [f"{peer}: over a clock change, {ENDLESS}"] if odd else None
    rule, strays = {
        "cronsim": (_cronsim_rule, CRONSIM_STRAYS),
        "croniter": (_croniter_rule, CRONITER_STRAYS),
    }[peer]
    name, modelled = rule(question, reading, fires)
    ours = _asked(question, fires(reading, DEFAULT, None))
    modelled = _asked(question, modelled)
    names = [name] if modelled != ours else []
    if isinstance(answer, str):
        return None
    if modelled[: len(answer)] == answer and len(answer) in (len(modelled), LONG):
        return names
    return next(([*names, stray] for stray in _stray(strays, question, modelled, answer)), None)


def _searched(question: Question, reading: Reading) -> Question:
    """The question, up to the day of the next fire beyond: a peer goes on and looks for it."""
    zone, year = ZoneInfo(question.zone), 366 * oracle.DAY
    low, high = question.start - year, question.end + year
    days = [day * oracle.DAY for day in oracle.matching_days(zone, reading, low, high)]
    if question.reverse:
        return replace(question, start=max((d for d in days if d < question.start), default=low))
    return replace(question, end=min((d for d in days if d > question.end), default=high))


def _asked(question: Question, fires: list[int]) -> list[int]:
    found = [at for at in fires if question.start < at <= question.end]
    return found[::-1] if question.reverse else found


def _stray(
    strays: tuple[Stray, ...], question: Question, modelled: list[int], answer: list[int]
) -> Iterator[str]:
    if len(answer) == LONG:  # cut, so there is more to come
        last = answer[-1]
        modelled = [at for at in modelled if (at >= last if question.reverse else at <= last)]
    differ = set(modelled) ^ set(answer)
    near = shifts(question)
    for stray in strays:
        reaches = [
            (shift.at - stray.reach(shift)[0], shift.at + stray.reach(shift)[1])
            for shift in near
            if stray.by(shift, question)
        ]
        if stray.only_misses and not set(answer) <= set(modelled):
            continue
        if all(any(low <= at <= high for low, high in reaches) for at in differ):
            yield stray.name
