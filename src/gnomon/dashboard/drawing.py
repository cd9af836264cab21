"""SVG drawn here. It takes its colours from the style sheet, by class."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from markupsafe import Markup

from gnomon.dashboard.words import NONE
from gnomon.model.execution import Execution
from gnomon.model.shard import SHARDS
from gnomon.model.task import Task

_WIDTH = 1000
_COLOURS = 8
_SIDE = 16
_PARTS = 3  # of a cell


class Bar(msgspec.Struct, frozen=True):
    """A part of a row, in thousandths of its width."""

    kind: str  # waiting, running, back-off
    x: float
    width: float
    title: str


class GanttRow(msgspec.Struct, frozen=True):
    """One try of a task, as it is drawn."""

    label: str
    outcome: str
    bars: tuple[Bar, ...]

    @property
    def svg(self) -> Markup:
        bars = Markup("").join(
            Markup('<rect class="bar b-{} o-{}" x="{}" y="0" width="{}" height="16">'
                   "<title>{}</title></rect>").format(
                bar.kind, self.outcome, f"{bar.x:.1f}", f"{max(bar.width, 3):.1f}", bar.title
            )
            for bar in self.bars
        )  # fmt: skip
        return Markup(
            '<svg class="gantt" viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" '
            'aria-label="{}">{}</svg>'
        ).format(", ".join(bar.title for bar in self.bars), bars)


class Gantt(msgspec.Struct, frozen=True):
    """The tries of a task over time."""

    begins: datetime
    ends: datetime
    rows: tuple[GanttRow, ...]


def gantt(task: Task, tries: Sequence[Execution], now: datetime) -> Gantt | None:
    """Waiting, running and back-off of each try; None where none has started."""
    started = [each for each in tries if each.started_at is not None]
    if not started:
        return None
    first = started[0].started_at
    assert first is not None
    # A cut list begins with a try that waited for something that is not in it.
    due = task.execute_at if started[0].attempt <= 1 else first
    begins = min(due, first)
    ends = max([each.finished_at or now for each in started] + [first])
    whole = max((ends - begins).total_seconds(), 0.001)

    def bar(kind: str, since: datetime, until: datetime) -> Bar:
        seconds = max((until - since).total_seconds(), 0.0)
        x = (since - begins).total_seconds() / whole * _WIDTH
        width = seconds / whole * _WIDTH
        return Bar(kind, min(x, _WIDTH - 3), width, f"{kind} {seconds:.3f} s")

    rows: list[GanttRow] = []
    before = due
    for each in started:
        assert each.started_at is not None
        until = each.finished_at or now
        kind = "waiting" if not rows else "back-off"
        bars = [bar(kind, before, each.started_at)] if before < each.started_at else []
        bars.append(bar("running", each.started_at, max(until, each.started_at)))
        rows.append(GanttRow(f"#{each.attempt}", each.outcome, tuple(bars)))
        before = until
    return Gantt(begins, ends, tuple(rows))


def letter(index: int) -> str:
    """How a node is marked: A to Z, then A1, B1, ..."""
    turn, place = divmod(index, 26)
    return chr(ord("A") + place) + (str(turn) if turn else "")


def shard_map(order: Sequence[tuple[UUID, str]], owned: Mapping[UUID, Iterable[int]]) -> Markup:
    """The 256 shards, each with the letter and colour of the node that serves it."""
    owners: dict[int, list[int]] = {}
    for index, (incarnation, _) in enumerate(order):
        for shard in owned.get(incarnation, ()):
            owners.setdefault(shard, []).append(index)
    cells = Markup("").join(_cell(shard, owners.get(shard, []), order) for shard in range(SHARDS))
    return Markup(
        '<svg class="shards" viewBox="0 0 320 320" role="img" '
        'aria-label="{} of {} shards are served">{}</svg>'
    ).format(len(owners), SHARDS, cells)


def _cell(shard: int, owners: Sequence[int], order: Sequence[tuple[UUID, str]]) -> Markup:
    row, column = divmod(shard, _SIDE)
    names = ", ".join(order[index][1] for index in owners) or "nobody"
    marks = "".join(letter(index) for index in owners[:_PARTS]) or NONE
    # Nodes of several pools share a shard: each has a part of its cell.
    colours = [f"n{index % _COLOURS}" for index in owners[:_PARTS]] or ["nobody"]
    width = 18 / len(colours)
    parts = Markup("").join(
        Markup('<rect class="shard {}" x="{}" y="{}" width="{}" height="18"/>').format(
            colour, f"{column * 20 + 1 + part * width:.1f}", row * 20 + 1, f"{width:.1f}"
        )
        for part, colour in enumerate(colours)
    )
    return Markup('<g>{}<text x="{}" y="{}">{}</text><title>shard {}: {}</title></g>').format(
        parts, column * 20 + 10, row * 20 + 13, marks, shard, names
    )
