"""The life of a task as a small state machine: the way it took, and where it is now. SVG."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
from markupsafe import Markup

from gnomon.dashboard.text.words import SIGNS, status_name
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Task

_START = "start"
_WIDE, _HIGH = 136, 36
# The upper left corner of each state.
_PLACES: dict[Status, tuple[int, int]] = {
    Status.SCHEDULED: (48, 112),
    Status.READY: (256, 112),
    Status.RUNNING: (464, 112),
    Status.PAUSED: (152, 16),
    Status.BLOCKED: (112, 208),
    Status.FAILED: (360, 208),
    Status.COMPLETED: (704, 16),
    Status.DEAD_LETTERED: (704, 80),
    Status.CANCELLED: (704, 144),
    Status.EXPIRED: (704, 208),
}
# The edges, as paths of SVG. Those of `_RARE` are drawn only where they were taken.
_EDGES: dict[tuple[str, str], str] = {
    (_START, Status.SCHEDULED): "M24 130H46",
    (_START, Status.READY): "M19 138C50 190 180 200 262 150",
    (_START, Status.BLOCKED): "M17 140C20 200 60 226 110 226",
    (Status.SCHEDULED, Status.READY): "M184 130H254",
    (Status.READY, Status.RUNNING): "M392 130H462",
    (Status.RUNNING, Status.COMPLETED): "M600 122C660 122 640 34 702 34",
    (Status.RUNNING, Status.DEAD_LETTERED): "M600 127C655 127 645 98 702 98",
    (Status.RUNNING, Status.CANCELLED): "M600 133C655 133 645 162 702 162",
    (Status.RUNNING, Status.FAILED): "M548 148C548 200 530 226 498 226",
    (Status.FAILED, Status.READY): "M360 226C335 226 330 190 330 150",
    (Status.SCHEDULED, Status.PAUSED): "M116 112C116 60 126 34 150 34",
    (Status.READY, Status.PAUSED): "M324 112C324 60 316 34 290 34",
    (Status.BLOCKED, Status.READY): "M248 226C290 226 300 190 300 150",
    (Status.READY, Status.CANCELLED): "M345 148C360 198 560 205 702 168",
    (Status.SCHEDULED, Status.CANCELLED): "M116 148C140 205 560 212 702 170",
    (Status.READY, Status.EXPIRED): "M318 148C318 282 520 256 702 230",
}
_RARE = {
    (_START, Status.READY), (_START, Status.BLOCKED), (Status.READY, Status.CANCELLED),
    (Status.SCHEDULED, Status.CANCELLED), (Status.BLOCKED, Status.READY),
}  # fmt: skip
_AT_ONCE = timedelta(seconds=0.5)


class Way(msgspec.Struct, frozen=True):
    """The steps that a task took, in their order, and how often it was tried again."""

    steps: tuple[tuple[str, str], ...]
    retries: int
    now: Status

    @property
    def visited(self) -> frozenset[str]:
        return frozenset(step for pair in self.steps for step in pair)

    @property
    def words(self) -> str:
        """The same for those who do not see it."""
        names = [status_name(to) for _, to in self.steps if to != Status.FAILED]
        told = ["submitted", *dict.fromkeys(names)]
        times = f", tried again {self.retries} times" if self.retries > 1 else (
            ", tried again once" if self.retries else "")  # fmt: skip
        return f"The way of the task: {', then '.join(told)}{times}. Now: {status_name(self.now)}."


def way_of(task: Task, tries: Sequence[Execution]) -> Way:
    """What is known of the way: pauses of the past are not kept."""
    waited = task.execute_at - task.created_at > _AT_ONCE
    steps: list[tuple[str, str]] = []
    if task.status is Status.BLOCKED:
        return Way(((_START, Status.BLOCKED),), 0, task.status)
    steps.append((_START, Status.SCHEDULED if waited else Status.READY))
    if task.status is Status.SCHEDULED:
        return Way(((_START, Status.SCHEDULED),), 0, task.status)
    unstarted = task.attempt == 0
    if waited and not (unstarted and task.status in (Status.PAUSED, Status.CANCELLED)):
        steps.append((Status.SCHEDULED, Status.READY))
    if not unstarted and task.status is not Status.EXPIRED:
        steps.append((Status.READY, Status.RUNNING))
    retries = max(0, task.attempt - 1)
    back = task.status in (Status.FAILED, Status.READY) and not unstarted
    if retries or back:
        steps.append((Status.RUNNING, Status.FAILED))
        if task.status is not Status.FAILED or retries:
            steps.append((Status.FAILED, Status.READY))
    steps += _last(task, tries, waited)
    return Way(tuple(steps), retries, task.status)


def _last(task: Task, tries: Sequence[Execution], waited: bool) -> list[tuple[str, str]]:
    waiting = Status.SCHEDULED if waited and task.attempt == 0 else Status.READY
    match task.status:
        case Status.COMPLETED | Status.DEAD_LETTERED:
            return [(Status.RUNNING, task.status)]
        case Status.CANCELLED:
            ran = bool(tries) and tries[-1].outcome == "cancelled"
            return [(Status.RUNNING if ran else waiting, Status.CANCELLED)]
        case Status.EXPIRED:
            return [(Status.READY, Status.EXPIRED)]
        case Status.PAUSED:
            return [(waiting, Status.PAUSED)]
    return []


def state_diagram(way: Way) -> Markup:
    """The drawing. What was not taken is pale."""
    taken = set(way.steps)
    paths = [
        _edge(path, "taken" if pair in taken else "free")
        for pair, path in sorted(_EDGES.items(), key=lambda item: item[0] in taken)
        if pair in taken or pair not in _RARE
    ]
    # Only nodes of workflows are ever blocked: of others, nothing would lead there.
    shown = [each for each in _PLACES if each is not Status.BLOCKED or each in way.visited]
    states = [_state(status, way) for status in shown]
    times = Markup('<text class="times" x="556" y="196">\u00d7{}</text>').format(way.retries)
    return Markup(
        '<svg class="states" viewBox="0 0 860 260" role="img" aria-label="{}"><defs>{}{}</defs>'
        '<circle class="start" cx="16" cy="130" r="7"/>{}{}{}</svg>'
    ).format(
        way.words, _head("free"), _head("taken"), Markup("").join(paths), Markup("").join(states),
        times if way.retries else "",
    )  # fmt: skip


def _head(kind: str) -> Markup:
    return Markup(
        '<marker id="arrow-{0}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="head-{0}" d="M0 0L8 4L0 8z"/></marker>'
    ).format(kind)


def _edge(path: str, kind: str) -> Markup:
    return Markup('<path class="edge {0}" d="{1}" marker-end="url(#arrow-{0})"/>').format(
        kind, path
    )


def _state(status: Status, way: Way) -> Markup:
    x, y = _PLACES[status]
    kind = "here" if status is way.now else "been" if status in way.visited else "not"
    return Markup(
        '<g class="state {} s-{}"><rect x="{}" y="{}" width="{}" height="{}" rx="18"/>'
        '<text x="{}" y="{}"><tspan class="sign">{}</tspan> {}</text></g>'
    ).format(
        kind, status.lower(), x, y, _WIDE, _HIGH, x + _WIDE // 2, y + 23, SIGNS[status],
        status_name(status),
    )  # fmt: skip
