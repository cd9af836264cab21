"""Times as people write them in forms: local to a time zone, without an offset."""

from datetime import UTC, datetime
from functools import cache
from zoneinfo import available_timezones

from gnomon.cron.zones import zone
from gnomon.model.errors import InvalidSchedule, InvalidTask

EXAMPLE = "2030-01-31T12:00"


def moment_of(text: str, zone_name: str, pointer: str) -> datetime:
    """The moment of a local time, in UTC. One that comes twice, when clocks are put back, is the
    earlier of both. Raises InvalidTask, with the place."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidTask(f"must be a date and a time, as {EXAMPLE}", pointer) from error
    if found.tzinfo is not None:
        return _in_utc(found, pointer)
    try:
        local = found.replace(tzinfo=zone(zone_name.strip() or "UTC"))
    except InvalidSchedule as error:
        raise InvalidTask(error.detail, "/zone") from error
    moment = _in_utc(local, pointer)
    back = moment.astimezone(local.tzinfo).replace(tzinfo=None)
    if back != found:
        raise InvalidTask(
            f"{found:%H:%M} does not exist in {zone_name} on this day: clocks are put forward; "
            f"write {back:%H:%M} or a time before the gap",
            pointer,
        )
    return moment


def written(moment: datetime, zone_name: str = "UTC") -> str:
    """The local time of a moment, as the field of a browser has it."""
    local = moment.astimezone(UTC if zone_name == "UTC" else zone(zone_name))
    return local.strftime("%Y-%m-%dT%H:%M:%S")


def _in_utc(moment: datetime, pointer: str) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidTask(f"is too far away; write a time as {EXAMPLE}", pointer) from error


@cache
def zone_names() -> tuple[str, ...]:
    """UTC, and the zones by region and city, for completion."""
    regions = sorted(name for name in available_timezones() if _is_city(name))
    return ("UTC", *regions)


def _is_city(name: str) -> bool:
    region = name.partition("/")[0]
    return "/" in name and region not in ("Etc", "SystemV", "US", "posix", "right")
