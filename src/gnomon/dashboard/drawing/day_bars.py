"""Usage by the day, as bars."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta

import msgspec
from markupsafe import Markup

from gnomon.dashboard.text import words
from gnomon.store.ports.tenancy.usage import DayUsage
from gnomon.usecases.admin.usage import Days

_HEIGHT = 72
_STEP = 10
_GAP = 2


class UsageChart(msgspec.Struct, frozen=True):
    """One measure over the days, with its sum."""

    title: str
    total: str
    bars: Markup


def usage_charts(days: Days, found: Sequence[DayUsage]) -> list[UsageChart]:
    """The measures of usage; days without any are drawn, too."""
    measures: tuple[tuple[str, Callable[[DayUsage], float], Callable[[float], str]], ...] = (
        ("Submissions", lambda each: each.submissions, _whole),
        ("Executions", lambda each: each.executions, _whole),
        ("Compute time", lambda each: each.compute_seconds, words.span),
        ("Bytes written", lambda each: each.stored_bytes, words.size),
    )
    by_day = {each.day: each for each in found}
    charts = []
    for title, measure, written in measures:
        values = [(day, measure(by_day[day]) if day in by_day else 0.0) for day in _each_day(days)]
        total = written(sum(value for _, value in values))
        charts.append(UsageChart(title, total, _bars(title, values, written)))
    return charts


def _each_day(days: Days) -> list[date]:
    count = (days.last - days.first).days + 1
    return [days.first + timedelta(days=number) for number in range(count)]


def _bars(
    title: str, values: Sequence[tuple[date, float]], written: Callable[[float], str]
) -> Markup:
    most = max(value for _, value in values)
    bars = Markup("").join(
        _bar(place, f"{day}: {written(value)}", value / most if most else 0.0)
        for place, (day, value) in enumerate(values)
    )
    label = f"{title} by the day, at most {written(most)}" if most else f"{title}: none"
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(len(values) * _STEP, _HEIGHT, label, bars)


def _bar(place: int, title: str, share: float) -> Markup:
    height = max(share * _HEIGHT, 1.0)  # a line where there is nothing
    return Markup(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
    ).format(
        "" if share else "none",
        place * _STEP,
        f"{_HEIGHT - height:.1f}",
        _STEP - _GAP,
        f"{height:.1f}",
        title,
    )


def _whole(value: float) -> str:
    return words.number(int(value))
