"""Time zones by name, and their offsets in whole seconds.

Inside this package a moment is a number of seconds since 1970 UTC, and a local time is the number
that the same date and time would be in UTC: the moment plus the offset.
"""

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from gnomon.model.errors import InvalidSchedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ONE_SECOND = timedelta(seconds=1)


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The zone of this IANA name."""
    if name not in _names():
        raise InvalidSchedule(f"there is no time zone {name[:100]!r}; write {_suggestion(name)}")
    return ZoneInfo(name)


def offset_at(zone: ZoneInfo, moment: int) -> int:
    """Seconds that `zone` is ahead of UTC at `moment`."""
    offset = (EPOCH + timedelta(0, moment)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // _ONE_SECOND


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def _suggestion(name: str) -> str:
    by_lower = {known.lower(): known for known in _names()}
    wanted = name[:100].lower().replace(" ", "_")
    # A city alone is the commonest slip: Berlin for Europe/Berlin.
    cities = [known for lower, known in by_lower.items() if lower.endswith("/" + wanted)]
    close = [by_lower[lower] for lower in get_close_matches(wanted, by_lower, n=3, cutoff=0.6)]
    found = list(dict.fromkeys([*sorted(cities), *close]))[:3]
    return " or ".join(found) if found else "an IANA name such as Europe/Berlin or UTC"
