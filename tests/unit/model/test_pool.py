"""Who owns what where nodes have pools: exactly one node that serves it, if there is any."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.model.pool import EVERYTHING, Pool, Work, shards_by_node, territory
from gnomon.model.priority import Lane
from gnomon.model.shard import SHARDS, owned_shards, owner

tenants = st.sampled_from(["a", "b", "c"])
types = st.sampled_from(["mail", "report"])
queues = st.sampled_from(["fast", "slow"])
pools = st.builds(
    Pool,
    tenants=st.frozensets(tenants),
    types=st.frozensets(types),
    queues=st.frozensets(queues),
    lanes=st.frozensets(st.sampled_from(Lane)),
)
works = st.builds(Work, tenants, st.sampled_from(Lane), types, st.none() | queues)
shards = st.integers(0, SHARDS - 1)
rosters = st.dictionaries(
    st.integers(0, 1000).map(lambda number: UUID(int=number)), pools, min_size=1, max_size=6
)


@settings(max_examples=50, deadline=None)  # a roster is 256 shards for each node
@given(rosters, works, shards)
def test_a_task_has_one_owner_among_those_that_serve_it(
    roster: dict[UUID, Pool], work: Work, shard: int
) -> None:
    serving = [node for node, pool in roster.items() if pool.accepts(work)]
    owners = [node for node in roster if territory(node, roster).may_own(shard, work)]
    expected = owner(shard, serving)
    assert owners == ([] if expected is None else [expected])


@settings(max_examples=50, deadline=None)
@given(rosters, works, shards)
def test_whose_type_is_not_known_is_nobodys_loss(
    roster: dict[UUID, Pool], work: Work, shard: int
) -> None:
    unknown = Work(work.tenant_id, work.lane)
    for node in roster:
        own = territory(node, roster)
        assert own.may_own(shard, unknown) or not own.may_own(shard, work)


@settings(max_examples=30, deadline=None)
@given(rosters, works)
def test_the_shards_in_which_a_node_owns_something(roster: dict[UUID, Pool], work: Work) -> None:
    for node in roster:
        own = territory(node, roster)
        assert own.shards_of(work) == {s for s in range(SHARDS) if own.may_own(s, work)}


@settings(max_examples=50, deadline=None)
@given(rosters)
def test_the_shards_of_all_nodes_are_those_of_each(roster: dict[UUID, Pool]) -> None:
    each = {node: territory(node, roster).shards for node in roster}
    assert shards_by_node(roster) == each


@given(pools, pools, works)
def test_covering_and_overlapping(one: Pool, two: Pool, work: Work) -> None:
    if one.covers(two) and two.accepts(work):
        assert one.accepts(work)
    if one.accepts(work) and two.accepts(work):
        assert one.overlaps(two)


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(0, 1000), min_size=1, max_size=6), pools)
def test_equal_pools_share_as_if_they_were_alone(numbers: set[int], pool: Pool) -> None:
    nodes = [UUID(int=number) for number in numbers]
    for node in nodes:
        own = territory(node, dict.fromkeys(nodes, pool))
        assert own.shards == owned_shards(node, nodes)
        assert not own.others
        assert own.is_whole == (pool == EVERYTHING)


@given(pools, works)
def test_a_pool_may_serve_what_is_not_known_unless_it_serves_no_type_of_it(
    pool: Pool, work: Work
) -> None:
    types_of_it = [
        Work(work.tenant_id, work.lane, t, q)
        for t in ("mail", "report")
        for q in (None, "fast", "slow")
    ]
    unknown = Work(work.tenant_id, work.lane)
    assert pool.may_accept(unknown) == any(pool.accepts(each) for each in types_of_it)
    assert pool.may_accept(work) == pool.accepts(work)


def test_a_node_that_is_not_in_the_roster_owns_nothing() -> None:
    me, other = UUID(int=1), UUID(int=2)
    assert not territory(me, {other: EVERYTHING}).shards
    assert not territory(me, {other: Pool(tenants=frozenset("a"))}).shards


def test_a_pool_in_words() -> None:
    pool = Pool(tenants=frozenset("ba"), lanes=frozenset([Lane.LOW, Lane.CRITICAL]))
    assert str(pool) == "tenant a, b; lane CRITICAL, LOW"
    assert str(EVERYTHING) == "everything"


@pytest.mark.parametrize(
    ("mine", "theirs", "covers"),
    [
        ("", "", True),
        ("", "a", True),
        ("a", "a", True),
        ("ab", "a", True),
        ("a", "ab", False),
        ("a", "b", False),
        ("a", "", False),
    ],
)
def test_a_pool_covers_another_that_serves_no_more(mine: str, theirs: str, covers: bool) -> None:
    assert Pool(tenants=frozenset(mine)).covers(Pool(tenants=frozenset(theirs))) is covers


def test_work_in_words() -> None:
    assert str(Work("acme", Lane.LOW, "mail")) == "tenant acme, lane LOW, type mail"
    assert str(Work("acme", Lane.LOW, "mail", "slow")).endswith("type mail, queue slow")
