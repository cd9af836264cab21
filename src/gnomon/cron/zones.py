"""Time zones by name, and their offsets in whole seconds.

Inside this package a moment is a number of seconds since 1970 UTC, and a local time is the number
that the same date and time would be in UTC: the moment plus the offset.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from operator import sub
from zoneinfo import ZoneInfo, available_timezones

from gnomon.model.errors import InvalidSchedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The zone of this IANA name."""
    if name not in names():
        raise InvalidSchedule(f"there is no time zone {name[:100]!r}; write {_suggestion(name)}")
    return ZoneInfo(name)


def offsets_at(zone: ZoneInfo, since_epoch: Iterable[timedelta]) -> list[timedelta]:
    """The offsets of `zone` at many moments.

    Between two datetimes of one zone arithmetic ignores the zone. So this subtracts what `fromutc`
    takes from what it gives, several times as fast as `astimezone` and `utcoffset`.
    """
    epoch = datetime(1970, 1, 1, tzinfo=zone)
    moments = [epoch + each for each in since_epoch]
    return list(map(sub, map(zone.fromutc, moments), moments))


def change_between(zone: ZoneInfo, low: int, high: int, before: timedelta) -> int:
    """The first moment with another offset than `before`, which `low` still has."""
    epoch = datetime(1970, 1, 1, tzinfo=zone)
    while high - low > 1:
        middle = (low + high) // 2
        utc = epoch + timedelta(0, middle)
        if zone.fromutc(utc) - utc == before:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """All that are known."""
    return frozenset(available_timezones())


def _suggestion(name: str) -> str:
    by_lower = {known.lower(): known for known in names()}
    wanted = name[:100].lower().replace(" ", "_")
    # A city alone is the commonest slip: Berlin for Europe/Berlin.
    cities = [known for lower, known in by_lower.items() if lower.endswith("/" + wanted)]
    close = [by_lower[lower] for lower in get_close_matches(wanted, by_lower, n=3, cutoff=0.6)]
    found = list(dict.fromkeys([*sorted(cities), *close]))[:3]
    return " or ".join(found) if found else "an IANA name such as Europe/Berlin or UTC"
