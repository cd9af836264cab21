"""Random expressions, zones and starts: each group of triples follows from one seed alone."""

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

from proof.cron_oracle import oracle
from proof.cron_oracle.grammar import DAYS, MONTHS
from proof.cron_oracle.oracle import DAY, FOLDS, GAPS, Policy

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/London",
    "Europe/Dublin",  # winter is the shift, and it is negative
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Apia",  # 2011-12-30 never was
    "Pacific/Kwajalein",  # nor was 1993-08-21 here; and 1969-09-30 was nearly twice
    "Africa/Casablanca",  # winter time for Ramadan, by a table that ends in 2087
    "Antarctica/Troll",  # two hours
    "Pacific/Chatham",  # an offset of 12:45, shifted at 02:45
    "America/Santiago",  # midnight is in the gap; the fold is on the day before
    "America/Havana",  # the gap begins at midnight, the fold ends there
    "America/St_Johns",  # at one minute past midnight, up to 2011
    "America/Sao_Paulo",
    "America/Caracas",  # half an hour, for good
    "America/Scoresbysund",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kolkata",
    "Asia/Pyongyang",
    "Africa/Cairo",
    "Africa/Monrovia",  # 0:44:30 behind up to 1972
    "Europe/Amsterdam",  # 0:19:32 ahead up to 1937
)
FIRST_YEAR, LAST_YEAR = 1970, 2107
OLD_YEARS = (1880, 1970)
NEAR = 36 * 3600
MINUTES_SPAN = 3 * DAY
SECONDS_SPAN = 2 * 3600
GROUP = 40


@dataclass(frozen=True)
class Triple:
    """What is compared: an expression, a zone and a start, up to `end`, under a policy."""

    expression: str
    zone: str
    start: int
    end: int
    policy: Policy
    kind: str
    """`minutes`, `seconds` or `days`: by what the oracle walks."""


@dataclass(frozen=True)
class Group:
    """Triples that share a zone and a stretch of time."""

    seed: str
    zone: str
    start: int
    end: int
    kind: str
    focus: int
    """The transition it is about, or its start."""
    near: bool
    """Whether that is a transition."""
    triples: list[Triple]


def group(seed: str, size: int = GROUP) -> Group:
    rng = Random(seed)
    kind = rng.choices(("minutes", "days", "seconds"), (83, 11, 6))[0]
    zone = rng.choice(ZONES)
    focus, near = _focus(rng, zone, kind)
    if kind == "days":
        start = focus + rng.randint(-NEAR, NEAR)
        end = start + int(rng.choices((1.1, 3, 9), (70, 20, 10))[0] * 366 * DAY)
    else:
        kind, start, end = _stretch(rng, zone, kind, focus, near)
    write = {"minutes": by_minutes, "seconds": by_seconds, "days": by_days}[kind]
    return Group(
        seed,
        zone,
        start,
        end,
        kind,
        focus,
        near,
        [
            Triple(_cased(rng, write(rng)), zone, start, end, _policy(rng), kind)
            for _ in range(size)
        ],
    )


def _focus(rng: Random, zone: str, kind: str) -> tuple[int, bool]:
    """An instant to look at, and whether it is a transition: so it is for half of them."""
    old = rng.random() < 0.03
    years = OLD_YEARS if old else (FIRST_YEAR, LAST_YEAR)
    if kind == "days" and rng.random() < 0.4:
        years = (2095, 2105)
    first, last = (int(datetime(y, 1, 1, tzinfo=UTC).timestamp()) for y in years)
    near = [at for at in oracle.transitions(zone) if first <= at < last]
    if near and rng.random() < 0.62:  # some zones have none, and half are wanted over all
        return rng.choice(near), True
    return rng.randrange(first, last), False


def _stretch(rng: Random, zone: str, kind: str, focus: int, near: bool) -> tuple[str, int, int]:
    """Some starts are round, and some are on the transition itself or just beside it."""
    span, reach = (MINUTES_SPAN, NEAR) if kind == "minutes" else (SECONDS_SPAN, SECONDS_SPAN)
    start = focus - rng.randint(-reach // 8, reach) if near else focus
    start = rng.choice((start, start, start // 60 * 60, start // 3600 * 3600))
    if near and rng.random() < 0.1:
        start = focus + rng.choice((-3600, -1, 0, 1, 3599, 3600))
    if kind == "minutes" and not oracle.whole_minutes(ZoneInfo(zone), start, start + span):
        kind, span = "seconds", SECONDS_SPAN
        start = max(start, focus - span)
    return kind, start, start + span


def _policy(rng: Random) -> Policy:
    return Policy(rng.choice(GAPS), rng.choice(FOLDS))


def _cased(rng: Random, text: str) -> str:
    return rng.choice((text, text, text.lower(), text.title())) if rng.random() < 0.2 else text


def by_minutes(rng: Random) -> str:
    """Times of the day in all ways; days that mostly match, else there is nothing to see."""
    if rng.random() < 0.01:
        return rng.choice(("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly"))
    day, month, weekday = _common_days(rng) if rng.random() < 0.7 else _days(rng)
    return f"{_minute(rng)} {_hour(rng)} {day} {month} {weekday}"


def by_seconds(rng: Random) -> str:
    """Five fields too: in old times the offsets had seconds."""
    day, month, weekday = _common_days(rng)
    tail = f"{_minute(rng)} {_hour(rng, small=True)} {day} {month} {weekday}"
    if rng.random() < 0.25:
        return tail
    second = rng.choices(
        (str(rng.randrange(60)), _list(rng, 0, 59), f"*/{rng.randint(7, 40)}", "*", "0"),
        (40, 20, 20, 2, 18),
    )[0]
    return f"{second} {tail}"


def by_days(rng: Random) -> str:
    """Rare dates at one or two times of the day."""
    day, month, weekday = _days(rng)
    minute = str(rng.randrange(60)) if rng.random() < 0.9 else _list(rng, 0, 59)
    hour = rng.choice((0, 1, 2, 3, 23, rng.randrange(24)))
    second = f"{rng.randrange(60)} " if rng.random() < 0.1 else ""
    return f"{second}{minute} {hour} {day} {month} {weekday}"


def _minute(rng: Random) -> str:
    forms = (
        str(rng.choice((0, 0, 15, 30, 45, 59, 1, rng.randrange(60)))),
        _list(rng, 0, 59),
        _range(rng, 0, 59, rng.randint(5, 30)),
        f"{rng.randrange(60)}/{rng.randint(10, 40)}",
        f"*/{rng.choice((1, 5, 7, 10, 15, 20, 25, 30, 45, 59))}",
        "*",
        f"*/{rng.randint(15, 59)},{rng.randrange(60)}",
        _range(rng, 0, 59),
    )
    return rng.choices(forms, (48, 15, 11, 8, 12, 1.5, 1.5, 3))[0]


def _hour(rng: Random, small: bool = False) -> str:
    # Clocks are changed at night, and there the interest is.
    single = rng.choice((0, 0, 1, 1, 2, 2, 3, 23, rng.randrange(24), rng.randrange(24)))
    forms = (
        str(single),
        _list(rng, 0, 5) if rng.random() < 0.5 else _list(rng, 0, 23),
        _range(rng, 0, 23, rng.randint(2, 8)),
        _range(rng, 0, 6) if rng.random() < 0.6 else _range(rng, 0, 23),
        f"{rng.randrange(24)}/{rng.randint(2, 11)}",
        f"*/{rng.choice((1, 2, 3, 4, 5, 6, 8, 12, 23))}",
        "*",
    )
    return rng.choices(forms, (38, 18, 8, 8, 5, 10, 30 if small else 13))[0]


def _common_days(rng: Random) -> tuple[str, str, str]:
    some = (
        ("*", "*", "*"),
        ("*", "*", rng.choice(("MON-FRI", "1-5", "SAT,SUN", "0", "7", "SUN", "FRI-SUN", "5-7"))),
        ("?", "*", _range(rng, 0, 6)),
        ("*", _list(rng, 1, 12), "?"),
        (_range(rng, 1, 31), "*", "*"),
        (f"*/{rng.randint(2, 5)}", "*", _range(rng, 0, 6)),
    )
    return rng.choices(some, (60, 12, 7, 7, 7, 7))[0]


def _days(rng: Random) -> tuple[str, str, str]:
    month = rng.choices(
        ("*", "2", "FEB", rng.choice(MONTHS), _list(rng, 1, 12), _range(rng, 1, 12), "*/3", "5/4"),
        (50, 10, 5, 10, 10, 5, 5, 5),
    )[0]
    day = ",".join(_day(rng) for _ in range(rng.choices((1, 2, 3), (75, 20, 5))[0]))
    weekday = ",".join(_weekday(rng) for _ in range(rng.choices((1, 2, 3), (75, 20, 5))[0]))
    shape = rng.random()
    if shape < 0.4:
        return day, month, rng.choice("*?")
    if shape < 0.7:
        return rng.choice("*?"), month, weekday
    if shape < 0.8:
        return day, month, weekday
    return f"*/{rng.randint(2, 31)}", month, weekday


def _day(rng: Random) -> str:
    forms = (
        str(rng.randint(1, 31)),
        str(rng.choice((1, 28, 29, 30, 31))),
        _range(rng, 1, 31),
        "L",
        f"L-{rng.choice((1, 2, 3, 7, 27, rng.randint(1, 30)))}",
        f"{rng.choice((1, 2, 15, 29, 30, 31, rng.randint(1, 31)))}W",
        "LW",
        f"{rng.randint(1, 31)}/{rng.randint(3, 20)}",
        f"L-{rng.choice((0, 1, 2, 3, 27, 28, 29, 30, rng.randint(1, 30)))}W",
    )
    return rng.choices(forms, (20, 15, 5, 12, 14, 18, 10, 6, 14))[0]


def _weekday(rng: Random) -> str:
    name = rng.choice((*DAYS, *"01234567"))
    forms = (
        name,
        _range(rng, 0, 7),
        f"{name}L",
        f"{name}#{rng.randint(1, 5)}",
        f"{rng.randrange(7)}/{rng.randint(2, 5)}",
        rng.choice(("MON-WED", "Sat-Sun", "TUE-SAT", "SUN-MON", "1-7", "0-7/3", "5-7/2")),
    )
    return rng.choices(forms, (30, 10, 20, 30, 4, 6))[0]


def _list(rng: Random, low: int, high: int) -> str:
    return ",".join(str(rng.randint(low, high)) for _ in range(rng.randint(2, 4)))


def _range(rng: Random, low: int, high: int, step: int | None = None) -> str:
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    return f"{first}-{last}" + (f"/{step}" if step else "")
