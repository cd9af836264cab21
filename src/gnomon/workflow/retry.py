"""Which nodes run again where a run is retried, and which lend what became of them."""

from collections.abc import Collection, Mapping

from gnomon.model.errors import InvalidTask
from gnomon.workflow.graph import Becomes, Graph, When, children_of

_WELL = (Becomes.SUCCEEDED, Becomes.SKIPPED)


def first_again(graph: Graph, became: Mapping[str, Becomes]) -> list[str]:
    """Where a retry begins unless it is said: at the nodes that did not go well."""
    return [name for name in graph if became.get(name) not in _WELL]


def nodes_again(
    graph: Graph, became: Mapping[str, Becomes], first: Collection[str]
) -> frozenset[str]:
    """`first`, and all below them; the others lend what became of them. Raises InvalidTask where
    one cannot, or where the rule of one of the first could not hold."""
    for place, name in enumerate(first):
        if name not in graph:
            raise InvalidTask(f"there is no node {name!r}", f"/from/{place}")
    if not first:
        raise InvalidTask("is needed: all nodes went well, so say where to begin", "/from")
    children, again, open_ = children_of(graph), set(first), list(first)
    while open_:
        for child in children[open_.pop()]:
            if child not in again:
                again.add(child)
                open_.append(child)
    for place, name in enumerate(first):
        others = [each for each in graph[name].after if each not in again]
        if len(others) == len(graph[name].after) and others:
            _check_rule(graph[name].when, name, {each: became[each] for each in others}, place)
    return frozenset(again)


def _check_rule(when: When, name: str, before: Mapping[str, Becomes], place: int) -> None:
    found = list(before.values())
    holds = {
        When.ALL_SUCCEEDED: all(each is Becomes.SUCCEEDED for each in found),
        When.ALL_DONE: True,
        When.ANY_FAILED: Becomes.FAILED in found,
        When.ANY_SUCCEEDED: Becomes.SUCCEEDED in found,
    }[when]
    if not holds:
        told = ", ".join(f"{each} was {state}" for each, state in before.items())
        raise InvalidTask(
            f"{name} would not start: it waits for {when}, and {told}; add those to from",
            f"/from/{place}",
        )
