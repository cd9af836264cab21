"""Random graphs of workflows."""

import random

from gnomon.workflow.graph import Graph, GraphNode, OnFailure, When

_RULES = [When.ALL_SUCCEEDED] * 4 + [When.ALL_DONE, When.ANY_FAILED, When.ANY_SUCCEEDED]
_FAILURES = [OnFailure.FAIL] * 4 + [OnFailure.SKIP, OnFailure.CONTINUE]


def random_graph(chance: random.Random, most: int = 60) -> Graph:
    """A graph of up to `most` nodes; each waits for some of those before it."""
    number = chance.randint(1, most)
    names = [f"n{place}" for place in range(number)]
    dense = chance.choice((0.5, 1.5, 3.0))
    graph: dict[str, GraphNode] = {}
    for place, name in enumerate(names):
        wanted = min(place, int(chance.expovariate(1 / dense)))
        near = names[max(0, place - 8) : place] if chance.random() < 0.7 else names[:place]
        parents = tuple(chance.sample(near, min(wanted, len(near))))
        graph[name] = GraphNode(parents, chance.choice(_RULES), chance.choice(_FAILURES))
    return graph
