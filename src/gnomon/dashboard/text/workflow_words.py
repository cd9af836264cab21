"""How runs of workflows, and their nodes, read on pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from markupsafe import Markup

from gnomon.dashboard.text.words import number, span, status, status_name


class ShownNode(Protocol):
    """What is told of a node."""

    @property
    def node(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def compensates(self) -> str | None: ...


_SUMMARIES = {
    "SUCCEEDED": "It has succeeded.",
    "PAUSED": "It is paused: what was running went on, and nothing else starts.",
    "CANCELLING": "It is being cancelled.",
    "CANCELLED": "It was cancelled.",
    "ROLLING_BACK": "It is being rolled back: completed nodes are undone, the last one first.",
    "ROLLED_BACK": "It was rolled back.",
}
_DEAD = ("DEAD_LETTERED", "EXPIRED")
_NAMED = 3


def run_summary(state: str, reason: str | None, nodes: Sequence[ShownNode], ended: bool) -> str:
    """How a run goes, in a sentence."""
    if state == "ROLLING_BACK":
        undoing = [each for each in nodes if each.compensates is not None]
        if dead := _listed([each.node for each in undoing if each.status in _DEAD]):
            return f"Its rollback is held up by {dead}. Retry that, or discard it."
    if state in _SUMMARIES:
        return f"{_SUMMARIES[state]} ({reason})" if reason else _SUMMARIES[state]
    if state == "FAILED":
        dead = _listed([each.node for each in nodes if each.status in _DEAD])
        if ended:
            return f"It has ended, and not all went well: {dead or reason or 'a node failed'}."
        return f"It is held up by {dead or 'a dead letter'}. Retry that, and the run goes on."
    running = _listed([each.node for each in nodes if each.status == "RUNNING"])
    return f"It runs {running}." if running else "It waits for its next node to start."


_BATCH_SUMMARIES = {
    "OPEN": "It is open: tasks can be put in until it is closed.",
    "SUCCEEDED": "All of its tasks have succeeded.",
    "CANCELLING": "It is being cancelled.",
    "CANCELLED": "It was cancelled.",
    "EXPIRED": "It has expired: its tasks go on, and nothing follows them.",
}


def batch_summary(state: str, reason: str | None, pending: int, dead: int) -> str:
    """How a batch goes, in a sentence."""
    if state == "RUNNING":
        return f"It is closed, and waits for {number(pending)} of its tasks to end."
    if state == "FAILED" and dead:
        return f"All have ended; {number(dead)} are dead letters. Retry them, and it goes on."
    if state == "FAILED":
        return "All have ended, and not all with success."
    return f"{_BATCH_SUMMARIES[state]} ({reason})" if reason else _BATCH_SUMMARIES[state]


def run_status(value: str) -> Markup:
    """The status of a run. FAILED is another thing than of a task, which is tried again."""
    if value != "FAILED":
        return status(value)
    return Markup(
        '<span class="status s-dead_lettered"><span aria-hidden="true">✕</span> failed</span>'
    )


def counted(nodes: Sequence[ShownNode]) -> str:
    """How many nodes have which status."""
    found: dict[str, int] = {}
    for each in nodes:
        found[each.status] = found.get(each.status, 0) + 1
    told = [f"{number(count)} {status_name(state)}" for state, count in found.items()]
    return f"{number(len(nodes))} nodes: {', '.join(told)}"


def node_note(name: str, node: dict[str, Any]) -> str:
    """What a node of a definition does."""
    wait = node.get("wait_for") or {}
    if wait.get("signal"):
        return f"waits for the signal {wait['signal']}"
    if wait.get("until"):
        return f"waits until {wait['until']}"
    if wait:
        return f"waits {span(wait.get('seconds'))}"
    target = node.get("target") or {}
    called = node.get("callback_url") or target.get("url") or node.get("task_type") or name
    return f"{called}, for each" if node.get("map") else str(called)


def waiting_note(signal: str | None, until: datetime | None) -> str:
    """What a node of a run waits for at this moment."""
    if signal is not None:
        return f"signal {signal}"
    return "" if until is None else f"until {until:%Y-%m-%d %H:%M}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {number(len(names) - _NAMED)} more" if len(names) > _NAMED else shown
