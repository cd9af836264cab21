"""Start delay as pictures: plain SVG, written by hand, to be looked at in any browser."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from proof.campaigns.history import Fault

COLOURS = {
    "kill": "#d62728",
    "crash_point": "#8c1d1d",
    "pause": "#9467bd",
    "postgres_fast": "#1f77b4",
    "postgres_immediate": "#0b3d66",
    "cut": "#ff7f0e",
    "delay": "#bcbd22",
    "black_hole": "#333333",
    "lost_answer": "#17becf",
    "failover": "#1f77b4",
    "disk_full": "#7f4f24",
    "skew": "#2ca02c",
}
_P50, _P99, _MAX = "#2ca02c", "#1f77b4", "#bbbbbb"
_LOW, _HIGH = 0.001, 100.0  # seconds of delay that are shown, on a logarithmic scale
_BEFORE, _AFTER = 5.0, 15.0  # seconds around a fault


class Delay(NamedTuple):
    """A task that was due, and how much later it started. Seconds since the load began."""

    due: float
    delay: float


class Bin(NamedTuple):
    """The delays of the tasks that were due in one stretch of time."""

    at: float
    p50: float
    p99: float
    most: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of values in order; 0 where there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def bins(delays: Iterable[Delay], width: float) -> list[Bin]:
    """Percentiles by the time at which tasks were due."""
    grouped: dict[int, list[float]] = {}
    for each in delays:
        grouped.setdefault(math.floor(each.due / width), []).append(each.delay)
    found = []
    for number in sorted(grouped):
        ordered = sorted(grouped[number])
        middle = (number + 0.5) * width
        found.append(Bin(middle, percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1]))
    return found


class Chart:
    """One pair of axes: time to the right, delay upwards on a logarithmic scale."""

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.begin, self.end = 0.0, 1.0
        self.parts: list[str] = []

    def x(self, at: float) -> float:
        return self.left + (at - self.begin) / (self.end - self.begin) * self.width

    def y(self, delay: float) -> float:
        clipped = min(max(delay, _LOW), _HIGH)
        share = math.log10(clipped / _LOW) / math.log10(_HIGH / _LOW)
        return self.top + (1 - share) * self.height

    def axes(self, title: str, begin: float, end: float, every: float) -> None:
        self.begin, self.end = begin, max(end, begin + 1e-9)
        bottom = self.top + self.height
        self.text(self.left, self.top - 6, title, size=13)
        for power in range(-3, 3):
            y = self.y(10.0**power)
            self.line(self.left, y, self.left + self.width, y, "#e5e5e5")
            label = f"{10.0**power:g} s"
            self.text(self.left - 5, y + 4, label, anchor="end")
        at = math.ceil(begin / every) * every
        while at <= end:
            self.line(self.x(at), bottom, self.x(at), bottom + 4, "#555555")
            self.text(self.x(at), bottom + 16, f"{at:g}", anchor="middle")
            at += every
        self.line(self.left, bottom, self.left + self.width, bottom, "#555555")
        self.line(self.left, self.top, self.left, bottom, "#555555")

    def delays(self, found: Sequence[Bin]) -> None:
        """The largest of each stretch as dots, p99 and p50 as lines."""
        for each in found:
            self.parts.append(
                f'<circle cx="{self.x(each.at):.1f}" cy="{self.y(each.most):.1f}" r="1.6" '
                f'fill="{_MAX}"/>'
            )
        self._polyline(found, lambda b: b.p99, _P99)
        self._polyline(found, lambda b: b.p50, _P50)

    def _polyline(self, found: Sequence[Bin], value: Callable[[Bin], float], colour: str) -> None:
        points = " ".join(f"{self.x(b.at):.1f},{self.y(value(b)):.1f}" for b in found)
        self.parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str) -> None:
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'
        )

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", size: int = 11
    ) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )


def over_time(title: str, delays: Sequence[Delay], faults: Sequence[Fault], began: float) -> str:
    """Delay against time, and below it a row of marks for each kind of fault."""
    kinds = sorted({fault.kind for fault in faults})
    chart = Chart(120, 40, 1100, 320)
    end = max((d.due for d in delays), default=1.0)
    chart.axes(title, 0.0, end, _round_step(end))
    chart.delays(bins(delays, max(0.5, end / 1100)))
    top = 400.0
    for row, kind in enumerate(kinds):
        y = top + 16 * row
        chart.text(chart.left - 5, y + 8, kind.replace("_", " "), anchor="end", size=9)
        for fault in (f for f in faults if f.kind == kind):
            x = chart.x(fault.at - began)
            width = max(2.0, chart.x(fault.healed_at - began) - x)
            fade = "1" if fault.took_effect else "0.25"
            chart.parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="10" '
                f'fill="{COLOURS.get(kind, "#777777")}" fill-opacity="{fade}"/>'
            )
    _legend(chart, 1240, 60)
    return _svg(1320, top + 16 * len(kinds) + 20, [chart])


def around_faults(
    title: str, delays: Sequence[Delay], faults: Sequence[Fault], began: float
) -> str:
    """For each kind, the delays of tasks due around its faults, laid over each other."""
    kinds = sorted({fault.kind for fault in faults if fault.took_effect})
    charts = []
    for number, kind in enumerate(kinds):
        moments = [f.at - began for f in faults if f.kind == kind and f.took_effect]
        chart = Chart(60 + 420 * (number % 3), 60 + 230 * (number // 3), 340, 160)
        name = f"{kind.replace('_', ' ')} ({len(moments)})"
        chart.axes(name, -_BEFORE, _AFTER, 5.0)
        chart.delays(bins(aligned(delays, moments), 0.5))
        chart.line(chart.x(0), chart.top, chart.x(0), chart.top + chart.height, COLOURS["kill"])
        charts.append(chart)
    heading = Chart(0, 0, 1, 1)
    heading.text(60, 24, title, size=14)
    _legend(heading, 1000, 16)
    rows = math.ceil(len(kinds) / 3)
    return _svg(1300, 60 + 230 * rows + 10, [heading, *charts])


def aligned(delays: Sequence[Delay], moments: Iterable[float]) -> list[Delay]:
    """The delays of tasks due around any of the moments, with that moment as zero."""
    ordered = sorted(delays)
    found: list[Delay] = []
    for moment in moments:
        first = bisect_left(ordered, (moment - _BEFORE,))
        last = bisect_right(ordered, (moment + _AFTER,))
        found += [Delay(each.due - moment, each.delay) for each in ordered[first:last]]
    return found


def _legend(chart: Chart, x: float, y: float) -> None:
    for row, (name, colour) in enumerate((("p50", _P50), ("p99", _P99), ("most", _MAX))):
        chart.parts.append(
            f'<rect x="{x}" y="{y + 16 * row - 8}" width="10" height="10" fill="{colour}"/>'
        )
        chart.text(x + 15, y + 16 * row + 1, name)


def _round_step(span: float) -> float:
    return next((step for step in (1.0, 5.0, 10.0, 30.0, 60.0, 120.0) if span / step <= 20), 300.0)


def _svg(width: float, height: float, charts: Iterable[Chart]) -> str:
    body = "\n".join(part for chart in charts for part in chart.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
        f"{body}\n</svg>\n"
    )
