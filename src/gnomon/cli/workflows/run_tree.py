"""A run of a workflow as a tree of text. Pure: a document of the API in, lines out.

A node stands below the one that it waits for. One that waits for several stands after their
branches, and names them. What follows a node alone stands below it without a step to the right, so
that a long chain stays narrow.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gnomon.cli.shared.output import moment, span
from gnomon.cli.shared.tables import cell_length, cut

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json

SIGNS = {
    "BLOCKED": "·", "SCHEDULED": "◷", "READY": "◌", "RUNNING": "▶", "FAILED": "↻", "PAUSED": "‖",
    "COMPLETED": "✓", "DEAD_LETTERED": "✕", "CANCELLED": "⊘", "EXPIRED": "⊖", "SKIPPED": "⇥",
}  # fmt: skip
_DEEPEST = 12  # steps to the right
_LEAST_NAME = 12
_ACTIVE = ("DEAD_LETTERED", "FAILED", "RUNNING", "READY", "EXPIRED", "CANCELLED")


class TreeLine(NamedTuple):
    """A line of the tree, and the status that gives its colour."""

    text: str
    status: str


class _Placed(NamedTuple):
    node: "Json"
    lead: str  # what is drawn before its sign
    joined: Sequence[str]  # the nodes that it waits for, where they are several


def tree(nodes: Sequence["Json"], now: datetime, width: int) -> list[TreeLine]:
    """The lines of all nodes."""
    placed = list(_placed(nodes))
    names = max((cell_length(p.lead + p.node["node"]) for p in placed), default=0) + 2
    column = min(max(names, _LEAST_NAME), max(_LEAST_NAME, width // 2))
    return [_line(each, now, column, width) for each in placed]


def fitted(lines: Sequence[TreeLine], height: int) -> list[TreeLine]:
    """As many lines as fit: of more, those of nodes on which something happens, and how many others
    there are."""
    if len(lines) <= height:
        return list(lines)
    room = max(1, height - 1)
    active = [line for line in lines if line.status in _ACTIVE]
    kept = active[:room] or list(lines[:room])
    return [*kept, TreeLine(f"… and {len(lines) - len(kept)} more nodes", "")]


def counted(nodes: Sequence["Json"]) -> str:
    """How many nodes have which status, in one line."""
    found: dict[str, int] = {}
    for node in nodes:
        found[node["status"]] = found.get(node["status"], 0) + 1
    return ", ".join(f"{number} {status}" for status, number in found.items())


def _placed(nodes: Sequence["Json"]) -> Iterable[_Placed]:
    above = _above(nodes)
    branches: dict[str | None, list[Json]] = {}
    joins: dict[str | None, list[Json]] = {}
    for node in nodes:
        kind = branches if len(node["after"]) <= 1 else joins
        kind.setdefault(above[node["node"]], []).append(node)
    waiting: list[tuple[Json, str, str]] = []
    _push(waiting, branches.get(None, []), joins.get(None, []), "", _DEEPEST)
    while waiting:
        node, lead, rest = waiting.pop()
        yield _Placed(node, lead, node["after"] if len(node["after"]) > 1 else [])
        name = node["node"]
        _push(waiting, branches.get(name, []), joins.get(name, []), rest, len(rest) // 3)


def _push(
    waiting: list[tuple["Json", str, str]],
    branches: Sequence["Json"],
    joins: Sequence["Json"],
    rest: str,
    depth: int,
) -> None:
    """What stands below a node comes next: its branches, one step to the right where there are
    several, and then the nodes that bring branches together."""
    below = [(each, rest, rest) for each in (*branches, *joins)]
    if len(branches) > 1 and depth < _DEEPEST:
        below[: len(branches)] = [(each, f"{rest}├─ ", f"{rest}│  ") for each in branches]
        below[len(branches) - 1] = (branches[-1], f"{rest}└─ ", f"{rest}   ")
    waiting += below[::-1]


def _above(nodes: Sequence["Json"]) -> Mapping[str, str | None]:
    """The node that each stands below: the one that it waits for, or the last that all of those
    stand below."""
    depths = _depths(nodes)
    above: dict[str, str | None] = {}
    level: dict[str | None, int] = {None: 0}
    for node in sorted(nodes, key=lambda each: depths[each["node"]]):
        parents = [each for each in node["after"] if each in depths]
        found: str | None = parents[0] if parents else None
        for other in parents[1:]:
            found = _common(found, other, above, level)
        above[node["node"]] = found
        level[node["node"]] = level[found] + 1
    return above


def _common(
    one: str | None, other: str | None, above: Mapping[str, str | None], level: Mapping[Any, int]
) -> str | None:
    while one != other:
        if level[one] >= level[other]:
            one = above[one] if one is not None else None
        else:
            other = above[other] if other is not None else None
    return one


def _depths(nodes: Sequence["Json"]) -> Mapping[str, int]:
    """The length of the longest way to each node, whatever their order."""
    after = {node["node"]: node["after"] for node in nodes}
    left = {name: sum(each in after for each in parents) for name, parents in after.items()}
    below: dict[str, list[str]] = {}
    for name, parents in after.items():
        for parent in parents:
            below.setdefault(parent, []).append(name)
    depths = {name: 0 for name, number in left.items() if number == 0}
    ready = list(depths)
    for name in ready:  # it grows
        for child in below.get(name, ()):
            depths[child] = max(depths.get(child, 0), depths[name] + 1)
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    return depths


def _line(placed: _Placed, now: datetime, column: int, width: int) -> TreeLine:
    node, status = placed.node, placed.node["status"]
    name = cut(f"{placed.lead}{SIGNS.get(status, ' ')} {node['node']}", column)
    padded = name + " " * (column - cell_length(name) + 1)
    parts = [status.ljust(9), *_facts(node, placed.joined, now)]
    text = " ".join([padded, "  ".join(part for part in parts if part)])
    return TreeLine(cut(text.rstrip(), width), status)


def _facts(node: "Json", joined: Sequence[str], now: datetime) -> Iterable[str]:
    started, finished = node.get("started_at"), node.get("finished_at")
    if started:
        end = datetime.fromisoformat(finished) if finished else now
        yield span(round(max(0.0, (end - datetime.fromisoformat(started)).total_seconds()), 1))
    if (node.get("attempt") or 0) > 1:
        yield f"attempt {node['attempt']}"
    yield from _waits(node)
    waits = node.get("waits_for") or []
    if joined and waits:
        yield f"waits for {_listed(waits)}"
    elif joined:
        yield f"after {_listed(joined)}"
    if node.get("error"):
        yield " ".join(str(node["error"]).split())


def _waits(node: "Json") -> Iterable[str]:
    """What a node that waits waits for."""
    if node.get("elements") and node["status"] not in ("COMPLETED", "SKIPPED"):
        yield f"{node['elements_ended']} of {node['elements']}"
    if node.get("spawned") and node["spawned_ended"] < node["spawned"]:
        yield f"{node['spawned_ended']} of {node['spawned']} spawned"
    signal, until = node.get("waits_for_signal"), node.get("waits_until")
    if signal:
        yield f"waits for the signal {signal}"
    elif until:
        yield f"waits until {moment(until)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
