"""The model of a run: what must hold of any graph, whatever happens to its nodes."""

import random

from hypothesis import given
from hypothesis import strategies as st
from proof.workflows.graphs import random_graph

from gnomon.workflow.graph import Becomes, GraphNode, OnFailure, When
from gnomon.workflow.progress import NodeState, RunProgress


@given(st.integers(0, 10**9))
def test_every_run_comes_to_its_end_and_nothing_starts_too_early(seed: int) -> None:
    chance = random.Random(seed)
    run = RunProgress(random_graph(chance))
    started: set[str] = set()
    for _ in range(2000):
        if run.is_over:
            break
        due = [name for name, state in run.states.items() if state is NodeState.DUE]
        for name in set(due) - started:
            started.add(name)
            _check_start(run, name)
        dead = [name for name, state in run.states.items() if state is NodeState.DEAD]
        assert due or dead, "nothing can happen any more, and it is not over"
        name = chance.choice(due or dead)
        if name in dead:
            chance.choice((run.redrive, run.resolve))(name)
        else:
            chance.choice((run.succeed, run.succeed, run.die, run.cancel))(name)
    assert run.is_over
    assert set(run.states.values()) == {NodeState.ENDED}
    assert run.became.keys() == run.graph.keys()


def _check_start(run: RunProgress, name: str) -> None:
    node = run.graph[name]
    became = [run.became.get(parent) for parent in node.after]
    dead = [run.states[parent] is NodeState.DEAD for parent in node.after]
    if node.after and node.when is When.ALL_SUCCEEDED:
        assert set(became) == {Becomes.SUCCEEDED}
    if node.after and node.when is When.ANY_SUCCEEDED:
        assert Becomes.SUCCEEDED in became
    if node.when is When.ALL_DONE and not any(dead):
        ended = [run.states[parent] for parent in node.after]
        assert NodeState.BLOCKED not in ended


def test_a_failure_counts_as_its_policy_says() -> None:
    graph = {
        "skip": GraphNode(on_failure=OnFailure.SKIP), "a": GraphNode(("skip",)),
        "go": GraphNode(on_failure=OnFailure.CONTINUE), "b": GraphNode(("go",)),
    }  # fmt: skip
    run = RunProgress(graph)
    run.die("skip")
    run.die("go")
    assert run.became["a"] is Becomes.SKIPPED
    assert run.states["b"] is NodeState.DUE
    run.succeed("b")
    assert run.is_over
    assert not run.has_failed


def test_an_edge_is_used_once() -> None:
    run = RunProgress({"a": GraphNode(), "b": GraphNode(("a",), When.ANY_FAILED)})
    run.die("a")
    run.succeed("b")
    run.redrive("a")
    run.succeed("a")
    assert run.became == {"a": Becomes.SUCCEEDED, "b": Becomes.SUCCEEDED}
    assert run.is_over
