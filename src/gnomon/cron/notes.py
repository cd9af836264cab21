"""Effects of clock changes on fires, in plain words."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from gnomon.cron.dst import Dst, Fold, Gap
from gnomon.cron.expression import CronExpression
from gnomon.cron.local import LocalTimes
from gnomon.cron.zones import EPOCH, offsets_at

_SECOND = timedelta(seconds=1)
_TWICE = {
    Fold.FIRST: "fires the first time only",
    Fold.SECOND: "fires the second time only",
    Fold.BOTH: "fires both times",
}
_EVERY_HOUR = (1 << 24) - 1


def gap_note(
    expression: CronExpression, local: LocalTimes, zone: ZoneInfo, policy: Dst, change: int
) -> str | None:
    """The note where clocks go forward at `change`, over times that the expression matches."""
    around = [timedelta(0, change - 1), timedelta(0, change)]
    opens, closes = (change + offset // _SECOND for offset in offsets_at(zone, around))
    first = local.from_(opens)
    if first is None or first >= closes:
        return None
    if policy.gap is Gap.SKIP and expression.elapsed and expression.hour.mask == _EVERY_HOUR:
        return None  # no fire is missing: as many real minutes pass as on any other day
    following = local.from_(first + 1)
    several = following is not None and following < closes
    verb = "and others do not exist" if several else "does not exist"
    fate = "fires right after" if policy.gap is Gap.FIRE_AFTER else "skipped"
    day = _date(opens)
    missing, gone, come = (_clock(each, day) for each in (first, opens, closes))
    return f"{day}: {missing} {verb}, as clocks go from {gone} to {come}; {fate}"


def fold_note(policy: Dst, local: datetime) -> str | None:
    """The note where `local` comes twice."""
    if local.utcoffset() == local.replace(fold=1 - local.fold).utcoffset():
        return None
    seconds = int(local.replace(tzinfo=EPOCH.tzinfo).timestamp())
    day = _date(seconds)
    which = "second" if local.fold else "first"
    return f"{day}: {_clock(seconds, day)} comes twice, this is the {which}; {_TWICE[policy.fold]}"


def _date(local: int) -> str:
    return (EPOCH + timedelta(0, local)).date().isoformat()


def _clock(local: int, day: str) -> str:
    """The time of day, with its date where that is not `day`."""
    moment = EPOCH + timedelta(0, local)
    time = moment.strftime("%H:%M:%S" if moment.second else "%H:%M")
    return time if _date(local) == day else f"{_date(local)} {time}"
