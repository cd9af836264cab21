"""The flows that a node knows: what their numbers stand for.

A hint names only the number of a flow. What it stands for is learned from what was claimed, and
looked up, by the key of one of its tasks, where it is needed before that.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple, TypeVar

from gnomon.fairness.ready_queue import Flow as FlowId
from gnomon.model.tasks.flow import UNKNOWN_FLOW, Flow
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Entry

MOST_KNOWN = 50_000
_LOOKED_UP_AT_ONCE = 500

# Gives the flows of live tasks, each with a hint as it would be given now.
FlowsOf = Callable[[Collection[TaskKey]], Awaitable[list[tuple[Entry, Flow]]]]

K = TypeVar("K")
V = TypeVar("V")


def flow_of(delivery: Delivery) -> Flow:
    """By what its row says. Limits do not ask for the host."""
    return Flow(delivery.key.tenant_id, delivery.task_type, delivery.queue, delivery.limit_keys)


class Looked(NamedTuple):
    """The result of a look at the store."""

    flows: list[FlowId]  # may be asked for again
    changed: list[Entry]  # tasks that are of another flow by now


class FlowBook:
    """Remembers flows, the ones learned last. Entries that do not say their flow have one each."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: dict[FlowId, Flow] = {}
        self._of_task: dict[TaskKey, Flow] = {}
        self._unknown: dict[TaskKey, int] = {}  # samples, to be looked up, with their flows
        self._stale: dict[TaskKey, int] = {}  # hints of tasks that are gone, or of another flow

    def __len__(self) -> int:
        return len(self._known) + len(self._of_task)

    def find(self, entry: Entry) -> Flow | None:
        """None: it is not known, and will be looked up."""
        found = self.known(entry)
        if found is None:
            self._unknown[entry.key] = entry.flow
        return found

    def known(self, entry: Entry) -> Flow | None:
        """Without asking for it to be looked up."""
        if entry.flow == UNKNOWN_FLOW:
            return self._of_task.get(entry.key)
        return self._known.get((entry.key.tenant_id, entry.flow))

    def named(self, number: FlowId) -> Flow | None:
        """The flow of a number, if it is known."""
        return self._known.get(number)

    def is_stale(self, entry: Entry) -> bool:
        """Whether the hint is known to be wrong. It cannot be claimed, and is to be got rid of by
        trying; said once."""
        if not self._stale or self._stale.get(entry.key) != entry.flow:
            return False
        del self._stale[entry.key]
        return True

    def learn(self, delivery: Delivery) -> Flow:
        """Learn from what was claimed."""
        number = (delivery.key.tenant_id, delivery.flow)
        known = self._known.get(number)
        if known is None:
            known = flow_of(delivery)
            if delivery.flow != UNKNOWN_FLOW:
                self._keep(number, known)
        return known

    async def look_up(self, flows_of: FlowsOf) -> Looked:
        """Learn what was missed."""
        samples = dict(list(self._unknown.items())[:_LOOKED_UP_AT_ONCE])
        if not samples:
            return Looked([], [])
        changed = []
        found = await flows_of(samples)
        for entry, flow in found:
            asked = samples[entry.key]
            if asked == UNKNOWN_FLOW:
                self._of_task[entry.key] = flow
                _shorten(self._of_task, self._most)
                continue
            self._keep((entry.key.tenant_id, entry.flow), flow)
            if asked != entry.flow:
                changed.append(entry)
        gone = samples.keys() - {entry.key for entry, _ in found}
        for key in (*gone, *(entry.key for entry in changed)):
            self._stale[key] = samples[key]
        _shorten(self._stale, self._most)
        for key in samples:
            self._unknown.pop(key, None)
        return Looked(list({(key.tenant_id, flow) for key, flow in samples.items()}), changed)

    def _keep(self, number: FlowId, flow: Flow) -> None:
        self._known.pop(number, None)
        self._known[number] = flow
        _shorten(self._known, self._most)


def _shorten(book: dict[K, V], most: int) -> None:
    """Forget the oldest: whatever is still needed is looked up again."""
    while len(book) > most:
        del book[next(iter(book))]
