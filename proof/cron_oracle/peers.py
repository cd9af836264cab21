"""The two peers, cronsim and croniter: what they claim to support, and how they are asked."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter
from cronsim import CronSim
from proof.cron_oracle import oracle
from proof.cron_oracle.grammar import DAYS, MACROS
from proof.cron_oracle.oracle import DAY

# So many fires are asked of a peer, around the transition where there is one.
MOST = 8
# An answer is cut there: a peer that reads more into an expression would go on for long.
LONG = 2 * MOST + 1


# A peer that takes so long (of processor time) does not come to an end.
PATIENCE_SECONDS = 1.0

ENDLESS = "does not come to an end"


@dataclass(frozen=True)
class Question:
    """What a peer is asked: its fires after `start` up to `end`."""

    expression: str
    zone: str
    start: int
    end: int
    reverse: bool = False


def words(expression: str) -> list[str]:
    """Six of them, in capitals; five get second 0."""
    found = MACROS.get(expression.lower(), expression).upper().split()
    return found if len(found) == 6 else ["0", *found]


def six(expression: str) -> bool:
    return len(expression.split()) == 6


def for_cronsim(expression: str) -> str | None:
    """The expression as cronsim writes it, or None where it does not claim to know such things.

    It has no `15W`, no `L-3` and no `L-3W`. What it merely spells otherwise is respelt.
    """
    fields = words(expression)
    if re.search(r"\d+W|L-\d", fields[3]):
        return None
    fields[3] = fields[3].replace("?", "*")
    fields[5] = ",".join(_numbered(item) for item in fields[5].replace("?", "*").split(","))
    return " ".join(fields if six(expression) else fields[1:])


def for_croniter(expression: str) -> str | None:
    """The same for croniter.

    It has no `LW`, `L-3` or `L-3W`, takes `15W` only alone, takes `5L` (which it spells `L5`) and
    `5#3` in no list with other weekdays, and in six fields knows Sunday as 0 only.
    """
    fields = words(expression)
    if re.search(r"LW|L-\d|W,|,.*W", fields[3]):
        return None
    items = [_numbered(item) for item in fields[5].split(",")]
    special = [item for item in items if "#" in item or "L" in item]
    if special and len(special) < len(items):
        return None
    items = [re.sub(r"^7(?=$|L|#)", "0", item) for item in items]
    if six(expression) and any("7" in item.partition("/")[0] for item in items):
        return None
    fields[5] = ",".join(re.sub(r"^(\d)L$", r"L\1", item) for item in items)
    return " ".join(fields if six(expression) else fields[1:])


def _numbered(item: str) -> str:
    """A weekday with numbers for names, Sunday as 7 where it ends a range."""
    item = re.sub(r"(?<=-)SUN", "7", item) if not item.startswith("SUN") else item
    for number, name in enumerate(DAYS):
        item = item.replace(name, str(number))
    return item


def ask(peer: str, question: Question) -> list[int] | str | None:
    """The answer, or how it failed to answer, or None for what it does not claim to know.

    croniter walks through a gap minute by minute, again and again; where that gap is a day long it
    takes too long to be asked.
    """
    if peer == "croniter" and _day_is_missing(question):
        return None
    try:
        with _patience():
            return ask_cronsim(question) if peer == "cronsim" else ask_croniter(question)
    except TimeoutError:
        return ENDLESS


def _day_is_missing(question: Question) -> bool:
    zone, low, high = ZoneInfo(question.zone), question.start - DAY, question.end + DAY
    near = [at for at in oracle.transitions(question.zone) if low <= at <= high]
    return any(oracle.wall(zone, at) - oracle.wall(zone, at - 1) > DAY for at in near)


@contextmanager
def _patience() -> Iterator[None]:
    def give_up(signum: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def ask_cronsim(question: Question) -> list[int] | None:
    text = for_cronsim(question.expression)
    if text is None:
        return None
    return _take(question, CronSim(text, _begin(question), reverse=question.reverse))


def ask_croniter(question: Question, vixie: bool = False) -> list[int] | None:
    """`vixie` is its own switch for the rule that a day field with a star in front means "and"."""
    text = for_croniter(question.expression)
    if text is None:
        return None
    peer = croniter(
        text,
        _begin(question),
        ret_type=datetime,
        second_at_beginning=True,
        implement_cron_bug=vixie,
        is_prev=question.reverse,
    )
    return _take(question, _until_lost(peer))


def _until_lost(peer: Iterator[datetime]) -> Iterator[datetime]:
    """Up to where it says that there is no further date.

    It looks 50 years ahead, and must be left that: of two day fields it searches by each alone, and
    29 February on a last Sunday, say, takes 28 years.
    """
    with suppress(CroniterBadDateError):
        yield from peer


def _begin(question: Question) -> datetime:
    """Backwards it begins a second after the end, which is to be included."""
    instant = question.end + 1 if question.reverse else question.start
    zone = UTC if question.zone == "UTC" else ZoneInfo(question.zone)
    return datetime.fromtimestamp(instant, zone)


def _take(question: Question, peer: Iterator[datetime]) -> list[int]:
    """In the order in which they come, so that a step in the wrong direction is seen."""
    found: list[int] = []
    for moment in peer:
        instant = int(moment.timestamp())
        beyond = instant <= question.start if question.reverse else instant > question.end
        if beyond or len(found) == LONG:
            break
        found.append(instant)
    return found
