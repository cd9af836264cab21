"""Charts: what `charts.js` draws, and the same as a table. Pure."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from gnomon.dashboard.text import words
from gnomon.model.insight.activity import percentile
from gnomon.store.ports.insight.activity import ActivityPoint, ActivityRange, UpcomingHour
from gnomon.usecases.tasks.activity import ActivityOfAll, TenantPoints

LEAST_COVERED = 20.0  # seconds of a step that has begun, before it is drawn
MOST_SHARES = 7  # tenants with a colour of their own
_PARTS = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


class Series(msgspec.Struct, frozen=True):
    """One line, or one kind of bars. The colour is a property of the style sheet."""

    label: str
    colour: str
    values: list[float | None]
    dash: tuple[int, ...] = ()  # lines can be told apart without their colours


class ChartData(msgspec.Struct, frozen=True):
    """What the script is told."""

    kind: str  # lines, bars, stack
    unit: str  # rate, seconds, tasks, share
    at: list[float]  # seconds since the epoch
    series: list[Series]


class Chart(msgspec.Struct, frozen=True):
    """A chart with its alternative."""

    id: str
    title: str
    data: ChartData
    rows: list[tuple[datetime, list[str]]]  # the same numbers, for reading
    note: str = ""

    @property
    def json(self) -> str:
        return msgspec.json.encode(self.data).decode()

    @property
    def empty(self) -> bool:
        return not any(value for each in self.data.series for value in each.values)


def flow_chart(within: ActivityRange, points: Sequence[ActivityPoint]) -> Chart:
    """Starts and failures a second."""
    drawn = _drawn(within, points)

    def rates(count: Callable[[ActivityPoint], int]) -> list[float | None]:
        return [count(point) / covered for point, covered in drawn]

    series = [
        Series("started", "--blue", rates(lambda p: p.counts.started)),
        Series("failed", "--red", rates(lambda p: p.counts.failed), (8, 4)),
    ]
    return _chart("flow", "Starts and failures a second", "rate", drawn, series, words.rate)


def delay_chart(within: ActivityRange, points: Sequence[ActivityPoint]) -> Chart:
    """How late starts were."""
    drawn = _drawn(within, points)
    looks = {"p50": ("--green", ()), "p95": ("--orange", (8, 4)), "p99": ("--purple", (2, 4))}
    series = [
        Series(
            name,
            looks[name][0],
            [percentile(point.counts.delays, part) for point, _ in drawn],
            looks[name][1],
        )
        for name, part in _PARTS
    ]
    return _chart("delay", "Start delay", "seconds", drawn, series, words.span)


def upcoming_chart(hours: Sequence[UpcomingHour]) -> Chart:
    """What is scheduled for the next hours."""
    values: list[float | None] = [float(hour.estimate) for hour in hours]
    data = ChartData(
        "bars",
        "tasks",
        [hour.starts_at.timestamp() for hour in hours],
        [Series("scheduled", "--sky", values)],
    )
    rows = [(hour.starts_at, [_estimated(hour)]) for hour in hours]
    note = ""
    if any(hour.capped for hour in hours):
        note = "Estimated where there are many: the first tasks of an hour stand for the rest."
    return Chart("upcoming", "Scheduled for the next 24 hours", data, rows, note)


def share_chart(found: ActivityOfAll, measure: Callable[[ActivityPoint], float]) -> Chart:
    """The part of each tenant in every step: of the first tenants, and of all others."""
    named = [each for each in found.tenants if each.tenant_id is not None][:MOST_SHARES]
    wholes = [measure(point) for point in found.points]
    series = [
        Series(each.tenant_id or "", f"--n{place}", _parts(each, measure, wholes))
        for place, each in enumerate(named)
    ]
    rest = [
        None if not whole else max(0.0, 1 - sum(s.values[place] or 0.0 for s in series))
        for place, whole in enumerate(wholes)
    ]
    if len(found.tenants) > len(named):
        series.append(Series("all others", f"--n{MOST_SHARES}", rest))
    at = [point.starts_at.timestamp() for point in found.points]
    rows = [
        (point.starts_at, [_share(each.values[place]) for each in series])
        for place, point in enumerate(found.points)
    ]
    return Chart("shares", "Share of each tenant", ChartData("stack", "share", at, series), rows)


def _parts(
    tenant: TenantPoints, measure: Callable[[ActivityPoint], float], wholes: Sequence[float]
) -> list[float | None]:
    return [
        measure(point) / whole if whole else None
        for point, whole in zip(tenant.points, wholes, strict=True)
    ]


def _chart(
    name: str,
    title: str,
    unit: str,
    drawn: Sequence[tuple[ActivityPoint, float]],
    series: list[Series],
    written: Callable[[float | None], str],
) -> Chart:
    data = ChartData("lines", unit, [p.starts_at.timestamp() for p, _ in drawn], series)
    rows = [
        (point.starts_at, [written(each.values[place]) for each in series])
        for place, (point, _) in enumerate(drawn)
    ]
    return Chart(name, title, data, rows)


def _drawn(
    within: ActivityRange, points: Sequence[ActivityPoint]
) -> list[tuple[ActivityPoint, float]]:
    """Points, and the seconds of their step that have passed. The present one only if that is
    enough to say something."""
    step = within.step.total_seconds()
    covered = [
        (point, min(step, (within.last - point.starts_at).total_seconds())) for point in points
    ]
    return [(point, seconds) for point, seconds in covered if seconds >= min(step, LEAST_COVERED)]


def _estimated(hour: UpcomingHour) -> str:
    text = words.number(hour.estimate)
    if not hour.capped:
        return text
    return f"about {text}" if hour.estimate > hour.count else f"{text}+"


def _share(part: float | None) -> str:
    return words.NONE if part is None else f"{part * 100:.1f} %"
