"""The tries of a task over time, as bars. SVG that takes its colours from the style sheet."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from markupsafe import Markup

from gnomon.dashboard.text.words import span
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Task

_WIDTH = 1000
_LEAST = 3  # a bar that is too short to be seen is drawn as wide as this
_WAITING_SHARE = (
    0.25  # of the drawing, at the most: a task may wait for months, and run for a second
)
_AT_ONCE = timedelta(seconds=0.5)
_FAILED = ("failed", "timed_out", "lost")


class Bar(msgspec.Struct, frozen=True):
    """A part of a row, in thousandths of its width."""

    kind: str  # waiting, queued, running, back-off
    x: float
    width: float
    title: str
    cut: bool = False  # it is longer than drawn


class GanttRow(msgspec.Struct, frozen=True):
    """One try of a task, or the wait for the next, as it is drawn."""

    label: str
    outcome: str
    bars: tuple[Bar, ...]

    @property
    def svg(self) -> Markup:
        bars = Markup("").join(
            Markup('<rect class="bar b-{} o-{}{}" x="{}" y="0" width="{}" height="16">'
                   "<title>{}</title></rect>").format(
                bar.kind, self.outcome, " cut" if bar.cut else "", f"{bar.x:.1f}",
                f"{max(bar.width, _LEAST):.1f}", bar.title,
            )
            for bar in self.bars
        )  # fmt: skip
        return Markup(
            '<svg class="gantt" viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" '
            'aria-label="{}">{}</svg>'
        ).format(f"{self.label}: {', '.join(bar.title for bar in self.bars)}", bars)


class Gantt(msgspec.Struct, frozen=True):
    """The tries of a task over time. `cut`: it began to wait before the left edge."""

    begins: datetime
    ends: datetime
    rows: tuple[GanttRow, ...]
    cut: bool

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is drawn, for the legend."""
        shown = {bar.kind for row in self.rows for bar in row.bars if bar.kind != "running"}
        order = ("waiting", "queued", "back-off")
        return tuple(kind for kind in order if kind in shown)

    @property
    def outcomes(self) -> tuple[str, ...]:
        shown = {row.outcome for row in self.rows if any(b.kind == "running" for b in row.bars)}
        kept = {"failed" if outcome in _FAILED else outcome for outcome in shown}
        return tuple(sorted(kept))


class _Part(msgspec.Struct, frozen=True):
    kind: str
    since: datetime
    until: datetime


def gantt(task: Task, tries: Sequence[Execution], now: datetime) -> Gantt | None:
    """Waiting until it is due, queued until it starts, running, and back-off of each try; up to now
    where it has not ended. None where there is nothing to draw yet."""
    rows = [*_tried(task, tries, now), *_to_come(task, tries, now)]
    parts = [part for _, _, found in rows for part in found]
    if not parts:
        return None
    ends = max(part.until for part in parts)
    first = parts[0]
    begins = cut_at = first.since
    rest = min((part.since for part in parts[1:]), default=first.until)
    if first.kind == "waiting" and len(parts) > 1:
        longest = (ends - rest) * (_WAITING_SHARE / (1 - _WAITING_SHARE))
        cut_at = max(first.since, rest - max(longest, timedelta(milliseconds=1)))
    whole = max((ends - cut_at).total_seconds(), 0.001)

    def bar(part: _Part) -> Bar:
        since = max(part.since, cut_at)
        x = (since - cut_at).total_seconds() / whole * _WIDTH
        width = (part.until - since).total_seconds() / whole * _WIDTH
        title = f"{part.kind} {span((part.until - part.since).total_seconds())}"
        return Bar(part.kind, min(x, _WIDTH - _LEAST), width, title, part.since < cut_at)

    drawn = tuple(
        GanttRow(label, outcome, tuple(map(bar, found))) for label, outcome, found in rows
    )
    return Gantt(cut_at, ends, drawn, begins < cut_at)


_Row = tuple[str, str, list[_Part]]


def _tried(task: Task, tries: Sequence[Execution], now: datetime) -> list[_Row]:
    rows: list[_Row] = []
    before: datetime | None = None
    for each in tries:
        if each.started_at is None:
            continue
        until = max(each.finished_at or now, each.started_at)
        if before is not None:
            parts = [_Part("back-off", before, each.started_at)]
        elif each.attempt <= 1:
            parts = _until_start(task, each.started_at)
        else:  # a cut list begins with a try that waited for something that is not in it
            parts = []
        parts.append(_Part("running", each.started_at, until))
        rows.append((f"#{each.attempt}", each.outcome, [p for p in parts if p.since <= p.until]))
        before = until
    return rows


def _until_start(task: Task, started: datetime) -> list[_Part]:
    """From its submission to its start: until it is due, and from then on."""
    due = min(max(task.execute_at, task.created_at), started)
    parts = [_Part("waiting", task.created_at, due)] if due - task.created_at > _AT_ONCE else []
    return [*parts, _Part("queued", due, started)]


def _to_come(task: Task, tries: Sequence[Execution], now: datetime) -> list[_Row]:
    """The wait for a try that has not begun."""
    if task.status not in (Status.SCHEDULED, Status.READY, Status.FAILED):
        return []
    ended = [each.finished_at for each in tries if each.finished_at is not None]
    due = task.next_retry_at or task.execute_at
    if ended:
        until = max(due, ended[-1]) if task.status is Status.FAILED else now
        return (
            [("next", "next", [_Part("back-off", ended[-1], until)])] if until > ended[-1] else []
        )
    if task.status is Status.SCHEDULED:
        return [("next", "next", [_Part("waiting", task.created_at, max(due, now))])]
    return [("next", "next", [p for p in _until_start(task, now) if p.since < p.until])]
