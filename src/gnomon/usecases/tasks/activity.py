"""Activity over time: of a tenant, or of all tenants for operators. And what is scheduled."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.insight.activity import ALL_TYPES, Counts
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.insight.activity import (
    HOUR,
    MINUTE,
    MINUTES_KEPT,
    ActivityPoint,
    ActivityRange,
    TypeActivity,
)
from gnomon.store.postgres.activity.activity import PostgresActivity

DEFAULT_RANGE = timedelta(hours=1)
MOST_POINTS = 1_500
MINUTES_OF_ALL = timedelta(hours=3)  # of all tenants, or types: for longer, by the hour
MOST_TYPES = 50  # the busiest, of an answer
MOST_TENANTS = 50  # those that ran for longest
_WANTED_POINTS = 300  # where no step is asked for, so many at the most
_WANTED_OF_ALL = 100  # of each of so many tenants
_STEPS = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 3 * 60, 6 * 60, 12 * 60, 24 * 60)
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ActivityQuestion(msgspec.Struct, frozen=True):
    """What is asked for; None: as is sensible."""

    first: datetime | None = None
    last: datetime | None = None
    step: timedelta | None = None
    lane: Lane | None = None


class Activity(msgspec.Struct, frozen=True):
    """Every step of a range, and all of it together."""

    within: ActivityRange
    points: list[ActivityPoint]
    total: Counts
    types: list[TypeActivity]  # the busiest first; those of all others have no name


class TenantPoints(msgspec.Struct, frozen=True):
    """A tenant over a range; None: all that are not named."""

    tenant_id: str | None
    points: list[ActivityPoint]
    total: Counts


class ActivityOfAll(msgspec.Struct, frozen=True):
    """All tenants over a range, together and each; those that ran for longest first."""

    within: ActivityRange
    points: list[ActivityPoint]
    total: Counts
    tenants: list[TenantPoints]


async def of_tenant(
    store: PostgresActivity,
    tenant_id: str,
    asked: ActivityQuestion,
    now: datetime,
    task_type: str | None = None,
) -> Activity:
    """The activity of a tenant, or of one of its task types. Raises InvalidTask, with the place."""
    within = range_of(asked, now)
    found = await store.points(tenant_id, within, task_type or ALL_TYPES, asked.lane)
    types: list[TypeActivity] = []
    if task_type is None:
        types = await store.types(tenant_id, _of_types(within, now), asked.lane)
    points = _every(within, {point.starts_at: point.counts for point in found})
    total = _sum(point.counts for point in found)
    return Activity(within, points, total, _busiest(types, total))


async def of_all(store: PostgresActivity, asked: ActivityQuestion, now: datetime) -> ActivityOfAll:
    """The activity of all tenants. Raises InvalidTask, with the place."""
    within = range_of(asked, now, MINUTES_OF_ALL, _WANTED_OF_ALL)
    found = await store.tenants(within, asked.lane, MOST_TENANTS)
    of_tenant: dict[str | None, dict[datetime, Counts]] = {}
    together: dict[datetime, Counts] = {}
    for each in found:
        of_tenant.setdefault(each.tenant_id, {})[each.starts_at] = each.counts
        together.setdefault(each.starts_at, Counts()).add(each.counts)
    tenants = [
        TenantPoints(tenant, _every(within, points), _sum(points.values()))
        for tenant, points in of_tenant.items()
    ]
    tenants.sort(key=lambda t: (t.tenant_id is None, -t.total.seconds, -t.total.started))
    return ActivityOfAll(within, _every(within, together), _sum(together.values()), tenants)


def range_of(
    asked: ActivityQuestion,
    now: datetime,
    minutes_for: timedelta = MINUTES_KEPT,
    wanted: int = _WANTED_POINTS,
) -> ActivityRange:
    """The steps that hold all that is asked for; in minutes only for so long. Raises InvalidTask,
    with the place."""
    last = min(asked.last or now, now)
    first = last - DEFAULT_RANGE if asked.first is None else asked.first
    if last <= first:
        raise InvalidTask("must be later than from, and from in the past", "/to")
    if first < _EPOCH:
        raise InvalidTask("is before any time that is kept", "/from")
    in_minutes = first >= now - MINUTES_KEPT and last - first <= minutes_for
    step = asked.step or _step(last - first, wanted, in_minutes=in_minutes)
    if step < MINUTE or step % (MINUTE if step < HOUR else HOUR):
        raise InvalidTask("must be whole minutes, or whole hours from 3600 on, in seconds", "/step")
    if step < HOUR and not in_minutes:
        hours = round(minutes_for / HOUR)
        what = f"must be 3600 or more where from is over a day ago, or {hours} hours before to"
        raise InvalidTask(what, "/step")
    first -= (first - _EPOCH) % step
    if (last - first) / step > MOST_POINTS:
        raise InvalidTask(f"must give {MOST_POINTS} points at the most: make it longer", "/step")
    return ActivityRange(first, last, step)


def _of_types(within: ActivityRange, now: datetime) -> ActivityRange:
    """The range that types are added up over. They are many: where it is long, by the hour, and of
    the hours that lie within it. The present one has no end yet."""
    if within.span == 60 or within.last - within.first <= MINUTES_OF_ALL:
        return within
    first = within.first + (_EPOCH - within.first) % HOUR
    last = within.last if within.last >= now else within.last - (within.last - _EPOCH) % HOUR
    return ActivityRange(first, last, HOUR)


def _step(length: timedelta, wanted: int, *, in_minutes: bool) -> timedelta:
    fitting = (step for step in _STEPS if length / step <= wanted and (in_minutes or step >= HOUR))
    return next(fitting, max(_STEPS[-1], length // MOST_POINTS // HOUR * HOUR + HOUR))


def _every(within: ActivityRange, found: Mapping[datetime, Counts]) -> list[ActivityPoint]:
    steps = -((within.first - within.last) // within.step)
    moments = (within.first + number * within.step for number in range(steps))
    return [ActivityPoint(at, found.get(at) or Counts()) for at in moments]


def _sum(counts: Iterable[Counts]) -> Counts:
    whole = Counts()
    for each in counts:
        whole.add(each)
    return whole


def _busiest(types: list[TypeActivity], total: Counts) -> list[TypeActivity]:
    """What is not named is what is left of all."""
    ranked = sorted(types, key=lambda each: (-each.counts.weight, each.task_type or ""))
    named = ranked[:MOST_TYPES]
    left = total.less(_sum(each.counts for each in named))
    return [*named, TypeActivity(None, left)] if left.weight else named


async def recent(
    store: PostgresActivity, tenant_id: str, now: datetime, length: timedelta
) -> tuple[Counts, float]:
    """What happened lately, and in how many seconds. From the beginning of a minute on."""
    within = range_of(ActivityQuestion(now - length, now, MINUTE), now)
    found = await store.points(tenant_id, within, ALL_TYPES, None)
    seconds = (within.last - within.first).total_seconds()
    return _sum(point.counts for point in found), seconds
