"""Quiet hours: a part of each day in which a subscription is not told of anything. Pure."""

import re
from datetime import UTC, datetime, time, timedelta

import msgspec

from gnomon.cron.zones import zone

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


class QuietHours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From `start` to `end` by the clocks of a zone; over midnight where the end is earlier."""

    start: str  # 22:00
    end: str  # 07:00
    timezone: str = "UTC"
    errors_through: bool = False  # errors are told at once all the same

    def check(self) -> None:
        """Raises ValueError, the field first; InvalidSchedule for the zone."""
        for name in ("start", "end"):
            if not _CLOCK.fullmatch(getattr(self, name)):
                raise ValueError(f"{name} must be a time of day, such as 22:00")
        if self.start == self.end:
            raise ValueError(
                "end must differ from start; disable or mute it to hear nothing at all"
            )
        zone(self.timezone)

    def holds_at(self, moment: datetime) -> bool:
        """Whether it is quiet at this moment."""
        local = moment.astimezone(zone(self.timezone)).time()
        begins, ends = _time(self.start), _time(self.end)
        if begins < ends:
            return begins <= local < ends
        return local >= begins or local < ends

    def ends_after(self, moment: datetime) -> datetime:
        """When clocks show the end next. Where clocks are put back, that is the first time."""
        own = zone(self.timezone)
        local = moment.astimezone(own)
        for days in range(3):
            date = (local + timedelta(days=days)).date()
            ends = datetime.combine(date, _time(self.end), own).astimezone(UTC)
            if ends > moment:
                return ends
        raise AssertionError("every day has its end")


def _time(text: str) -> time:
    return time.fromisoformat(text)
