"""The order of a rollback."""

import random

from proof.workflows.graphs import random_graph

from gnomon.workflow.compensation import compensation_order
from gnomon.workflow.graph import GraphNode


def test_what_undoes_a_node_waits_for_all_below_it_also_through_others() -> None:
    graph = {
        "a": GraphNode(),
        "b": GraphNode(("a",)),
        "c": GraphNode(("b",)),
        "d": GraphNode(("a",)),
    }
    assert compensation_order(graph, {"a", "c", "d"}) == {"a": ("c", "d"), "c": (), "d": ()}


def test_too_many_edges_make_a_line() -> None:
    first = {f"a{n}": GraphNode() for n in range(20)}
    second = {f"b{n}": GraphNode(tuple(first)) for n in range(20)}
    order = compensation_order(first | second, (first | second).keys(), most_edges=100)
    line = list(order)
    assert [order[name] for name in line] == [(), *((name,) for name in line[:-1])]
    assert {name[0] for name in line[:20]} == {"b"}


def test_nothing_is_undone_before_what_came_after_it() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        graph = random_graph(chance)
        chosen = {name for name in graph if chance.random() < 0.6}
        order = compensation_order(graph, chosen, most_edges=chance.choice((5, 50_000)))
        assert order.keys() == chosen
        above: dict[str, set[str]] = {}  # all before a node; the graph lists parents first
        for name, node in graph.items():
            above[name] = set().union(*({each} | above[each] for each in node.after))
        done: set[str] = set()
        while len(done) < len(order):
            (ready, *_) = [n for n in order if n not in done and done.issuperset(order[n])]
            assert not [each for each in chosen - done if ready in above[each]]
            done.add(ready)
