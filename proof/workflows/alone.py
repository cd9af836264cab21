"""The model alone: what must hold in every run, whatever happens in it."""

import random
from collections.abc import Sequence

from proof.workflows.graphs import random_graph

from gnomon.workflow.graph import Becomes, When
from gnomon.workflow.progress import NodeState, RunProgress
from gnomon.workflow.spawning import level_of

_DEEPEST = 2  # of what is spawned


class Broken(AssertionError):
    """The model does what no run may."""


def play_alone(chance: random.Random, most_events: int = 2000) -> int:
    """Events by chance until the run is over; gives how many. Raises Broken."""
    model = random_model(chance)
    started: set[str] = set()
    succeeded: set[str] = set()
    died: set[str] = set()  # at some time: a dead letter uses some of its edges
    for number in range(most_events):
        died |= {name for name, state in model.states.items() if state is NodeState.DEAD}
        _check(model, started, died)
        if model.is_over:
            return number
        _event(model, chance, succeeded)
    raise Broken(f"the run is not over after {most_events} events")


def random_model(chance: random.Random) -> RunProgress:
    """A run some of whose nodes wait for one of three signals, and some are mapped over a list."""
    graph = random_graph(chance)
    drawn = {name: chance.random() for name in graph}
    waits = {name: chance.choice("abc") for name in graph if drawn[name] < 0.1}
    lists = {name: chance.randint(0, 4) for name in graph if 0.1 <= drawn[name] < 0.25}
    return RunProgress(graph, waits, lists)


def _event(model: RunProgress, chance: random.Random, succeeded: set[str]) -> None:
    held = [
        name
        for name, state in model.states.items()
        if state is NodeState.DUE and (name in model.waits or name in model.lists)
    ]
    due = [
        name for name, state in model.states.items() if state is NodeState.DUE and name not in held
    ]
    dead = [name for name, state in model.states.items() if state is NodeState.DEAD]
    blocked = [name for name, state in model.states.items() if state is NodeState.BLOCKED]
    if not due and not dead and model.waits.keys().isdisjoint(held):
        raise Broken("nothing can happen, and the run is not over")
    drawn = chance.random()
    if dead and (drawn < 0.3 or not due):
        name = chance.choice(dead)
        (model.redrive if chance.random() < 0.6 else model.resolve)(name)
    elif drawn < 0.36 and (due or blocked or held):
        model.cancel(chance.choice([*due, *blocked, *held]))
    elif drawn < 0.4 or not due:
        _send(model, chance, held)
    elif due and chance.random() < 0.75:
        name = chance.choice(due)
        if name in succeeded:
            raise Broken(f"{name} succeeds twice")
        succeeded.add(name)
        spawns = chance.random() < 0.1 and level_of(name) < _DEEPEST
        model.succeed(name, chance.randint(1, 3) if spawns else 0)
    else:
        model.die(chance.choice(due))


def _send(model: RunProgress, chance: random.Random, held: Sequence[str]) -> None:
    """A signal, mostly one that is waited for; where nothing else can happen, one is."""
    wanted = [model.waits[name] for name in held if name in model.waits]
    if wanted and chance.random() < 0.8:
        model.send(chance.choice(wanted))
    else:
        model.send(chance.choice("abc"))


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
