"""What is done for a whole batch comes to the same as what is done for each entry of it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fairness.fair_entries import at, entry, number_of

from gnomon.fairness import FairQueue
from gnomon.fairness.ready_queue import Admit, Due
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.dispatch import Entry

TENANTS = ("acme", "bolt")
FLOWS = (1, 2, 3)

some_lanes = st.sampled_from([(Lane.MEDIUM,), tuple(Lane)])
puts = some_lanes.flatmap(
    lambda lanes: st.lists(
        st.tuples(st.sampled_from(TENANTS), st.sampled_from(lanes), st.sampled_from(FLOWS)),
        max_size=12,
    )
)
takes = st.integers(0, 15)
refusals = st.tuples(st.sampled_from(TENANTS), st.sampled_from(FLOWS))
steps = st.lists(puts | takes | refusals, max_size=30)


def each_is_asked(_: Due) -> bool:
    """As `everyone`, and not known to be that."""
    return True


def freely(tenant_id: str) -> bool:
    return tenant_id == "acme"


@settings(deadline=None)
@given(steps)
def test_a_tenant_that_is_admitted_freely_gets_what_it_would_get_if_each_was_asked(
    steps: list[list[tuple[str, Lane, int]] | int | tuple[str, int]],
) -> None:
    whole: FairQueue[Entry] = FairQueue()
    single: FairQueue[Entry] = FairQueue()
    number = 0
    for step in [*steps, 1000]:
        if isinstance(step, list):
            entries = [entry(number + n, *what[:2], flow=what[2]) for n, what in enumerate(step)]
            number += len(entries)
            whole.put_all(entries)
            for each in entries:
                single.put_all([each])
        elif isinstance(step, int):
            mine = whole.take(step, at(0), each_is_asked, freely)
            others = single.take(step, at(0), each_is_asked)
            assert list(map(number_of, mine)) == list(map(number_of, others))
            ends = [(e.key.tenant_id, e.lane, 0.25) for e in mine[::2]]
            whole.ended_all(ends)
            for tenant in TENANTS:
                single.ended_all(end for end in ends if end[0] == tenant)
        else:
            mine, others = (queue.take(1, at(0), _all_but(step)) for queue in (whole, single))
            assert list(map(number_of, mine)) == list(map(number_of, others))
            if len(mine) % 2:  # the others stay aside for a while
                assert whole.let_in([step]) == single.let_in([step])
        assert len(whole) == len(single)
        assert whole.depths() == single.depths()


def _all_but(flow: tuple[str, int]) -> Admit[Entry]:
    return lambda each: (each.key.tenant_id, each.flow) != flow
