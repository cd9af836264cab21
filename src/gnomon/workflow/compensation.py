"""The order of a rollback: what undoes a node runs after all that came after the node is undone."""

from collections.abc import Collection, Mapping

from gnomon.workflow.graph import MOST_EDGES, Graph, children_of


def compensation_order(
    graph: Graph, compensated: Collection[str], most_edges: int = MOST_EDGES
) -> dict[str, tuple[str, ...]]:
    """For each node that is undone, the nodes that are undone before it: those below it, as near as
    they are found. Where that makes too many edges, they are undone one after the other."""
    last_first = _last_first(graph)
    chosen = [name for name in last_first if name in compensated]
    below = _nearest_below(graph, last_first, frozenset(chosen), most_edges)
    if below is None:
        before = [(), *((name,) for name in chosen)]
        return dict(zip(chosen, before, strict=False))
    return {name: tuple(below[name]) for name in chosen}


def _nearest_below(
    graph: Graph, last_first: list[str], chosen: frozenset[str], most: int
) -> Mapping[str, dict[str, None]] | None:
    """None: there are more than `most`."""
    children = children_of(graph)
    below: dict[str, dict[str, None]] = {}
    number = 0
    for name in last_first:
        found: dict[str, None] = {}
        for child in children[name]:
            found |= {child: None} if child in chosen else below[child]
        number += len(found)
        if number > most:
            return None
        below[name] = found
    return below


def _last_first(graph: Graph) -> list[str]:
    """All nodes, each after those that wait for it."""
    waited_by = {name: len(children) for name, children in children_of(graph).items()}
    ready = [name for name, number in waited_by.items() if number == 0]
    order = []
    while ready:
        name = ready.pop()
        order.append(name)
        for parent in graph[name].after:
            waited_by[parent] -= 1
            if waited_by[parent] == 0:
                ready.append(parent)
    return order
