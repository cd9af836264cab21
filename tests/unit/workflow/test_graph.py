"""Graphs of workflows: what makes sense, and what is refused."""

import pytest

from gnomon.model.errors import InvalidTask
from gnomon.workflow.graph import MOST_DEPTH, GraphNode, When, graph_of, last_nodes


def test_edges_that_are_given_apart_are_those_of_the_nodes() -> None:
    graph = graph_of({"a": GraphNode(), "b": GraphNode(("a",)), "c": GraphNode()}, [("b", "c")])
    assert graph["c"].after == ("b",)
    assert graph_of({"a": GraphNode(), "b": GraphNode(("a",))}, [("a", "b")])["b"].after == ("a",)


def test_a_cycle_is_named_in_the_order_of_its_nodes() -> None:
    nodes = {
        "x": GraphNode(), "a": GraphNode(("c", "x")), "b": GraphNode(("a",)),
        "c": GraphNode(("b",)), "below": GraphNode(("c",)),
    }  # fmt: skip
    with pytest.raises(InvalidTask) as raised:
        graph_of(nodes)
    assert raised.value.detail.endswith("a -> b -> c -> a")


def test_a_long_cycle_is_named_in_part() -> None:
    nodes = {f"n{n}": GraphNode((f"n{(n - 1) % 100}",)) for n in range(100)}
    with pytest.raises(InvalidTask) as raised:
        graph_of(nodes)
    assert "more)" in raised.value.detail
    assert len(raised.value.detail) < 200


def test_a_chain_has_a_bound() -> None:
    nodes = {"n0": GraphNode()} | {
        f"n{n}": GraphNode((f"n{n - 1}",)) for n in range(1, MOST_DEPTH + 1)
    }
    with pytest.raises(InvalidTask, match="chain"):
        graph_of(nodes)
    nodes.popitem()
    assert len(graph_of(nodes)) == MOST_DEPTH


def test_the_end_waits_for_what_no_other_node_stands_for() -> None:
    graph = {
        "a": GraphNode(), "b": GraphNode(("a",)), "c": GraphNode(("b",), When.ANY_FAILED),
        "d": GraphNode(("b",)),
    }  # fmt: skip
    assert last_nodes(graph) == ["b", "c", "d"]
