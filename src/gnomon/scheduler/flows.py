"""What a node knows about flows: what their numbers stand for.

A hint names only the number of a flow. What it stands for is learned from what was claimed, and
looked up, by the key of one of its tasks, where it is needed before that.
"""

from gnomon.fair.queue import Flow as FlowId
from gnomon.model.flow import UNKNOWN_FLOW, Flow
from gnomon.model.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.limit_port import LimitStore
from gnomon.store.port import Entry

MOST_KNOWN = 50_000
_LOOKED_UP_AT_ONCE = 500


def flow_of(delivery: Delivery) -> Flow:
    """By what its row says. Limits do not ask for the host."""
    return Flow(delivery.key.tenant_id, delivery.task_type, delivery.queue, delivery.limit_keys)


class FlowBook:
    """Remembers flows, the ones used last. Entries that do not say their flow have one each."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: dict[FlowId, Flow] = {}
        self._of_task: dict[TaskKey, Flow] = {}
        self._unknown: dict[TaskKey, FlowId] = {}  # samples, to be looked up

    def __len__(self) -> int:
        return len(self._known) + len(self._of_task)

    @property
    def asks(self) -> bool:
        """Whether there is anything to be looked up."""
        return bool(self._unknown)

    def find(self, entry: Entry) -> Flow | None:
        """None: it is not known, and will be looked up."""
        found = self.known(entry)
        if found is None:
            self._unknown[entry.key] = (entry.key.tenant_id, entry.flow)
        return found

    def known(self, entry: Entry) -> Flow | None:
        """Without asking for it to be looked up."""
        if entry.flow == UNKNOWN_FLOW:
            return self._of_task.get(entry.key)
        return self._known.get((entry.key.tenant_id, entry.flow))

    def learn(self, delivery: Delivery) -> Flow:
        """Learn from what was claimed."""
        number = (delivery.key.tenant_id, delivery.flow)
        known = self._known.get(number)
        if known is None:
            known = flow_of(delivery)
            if delivery.flow != UNKNOWN_FLOW:
                self._keep(number, known)
        return known

    async def look_up(self, store: LimitStore) -> list[FlowId]:
        """Learn what was missed; gives the flows that may be asked for again. One whose sample is
        gone will bring another."""
        samples = dict(list(self._unknown.items())[:_LOOKED_UP_AT_ONCE])
        if not samples:
            return []
        for key, (number, flow) in (await store.flows_of(samples)).items():
            if samples[key][1] == UNKNOWN_FLOW:
                self._of_task[key] = flow
                _shorten(self._of_task, self._most)
            else:
                self._keep((key.tenant_id, number), flow)
        for key in samples:
            self._unknown.pop(key, None)
        return list(dict.fromkeys(samples.values()))

    def _keep(self, number: FlowId, flow: Flow) -> None:
        self._known.pop(number, None)
        self._known[number] = flow
        _shorten(self._known, self._most)


def _shorten(book: dict[TaskKey, Flow] | dict[FlowId, Flow], most: int) -> None:
    """Forget the oldest: whatever is still needed is looked up again."""
    if len(book) > most:
        del book[next(iter(book))]  # type: ignore[arg-type]
