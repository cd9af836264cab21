"""The graph of a workflow, as it is drawn: nodes in layers, none on another, few crossings."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gnomon.dashboard.drawing.layers import layers_of
from gnomon.dashboard.drawing.workflow_graph import MOST_DRAWN, GraphNodeView, workflow_graph

Parents = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn) -> Parents:
    number = draw(st.integers(1, 25))
    found: Parents = {}
    for place in range(number):
        before = [f"n{each}" for each in range(place)]
        chosen = (
            st.lists(st.sampled_from(before), unique=True, max_size=4) if before else st.just([])
        )
        found[f"n{place}"] = draw(chosen)
    return found


@given(graphs())
def test_a_node_is_right_of_all_that_it_waits_for(parents: Parents) -> None:
    placed = layers_of(parents)
    for name, above in parents.items():
        longest = max((placed.places[each][0] for each in above), default=-1)
        assert placed.places[name][0] == longest + 1


@given(graphs())
def test_nothing_stands_on_another(parents: Parents) -> None:
    placed = layers_of(parents)
    inner = [place for _, route in placed.routes for place in route[1:-1]]
    for (column, row), (other, other_row) in combinations([*placed.places.values(), *inner], 2):
        assert column != other or abs(row - other_row) >= 0.5
    for (column, row), (other, other_row) in combinations(placed.places.values(), 2):
        assert column != other or abs(row - other_row) >= 1
    for column, row in [*placed.places.values(), *inner]:
        assert 0 <= column < placed.columns
        assert 0 <= row <= placed.rows - 1


@given(graphs())
def test_every_edge_has_a_way_that_passes_each_layer_once(parents: Parents) -> None:
    placed = layers_of(parents)
    assert [edge for edge, _ in placed.routes] == [
        (parent, name) for name, above in parents.items() for parent in above
    ]
    for (parent, name), route in placed.routes:
        assert route[0] == placed.places[parent]
        assert route[-1] == placed.places[name]
        first = route[0][0]
        assert [column for column, _ in route] == list(range(first, first + len(route)))


def test_lanes_that_are_apart_do_not_cross() -> None:
    """Of two chains that are given mixed up, one stays above the other."""
    placed = layers_of({"a": [], "b": [], "b2": ["b"], "a2": ["a"], "a3": ["a2"], "b3": ["b2"]})
    rows = {name: row for name, (_, row) in placed.places.items()}
    assert (rows["a"] < rows["b"]) == (rows["a2"] < rows["b2"]) == (rows["a3"] < rows["b3"])


def test_names_are_text_and_long_ones_are_cut() -> None:
    nodes = [
        GraphNodeView(name="<b>", after=[], status="RUNNING", url="/tasks/1", done=37, of=100),
        GraphNodeView(name="x" * 60, after=["<b>"], status="BLOCKED"),
    ]
    drawn = workflow_graph(nodes, "the graph")
    assert drawn is not None
    assert "<b>" not in drawn
    assert "&lt;b&gt;: running, 37 of 100" in drawn
    assert "x" * 19 + "…" in drawn
    assert drawn.count('class="edge"') == 1


def test_a_huge_graph_is_not_drawn() -> None:
    nodes = [GraphNodeView(name=f"n{n}", after=[]) for n in range(MOST_DRAWN + 1)]
    assert workflow_graph(nodes, "the graph") is None
