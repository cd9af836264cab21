"""What a node remembers of flows, and looks up."""

from collections.abc import Collection, Sequence
from uuid import UUID

from tests.unit.fairness.fair_entries import entry

from gnomon.limits.exchange import Ask, PermitGrant
from gnomon.limits.limiter import Bucket
from gnomon.model.tasks.flow import Flow
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.store.ports.dispatch import Entry


class Flows:
    """The store, as far as a node looks up flows."""

    def __init__(self) -> None:
        self.rows: dict[TaskKey, tuple[Entry, Flow]] = {}

    async def flows_of(self, keys: Collection[TaskKey]) -> list[tuple[Entry, Flow]]:
        return [self.rows[key] for key in keys if key in self.rows]

    async def exchange(self, node: UUID, turn: int, asks: Sequence[Ask]) -> list[PermitGrant]:
        raise NotImplementedError

    async def wanted(self, node: UUID) -> list[Bucket]:
        raise NotImplementedError

    async def running(self, node: UUID) -> set[TaskKey] | None:
        raise NotImplementedError


async def test_flows_are_looked_up_once_and_forgotten_in_time() -> None:
    book, store = FlowBook(most=2), Flows()
    for number in range(1, 5):
        each = entry(number, flow=number)
        store.rows[each.key] = (each, Flow("acme", f"type-{number}"))
        assert book.find(each) is None
    gone = entry(9, flow=9)
    assert book.find(gone) is None
    looked = await book.look_up(store.flows_of)
    assert set(looked.flows) == {("acme", n) for n in (1, 2, 3, 4, 9)}
    assert looked.changed == []
    assert (await book.look_up(store.flows_of)).flows == []
    assert book.is_stale(gone), "the task is gone"
    assert not book.is_stale(gone), "said once"
    assert book.find(entry(5, flow=4)) == Flow("acme", "type-4")
    assert len(book) == 2
    # An entry that does not say its flow is known by its key alone.
    unknown = entry(1, flow=0)
    assert book.find(unknown) is None
    assert (await book.look_up(store.flows_of)).flows == [("acme", 0)]
    assert book.find(unknown) == Flow("acme", "type-1")
    assert book.find(entry(2, flow=0)) is None


async def test_a_task_of_another_flow_is_found_out() -> None:
    book, store = FlowBook(), Flows()
    before, after = entry(1, flow=1), entry(1, flow=2)
    store.rows[before.key] = (after, Flow("acme", "changed"))
    assert book.find(before) is None
    assert await book.look_up(store.flows_of) == ([("acme", 1)], [after])
    assert book.find(after) == Flow("acme", "changed")
    assert book.is_stale(before)
