"""The model alone: what must hold in every run, whatever happens in it."""

import random

from proof.workflows.graphs import random_graph

from gnomon.workflow.graph import Becomes, When
from gnomon.workflow.progress import NodeState, RunProgress


class Broken(AssertionError):
    """The model does what no run may."""


def play_alone(chance: random.Random, most_events: int = 400) -> int:
    """Events by chance until the run is over; gives how many. Raises Broken."""
    model = RunProgress(random_graph(chance))
    started: set[str] = set()
    succeeded: set[str] = set()
    died: set[str] = set()  # at some time: a dead letter uses some of its edges
    for number in range(most_events):
        died |= {name for name, state in model.states.items() if state is NodeState.DEAD}
        _check(model, started, died)
        if model.is_over:
            return number
        _event(model, chance, succeeded)
    return most_events


def _event(model: RunProgress, chance: random.Random, succeeded: set[str]) -> None:
    due = [name for name, state in model.states.items() if state is NodeState.DUE]
    dead = [name for name, state in model.states.items() if state is NodeState.DEAD]
    blocked = [name for name, state in model.states.items() if state is NodeState.BLOCKED]
    drawn = chance.random()
    if dead and (drawn < 0.3 or not due):
        name = chance.choice(dead)
        (model.redrive if chance.random() < 0.6 else model.resolve)(name)
    elif drawn < 0.36 and (due or blocked):
        model.cancel(chance.choice([*due, *blocked]))
    elif due and chance.random() < 0.75:
        name = chance.choice(due)
        if name in succeeded:
            raise Broken(f"{name} succeeds twice")
        succeeded.add(name)
        model.succeed(name)
    elif due:
        model.die(chance.choice(due))
    else:
        raise Broken("nothing can happen, and the run is not over")


def _check(model: RunProgress, started: set[str], died: set[str]) -> None:
    for name, state in model.states.items():
        if state is NodeState.BLOCKED and not model.waits_for(name):
            raise Broken(f"{name} is blocked, and waits for nothing")
        if state in (NodeState.DUE, NodeState.DEAD) and name not in started:
            started.add(name)
            _check_rule(model, name, died)
    if model.is_over is not all(state is NodeState.ENDED for state in model.states.values()):
        raise Broken("a run ends when its nodes have, and not before")


def _check_rule(model: RunProgress, name: str, died: set[str]) -> None:
    """Whether it may have started, by what became of the nodes before it."""
    node = model.graph[name]
    before = [model.became.get(each) for each in node.after]
    failed = Becomes.FAILED in before or not died.isdisjoint(node.after)
    ended = [each in model.became or each in died for each in node.after]
    holds = {
        When.ALL_SUCCEEDED: all(each is Becomes.SUCCEEDED for each in before),
        When.ALL_DONE: all(ended),
        When.ANY_FAILED: failed or not node.after,
        When.ANY_SUCCEEDED: Becomes.SUCCEEDED in before or not node.after,
    }
    if not holds[node.when]:
        raise Broken(f"{name} starts although its rule, {node.when}, does not hold")
