"""The graph of a workflow: its nodes, what each waits for, and whether that makes sense."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from gnomon.model.errors import InvalidTask, QuotaExceeded

MOST_NODES = 10_000
MOST_RUN_NODES = 100_000  # of a run, with elements of mapped nodes and what nodes spawn
MOST_EDGES = 50_000
MOST_DEPTH = 1_000
_SHOWN = 12  # nodes of a cycle that are named


class When(StrEnum):
    """When the turn of a node comes, by what became of the nodes that it waits for."""

    ALL_SUCCEEDED = "all_succeeded"
    ALL_DONE = "all_done"  # they have ended or are dead letters
    ANY_FAILED = "any_failed"  # as soon as one has
    ANY_SUCCEEDED = "any_succeeded"  # likewise


class OnFailure(StrEnum):
    """What a node that has failed for good counts as."""

    FAIL = "fail"  # it holds the run up, until somebody retries or resolves it
    SKIP = "skip"
    CONTINUE = "continue"  # it counts as succeeded, without an output


class Becomes(StrEnum):
    """What became of a node."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # it expired, or is a dead letter that was resolved
    SKIPPED = "skipped"  # its rule cannot hold, or its condition does not
    CANCELLED = "cancelled"  # or deleted


class GraphNode(msgspec.Struct, frozen=True):
    """A node as far as the others are concerned."""

    after: tuple[str, ...] = ()
    when: When = When.ALL_SUCCEEDED
    on_failure: OnFailure = OnFailure.FAIL


Graph = Mapping[str, GraphNode]


def graph_of(nodes: Graph, edges: Sequence[tuple[str, str]] = ()) -> Graph:
    """The graph of nodes, with edges that are given apart. Raises InvalidTask, with the place."""
    after: dict[str, dict[str, None]] = {name: {} for name in nodes}
    for name, node in nodes.items():
        for place, parent in enumerate(node.after):
            _check_edge(parent, name, nodes, f"/nodes/{escaped(name)}/after/{place}")
            after[name][parent] = None
    for place, (parent, child) in enumerate(edges):
        if child not in nodes:
            raise InvalidTask(f"there is no node {child!r}", f"/edges/{place}/1")
        _check_edge(parent, child, nodes, f"/edges/{place}/0")
        after[child][parent] = None
    if (number := sum(map(len, after.values()))) > MOST_EDGES:
        raise InvalidTask(f"has {number} edges; at most {MOST_EDGES} are possible", "/nodes")
    _check_depth(after)
    return {
        name: msgspec.structs.replace(node, after=tuple(after[name]))
        for name, node in nodes.items()
    }


def children_of(graph: Graph) -> dict[str, list[str]]:
    """The nodes that wait for each node."""
    children: dict[str, list[str]] = {name: [] for name in graph}
    for name, node in graph.items():
        for parent in node.after:
            children[parent].append(name)
    return children


def last_nodes(graph: Graph) -> list[str]:
    """The nodes that the end of a run waits for: those that no other stands for. A node that all
    must have succeeded for ends after all of them; one with another rule may end before some."""
    children = children_of(graph)
    return [
        name
        for name, below in children.items()
        if not below or any(graph[child].when is not When.ALL_SUCCEEDED for child in below)
    ]


def check_run_nodes(has: int, more: int, most: int, quota: int | None) -> None:
    """Raises QuotaExceeded where a run that has so many nodes may not have so many more."""
    most = most if quota is None else min(most, quota)
    if has + more > most:
        raise QuotaExceeded("nodes_per_run", most, has, more)


def used_at_death(when: When) -> bool:
    """Whether an edge to a node with this rule is used when the parent becomes a dead letter; the
    others wait for what is made of it."""
    return when in (When.ALL_DONE, When.ANY_FAILED)


def escaped(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _check_edge(parent: str, child: str, nodes: Graph, pointer: str) -> None:
    if parent not in nodes:
        raise InvalidTask(f"there is no node {parent!r}", pointer)
    if parent == child:
        raise InvalidTask(f"{child} -> {child} is a cycle: a node cannot wait for itself", pointer)


def _check_depth(after: Mapping[str, Mapping[str, None]]) -> None:
    """Raises InvalidTask for a cycle, which it names, and for a chain that is too long."""
    waits = {name: len(parents) for name, parents in after.items()}
    below: dict[str, list[str]] = {name: [] for name in after}
    for name, parents in after.items():
        for parent in parents:
            below[parent].append(name)
    depths = {name: 1 for name, number in waits.items() if number == 0}
    ready = list(depths)
    while ready:
        name = ready.pop()
        for child in below[name]:
            depths[child] = max(depths.get(child, 0), depths[name] + 1)
            waits[child] -= 1
            if waits[child] == 0:
                ready.append(child)
    rest = {name for name, number in waits.items() if number > 0}
    if rest:
        cycle = _cycle(after, rest)
        raise InvalidTask(f"the nodes wait in a circle: {_named(cycle)}", "/nodes")
    if (depth := max(depths.values(), default=0)) > MOST_DEPTH:
        raise InvalidTask(
            f"has a chain of {depth} nodes; at most {MOST_DEPTH} can follow one another", "/nodes"
        )


def _cycle(after: Mapping[str, Mapping[str, None]], rest: set[str]) -> list[str]:
    """The nodes of one cycle in the order in which they would run, the first again at the end.
    Each of the rest has a parent among them."""
    seen: dict[str, int] = {}
    name = min(rest)
    path: list[str] = []
    while name not in seen:
        seen[name] = len(path)
        path.append(name)
        name = next(parent for parent in after[name] if parent in rest)
    return [name, *reversed(path[seen[name] :])]


def _named(cycle: Sequence[str]) -> str:
    def shown() -> Iterator[str]:
        if len(cycle) <= _SHOWN:
            yield from cycle
        else:
            yield from (*cycle[: _SHOWN - 1], f"… ({len(cycle) - _SHOWN} more)", cycle[-1])

    return " -> ".join(shown())
