"""A node takes of what it reads what its territory says, however the flows are mixed."""

from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.fleet.pool import Pool, Territory, Work
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.tasks.flow import UNKNOWN_FLOW, Flow
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.node.ahead.pool_answers import PoolAnswers
from gnomon.node.ahead.scanner import Scanner
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TYPES = ("mail", "report", "unknown")

entries = st.lists(
    st.builds(
        lambda tenant, number, lane, flow, by_handler: Entry(
            TaskKey(tenant, UUID(int=number)), NOW, lane, flow=flow, by_handler=by_handler
        ),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2**64),
        st.sampled_from(Lane),
        st.sampled_from([UNKNOWN_FLOW, 1, 2, 3]),
        st.booleans(),
    ),
    max_size=30,
)
few = st.sampled_from([frozenset[str](), frozenset({"a"}), frozenset({"b"})])
pools = st.builds(
    Pool,
    tenants=few,
    webhooks=st.booleans(),
    handlers=st.sampled_from([None, frozenset[str](), frozenset({"mail"})]),
    lanes=st.sampled_from([frozenset[Lane](), frozenset({Lane.LOW})]),
)
shards = st.sampled_from([frozenset(range(SHARDS)), frozenset(range(0, SHARDS, 2))])


class KnownFlows(FlowBook):
    """Flows 1 and 2 are known, 3 is not."""

    def known(self, entry: Entry) -> Flow | None:
        if entry.flow not in (1, 2):
            return None
        return Flow(entry.key.tenant_id, TYPES[entry.flow - 1], None, None)


@given(entries, pools, shards)
def test_entries_are_taken_by_territory(
    read: list[Entry], pool: Pool, owned: frozenset[int]
) -> None:
    nothing = cast("Any", None)  # is neither read nor written here
    flows = KnownFlows()
    scanner = Scanner(nothing, nothing, nothing, NodeSettings(), flows)
    scanner.territory = Territory(owned, pool)
    scanner._by_kind = False  # the general way, which all pools can go
    scanner._answers = PoolAnswers(pool, flows)

    def own(entry: Entry) -> bool:
        flow = flows.known(entry)
        task_type = None if flow is None else flow.task_type
        work = Work(entry.key.tenant_id, entry.lane, task_type, None, entry.by_handler)
        return scanner.territory.may_own(shard_of(entry.key.id), work)

    assert scanner.own_of(read) == [entry for entry in read if own(entry)]


@given(entries, pools, st.one_of(st.none(), pools))
def test_a_pool_is_remembered_to_have_said_what_it_says(
    read: list[Entry], pool: Pool, other: Pool | None
) -> None:
    if other is not None:
        pool = Pool(any_of=frozenset({pool, other}))
    answers = PoolAnswers(pool, KnownFlows())
    for entry in (*read, *read):
        assert answers.may_accept(entry) == pool.may_accept(answers.work_of(entry))
