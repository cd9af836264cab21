"""How a run goes on, as a model without counters: every answer is worked out from what became of
the nodes. The statements that count are tested against it."""

from collections.abc import Mapping
from enum import StrEnum

from gnomon.workflow.graph import (
    Becomes,
    Graph,
    GraphNode,
    OnFailure,
    When,
    last_nodes,
    used_at_death,
)
from gnomon.workflow.spawning import joined, spawned_name


class NodeState(StrEnum):
    """Where a node is."""

    BLOCKED = "blocked"
    DUE = "due"  # its turn has come, and its task may start, run and be retried
    DEAD = "dead"  # a dead letter
    ENDED = "ended"


class RunProgress:
    """A run: what became of its nodes, and what follows from that."""

    def __init__(
        self, graph: Graph, waits: Mapping[str, str] = {}, lists: Mapping[str, int] = {}
    ) -> None:
        """`waits`: nodes that wait for a signal, by its name; `lists`: nodes that are mapped over
        so many elements."""
        self.graph = dict(graph)
        self.waits, self.lists = dict(waits), dict(lists)
        self._signals: set[str] = set()  # that were sent
        self.states = dict.fromkeys(graph, NodeState.BLOCKED)
        self.became: dict[str, Becomes] = {}
        self._used: dict[tuple[str, str], Becomes] = {}  # edges, and what they have counted as
        self._last = last_nodes(graph)
        self._ended: set[str] = set()  # of the last nodes
        self._spawned: dict[str, list[str]] = {}  # and elements, by nodes that stand for them
        self._children: dict[str, list[str]] = {name: [] for name in graph}
        for name, node in graph.items():
            for parent in node.after:
                self._children[parent].append(name)
        self._go_on()

    @property
    def is_over(self) -> bool:
        return self._ended.issuperset(self._last)

    @property
    def has_failed(self) -> bool:
        """Of a run that is over."""
        return Becomes.FAILED in self.became.values()

    def waits_for(self, name: str) -> list[str]:
        """The nodes that a blocked one waits for."""
        return [each for each in self.graph[name].after if (each, name) not in self._used]

    def succeed(self, name: str, spawns: int = 0) -> None:
        """It has spawned so many others, for which it stands until they have ended."""
        assert self.states[name] is NodeState.DUE
        for number in range(spawns):
            self._add(name, spawned_name(name, number))
        self._end(name, Becomes.SUCCEEDED)

    def send(self, signal: str) -> None:
        """A signal is sent, and kept for those whose turn has not come."""
        self._signals.add(signal)
        self._go_on()

    def die(self, name: str) -> None:
        """Its retries are spent."""
        assert self.states[name] is NodeState.DUE
        match self.graph[name].on_failure:
            case OnFailure.SKIP:
                self._end(name, Becomes.SKIPPED)
            case OnFailure.CONTINUE:
                self._end(name, Becomes.SUCCEEDED)
            case OnFailure.FAIL:
                self.states[name] = NodeState.DEAD
                for child in self._children[name]:
                    if used_at_death(self.graph[child].when):
                        self._used.setdefault((name, child), Becomes.FAILED)
                self._go_on()

    def redrive(self, name: str) -> None:
        """A dead letter is tried again."""
        assert self.states[name] is NodeState.DEAD
        self.states[name] = NodeState.DUE

    def resolve(self, name: str) -> None:
        """A dead letter is archived or discarded; or a task expires."""
        self._end(name, Becomes.FAILED)

    def cancel(self, name: str) -> None:
        """It is cancelled or deleted, wherever it is."""
        self._end(name, Becomes.CANCELLED)

    def _end(self, name: str, becomes: Becomes) -> None:
        if self.states[name] is not NodeState.ENDED:
            self.states[name] = NodeState.ENDED
            self.became[name] = becomes
        self._go_on()

    def _go_on(self) -> None:
        """Uses edges and decides about nodes until nothing more follows."""
        again = True
        while again:
            again = False
            for name in list(self.graph):
                again = self._use_edges(name) or again
                again = self._decide(name) or again
                again = self._go_through(name) or again

    def _use_edges(self, name: str) -> bool:
        if self.states[name] is not NodeState.ENDED or self._ended_early(name):
            return False
        if not self._has_joined(name):
            return False
        if name in self._last:
            self._ended.add(name)
        fresh = [child for child in self._children[name] if (name, child) not in self._used]
        self._used.update({(name, child): self.became[name] for child in fresh})
        return bool(fresh)

    def _has_joined(self, name: str) -> bool:
        """Whether all that it has spawned has ended, with what that has spawned in turn."""
        spawned = self._spawned.get(name, ())
        ended = all(self.states[each] is NodeState.ENDED for each in spawned)
        if not ended or not all(map(self._has_joined, spawned)):
            return False
        self.became[name] = joined(self.became[name], {self.became[each] for each in spawned})
        return True

    def _ended_early(self, name: str) -> bool:
        """One that was ended before its turn stands for those that it waited for, until they have
        ended as well."""
        node = self.graph[name]
        return node.when is When.ALL_SUCCEEDED and bool(self.waits_for(name))

    def _decide(self, name: str) -> bool:
        if self.states[name] is not NodeState.BLOCKED:
            return False
        if self._may_start(name):
            self.states[name] = NodeState.DUE
        elif not self.waits_for(name):
            self.states[name] = NodeState.ENDED
            self.became[name] = Becomes.SKIPPED
        else:
            return False
        return True

    def _go_through(self, name: str) -> bool:
        """A node that runs no task ends: its signal was sent, or its elements have ended."""
        if self.states[name] is not NodeState.DUE:
            return False
        if name in self.lists and name not in self._spawned:
            self._spawned[name] = []
            for number in range(self.lists[name]):
                self._add(name, f"{name}[{number}]")
        over = self.waits[name] in self._signals if name in self.waits else False
        if name in self.lists:
            over = all(self.states[each] is NodeState.ENDED for each in self._spawned[name])
            over = over and all(map(self._has_joined, self._spawned[name]))
        if over:
            self.states[name] = NodeState.ENDED
            found = {self.became[each] for each in self._spawned.get(name, ())}
            self.became[name] = joined(Becomes.SUCCEEDED, found)
        return over

    def _add(self, name: str, new: str) -> None:
        """A node of the run that another one stands for."""
        self.graph[new] = GraphNode(on_failure=self.graph[name].on_failure)
        self.states[new] = NodeState.DUE
        self._children[new] = []
        self._spawned.setdefault(name, []).append(new)

    def _may_start(self, name: str) -> bool:
        node = self.graph[name]
        counted = [self._used[each, name] for each in node.after if (each, name) in self._used]
        if not node.after:
            return True
        match node.when:
            case When.ALL_SUCCEEDED:
                return counted.count(Becomes.SUCCEEDED) == len(node.after)
            case When.ALL_DONE:
                return len(counted) == len(node.after)
            case When.ANY_FAILED:
                return Becomes.FAILED in counted
            case When.ANY_SUCCEEDED:
                return Becomes.SUCCEEDED in counted
