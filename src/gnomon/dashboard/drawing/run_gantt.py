"""The nodes of a workflow run over time, as bars."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gnomon.dashboard.drawing.gantt import Bar, GanttRow
from gnomon.dashboard.text.words import span

MOST_ROWS = 100
_WIDTH = 1000
_OUTCOMES = {"RUNNING": "running", "FAILED": "failed", "DEAD_LETTERED": "failed"}
_LEAST = 3


class NodeSpan(msgspec.Struct, frozen=True):
    """When a node began, and when it ended; None: not yet."""

    name: str
    status: str
    started_at: datetime | None
    finished_at: datetime | None


class RunGantt(msgspec.Struct, frozen=True):
    """The nodes that have begun, in the order in which they did."""

    begins: datetime
    ends: datetime
    rows: tuple[GanttRow, ...]
    left_out: int


def run_gantt(
    nodes: Sequence[NodeSpan], begins: datetime, ends: datetime | None, now: datetime
) -> RunGantt | None:
    """From the beginning of the run to its end, or to now. None where nothing has begun."""
    begun = sorted(
        ((each.started_at, each) for each in nodes if each.started_at is not None),
        key=lambda pair: pair[0],
    )
    if not begun:
        return None
    last = max(ends or now, begun[0][0])
    whole = max((last - begins).total_seconds(), 0.001)

    def bar(start: datetime, node: NodeSpan) -> Bar:
        until = min(max(node.finished_at or last, start), last)
        x = max((start - begins).total_seconds(), 0.0) / whole * _WIDTH
        width = (until - start).total_seconds() / whole * _WIDTH
        title = f"running {span((until - start).total_seconds())}"
        return Bar("running", min(x, _WIDTH - _LEAST), min(width, _WIDTH - x), title)

    rows = tuple(
        GanttRow(node.name, _OUTCOMES.get(node.status, "succeeded"), (bar(start, node),))
        for start, node in begun[:MOST_ROWS]
    )
    return RunGantt(begins, last, rows, len(begun) - len(rows))
