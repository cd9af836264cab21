"""The known disagreements with the peers, one by one, each as a rule which says exactly when.

A peer's answer that is not ours must be what the oracle finds for the expression as that peer is
known to read it. What no rule explains is a failure of the fuzz.
"""

import re
from dataclasses import replace

from proof.cron_oracle.clocks import Fires, known_clock
from proof.cron_oracle.grammar import FIELDS, RANGES, Reading, read
from proof.cron_oracle.oracle import possible
from proof.cron_oracle.peers import Question, six, words

# How a peer reads an expression: what it makes of it, and what that disagreement is called.
Bent = tuple[Reading, list[str]]

ALL_DAYS = frozenset(("day", number, 0) for number in range(1, 32))
ALL_WEEKDAYS = frozenset(("weekday", number, 0) for number in range(7))
SINGLE_RANGE = "croniter: a range of one value (5-5, 59/5) is the whole field"
STAR_OR = "croniter: */2 in a day field does not make the other one a condition"
NTH_ALONE = "croniter: the day of the month is dropped beside 5#3 or 5L"
NEAREST_ALONE = "croniter: the day of the week is dropped beside 15W"
CLAMPED = "croniter: 31W is the last workday of a shorter month"
CRONITER_DEAD_END = "croniter: no date at all where one of two day fields, searched alone, has none"
STEP_FROM_ONE = "cronsim: 5-5/2 is 5/2, from 5 to the end of the field"
STEP_TO_SEVEN = "cronsim: 1/2 in the day of the week goes on to 7, a Sunday"


def known(peer: str, question: Question, answer: list[int] | str, fires: Fires) -> list[str] | None:
    """The names of the disagreements that explain an answer; None if nothing does."""
    reading, names = {"cronsim": as_cronsim, "croniter": as_croniter}[peer](question.expression)
    if peer == "croniter" and answer == [] and _one_never(question.expression):
        return [CRONITER_DEAD_END]
    more = known_clock(peer, question, reading, answer, fires)
    return None if more is None else names + more


def _one_never(expression: str) -> bool:
    """Whether both day fields are conditions, and one of the two searches has no date.

    It searches by each of the two without the other, but keeps `5#3`, `5L` and `15W` in both.
    """
    given = _read_again(expression, _all_widened(expression))
    reading = replace(given, free_day=True)
    by_day = reading if _special(given) else replace(reading, weekdays=ALL_WEEKDAYS)
    by_weekday = reading if _nearest(given) else replace(reading, days=ALL_DAYS)
    return not (possible(by_day) and possible(by_weekday))


def as_cronsim(expression: str) -> Bent:
    """As cronsim reads it."""
    fields, names = words(expression), []
    for place, word in enumerate(fields):
        bent = re.sub(r"\b(\d+)-\1/", r"\1/", word)
        if bent != word:
            names.append(STEP_FROM_ONE)
        if FIELDS[place] == "weekday" and re.search(r"(^|,)\d/", bent):
            bent = re.sub(r"(^|,)(\d)/", r"\1\2-7/", bent)
            names.append(STEP_TO_SEVEN)
        fields[place] = bent
    return _read_again(expression, fields), names


def as_croniter(expression: str) -> Bent:
    """As croniter reads it."""
    fields = _all_widened(expression)
    names = [SINGLE_RANGE] if fields != words(expression) else []
    reading = _read_again(expression, fields)
    for bend in (_unstarred, _nth_alone, _nearest_alone, _clamped):
        bent = bend(reading, fields)
        if bent is not None:
            reading = bent[0]
            names.append(bent[1])
    return reading, names


def _read_again(expression: str, fields: list[str]) -> Reading:
    return read(" ".join(fields if six(expression) else fields[1:]))


def _all_widened(expression: str) -> list[str]:
    return [
        ",".join(_widened(field, item) for item in word.split(","))
        for field, word in zip(FIELDS, words(expression), strict=True)
    ]


def _widened(field: str, item: str) -> str:
    """An item with the whole field for a range of one value."""
    low, high = RANGES[field]
    body, slash, step = item.partition("/")
    ends = body.split("-") if "-" in body else [body, str(high) if slash else ""]
    if field == "weekday":
        ends = [re.sub("^7$", "0", end) for end in ends]
    return f"{low}-{high}{slash}{step}" if ends[0] == ends[1] else item


def _unstarred(reading: Reading, fields: list[str]) -> tuple[Reading, str] | None:
    """Only a bare star leaves a day field free, or all values of it beside a field with a star."""
    day, weekday = fields[3], fields[5]
    free_day = day in "*?" or ("*" in weekday and reading.days == ALL_DAYS)
    free_weekday = weekday in "*?" or ("*" in day and reading.weekdays == ALL_WEEKDAYS)
    before = reading.free_day or reading.free_weekday
    if (free_day or free_weekday) == before:
        return None
    return replace(reading, free_day=free_day, free_weekday=free_weekday), STAR_OR


def _special(reading: Reading) -> bool:
    return any(rule[0] != "weekday" for rule in reading.weekdays)


def _nearest(reading: Reading) -> bool:
    return any(rule[0] == "nearest" for rule in reading.days)


def _nth_alone(reading: Reading, fields: list[str]) -> tuple[Reading, str] | None:
    if reading.free_day or reading.free_weekday or not _special(reading) or _nearest(reading):
        return None
    return replace(reading, days=ALL_DAYS, free_day=True), NTH_ALONE


def _nearest_alone(reading: Reading, fields: list[str]) -> tuple[Reading, str] | None:
    if reading.free_day or reading.free_weekday or not _nearest(reading):
        return None
    if _special(reading):
        return replace(reading, free_weekday=True), NEAREST_ALONE
    return replace(reading, weekdays=ALL_WEEKDAYS, free_weekday=True), NEAREST_ALONE


def _clamped(reading: Reading, fields: list[str]) -> tuple[Reading, str] | None:
    if not any(rule[0] == "nearest" and rule[1] > 28 for rule in reading.days):
        return None
    days = {(kind.replace("nearest", "nearest-or-last"), a, b) for kind, a, b in reading.days}
    return replace(reading, days=frozenset(days)), CLAMPED
