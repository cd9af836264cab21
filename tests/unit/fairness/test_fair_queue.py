"""The fair queue against a model: what goes in comes out once, in order, whatever is done."""

from collections import defaultdict, deque
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.fairness.fair_entries import at, entry, number_of

from gnomon.fairness import FairQueue, SlotShares
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

TENANTS = ("a", "b", "c")
FLOWS = (1, 2, 3)
tenants = st.sampled_from(TENANTS)
lanes = st.sampled_from(Lane)
flows = st.sampled_from(FLOWS)
Queue = tuple[str, Lane, int]


def queue_of(entry: Entry) -> Queue:
    return entry.key.tenant_id, entry.lane, entry.flow


class Model(RuleBasedStateMachine):
    """Every (tenant, lane, flow) is a queue of its own; flows are blocked and let in."""

    def __init__(self) -> None:
        super().__init__()
        self.ready: FairQueue[Entry] = FairQueue(weight=lambda tenant: 1.0 + ord(tenant) % 3)
        self.waiting: dict[Queue, deque[Entry]] = defaultdict(deque)
        self.blocked: set[tuple[str, int]] = set()
        self.aside: set[tuple[str, int]] = set()
        self.held: list[Entry] = []
        self.number = 0
        self.now = 0.0

    def admit(self, entry: Entry) -> bool:
        flow = (entry.key.tenant_id, entry.flow)
        assert flow not in self.aside, "a flow that is aside is not asked about"
        assert entry == self.waiting[queue_of(entry)][0]
        if flow in self.blocked:
            self.aside.add(flow)
            return False
        return True

    def open(self, *, urgent: bool = False) -> int:
        """Entries that would be admitted."""
        return sum(
            len(entries)
            for (tenant, lane, flow), entries in self.waiting.items()
            if (tenant, flow) not in self.blocked | self.aside
            and (not urgent or lane is Lane.CRITICAL)
        )

    @rule(queues=st.lists(st.tuples(tenants, lanes, flows), max_size=8))
    def put(self, queues: list[Queue]) -> None:
        batch = []
        for tenant, lane, flow in queues:
            self.number += 1
            made = entry(self.number, tenant, lane, due=self.now, flow=flow)
            self.now += 1
            self.waiting[queue_of(made)].append(made)
            batch.append(made)
        self.ready.put_all(batch)

    @rule(most=st.integers(0, 12), urgent=st.booleans(), keep=st.integers(0, 12))
    def take(self, most: int, urgent: bool, keep: int) -> None:
        could = self.open(urgent=urgent)
        taken = self.ready.take(most, at(self.now), self.admit_and_remove, urgent=urgent)
        assert len(taken) == min(most, could)
        assert not urgent or all(e.lane is Lane.CRITICAL for e in taken)
        self.held += taken[:keep]
        for unclaimed in reversed(taken[keep:]):
            self.ready.put_back(unclaimed)
            self.waiting[queue_of(unclaimed)].appendleft(unclaimed)

    def admit_and_remove(self, entry: Entry) -> bool:
        if not self.admit(entry):
            return False
        self.waiting[queue_of(entry)].popleft()
        return True

    @rule(tenant=tenants, flow=flows)
    def block(self, tenant: str, flow: int) -> None:
        self.blocked.add((tenant, flow))

    @rule(tenant=tenants, flow=flows, also_admit=st.booleans())
    def let_in(self, tenant: str, flow: int, also_admit: bool) -> None:
        if also_admit:
            self.blocked.discard((tenant, flow))
        assert self.ready.let_in([(tenant, flow)]) == ((tenant, flow) in self.aside)
        self.aside.discard((tenant, flow))

    @rule()
    def let_all_in(self) -> None:
        self.blocked.clear()
        assert self.ready.let_in() == bool(self.aside)
        self.aside.clear()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), took=st.lists(st.none() | st.floats(0, 100), max_size=6))
    def end(self, data: st.DataObject, took: list[float | None]) -> None:
        self.held = data.draw(st.permutations(self.held))
        ended, self.held = self.held[: len(took)], self.held[len(took) :]
        self.ready.ended_all(
            (e.key.tenant_id, e.lane, seconds) for e, seconds in zip(ended, took, strict=False)
        )

    @rule(tenant=tenants, lane=lanes)
    def start(self, tenant: str, lane: Lane) -> None:
        self.number += 1
        self.ready.started(tenant, lane)
        self.held.append(entry(self.number, tenant, lane))

    @rule(seconds=st.floats(0, 100))
    def a_second_passes(self, seconds: float) -> None:
        self.ready.runs((held.key.tenant_id, seconds) for held in self.held[::2])

    @rule()
    def clear(self) -> None:
        left = sorted(number_of(e) for entries in self.waiting.values() for e in entries)
        assert sorted(map(number_of, self.ready.clear())) == left
        self.waiting.clear()
        self.aside.clear()

    @invariant()
    def it_counts_what_waits(self) -> None:
        for (tenant, lane, flow), entries in self.waiting.items():
            assert self.ready.waiting(tenant, lane, flow) == len(entries)
        ready = [
            len(entries)
            for (tenant, _, flow), entries in self.waiting.items()
            if (tenant, flow) not in self.aside
        ]
        assert len(self.ready) == sum(ready)
        assert self.ready.offers() == (sum(ready) > 0)

    @invariant()
    def it_knows_the_longest_waits(self) -> None:
        depths, waits = self.ready.depths(), self.ready.longest_waits(at(self.now))
        for lane in Lane:
            waiting = [q for (_, of, _), q in self.waiting.items() if of is lane and q]
            assert depths[lane] == sum(map(len, waiting))
            due = [q[0].due_at for q in waiting]
            oldest = (at(self.now) - min(due)).total_seconds() if due else 0.0
            assert waits[lane] == oldest

    def teardown(self) -> None:
        self.let_all_in()
        self.take(10**6, False, 10**6)
        assert not any(self.waiting.values())


TestModel = Model.TestCase
TestModel.settings = settings(deadline=None, max_examples=80, stateful_step_count=40)


@settings(deadline=None)
@given(
    st.lists(st.tuples(tenants, lanes, flows, st.sampled_from([0, 60, 100])), max_size=60),
    st.sets(st.tuples(tenants, flows), max_size=4),
    st.lists(st.integers(0, 9), max_size=30),
    st.sampled_from([None, SlotShares(10, 0, 0.9), SlotShares(30, 3, 0.5)]),
)
def test_the_order_does_not_depend_on_how_takes_are_cut(
    puts: list[tuple[str, Lane, int, int]],
    blocked: set[tuple[str, int]],
    cuts: list[int],
    slots: SlotShares | None,
) -> None:
    def queue() -> FairQueue[Entry]:
        return FairQueue(slots=slots, has_others=lambda _: True)

    whole, pieces, singles = queue(), queue(), queue()
    batch = [
        entry(number, tenant, lane, due=due, flow=flow)
        for number, (tenant, lane, flow, due) in enumerate(puts)
    ]
    whole.put_all(batch)
    pieces.put_all(batch)
    for each in batch:
        singles.put_all([each])

    def admit(e: Entry) -> bool:
        return (e.key.tenant_id, e.flow) not in blocked

    taken = whole.take(sum(cuts), at(100), admit)
    assert [e for cut in cuts for e in pieces.take(cut, at(100), admit)] == taken
    assert [e for _ in range(sum(cuts)) for e in singles.take(1, at(100), admit)] == taken


def test_what_is_set_aside_is_dropped_where_there_is_too_much_of_it() -> None:
    ready: FairQueue[Entry] = FairQueue()
    number = count()
    for flow in FLOWS:
        ready.put_all([entry(next(number), "a", flow=flow) for _ in range(10)])
    ready.put_all([entry(next(number), "b") for _ in range(5)])
    assert ready.take(100, at(0), lambda _: False) == []
    assert ready.drop_aside(30, 10) == []
    dropped = ready.drop_aside(29, 10)
    ((tenant, lane, flow),) = {queue_of(each) for each in dropped}
    assert len({number_of(each) for each in dropped}) == 10
    assert tenant == "a", "it has the most"
    assert ready.waiting(tenant, lane, flow) == 0
    assert ready.depths()[lane] == 25
    assert len(ready.drop_aside(19, 11)) == 20
    assert ready.drop_aside(5, 1) == []
    assert ready.let_in()
    assert sorted(e.key.tenant_id for e in ready.take(100, at(0))) == ["b"] * 5
