"""Who owns what where nodes have pools: exactly one node that serves it, if there is any."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.model.fleet.pool import (
    EVERYTHING,
    NOTHING,
    WEBHOOKS,
    Pool,
    Work,
    shards_by_node,
    territory,
)
from gnomon.model.fleet.shard import SHARDS, owned_shards, owner
from gnomon.model.tasks.priority import Lane

tenants = st.sampled_from(["a", "b", "c"])
types = st.sampled_from(["mail", "report"])
queues = st.sampled_from(["fast", "slow"])
pools = st.builds(
    Pool,
    tenants=st.frozensets(tenants),
    types=st.frozensets(types),
    queues=st.frozensets(queues),
    lanes=st.frozensets(st.sampled_from(Lane), max_size=3),
    webhooks=st.booleans(),
    handlers=st.none() | st.frozensets(types),
)
works = st.builds(Work, tenants, st.sampled_from(Lane), types, st.none() | queues, st.booleans())
# One of everything that a pool can tell apart, with a name that no pool lists.
EVERY_WORK = [
    Work(tenant, lane, kind, queue, by_handler)
    for tenant in ("a", "b", "c", "another")
    for lane in Lane
    for kind in ("mail", "report", "another")
    for queue in (None, "fast", "slow", "another")
    for by_handler in (False, True)
]
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
    unknown = Work(work.tenant_id, work.lane, by_handler=work.by_handler)
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


@settings(max_examples=300)
@given(pools, pools)
def test_covering_and_overlapping_are_what_counting_says(one: Pool, two: Pool) -> None:
    ours = {work for work in EVERY_WORK if one.accepts(work)}
    theirs = {work for work in EVERY_WORK if two.accepts(work)}
    assert one.covers(two) == (theirs <= ours)
    assert one.overlaps(two) == bool(ours & theirs)
    assert one.is_empty == (not ours)


@given(pools, works)
def test_a_type_is_asked_for_where_the_answer_depends_on_it(pool: Pool, work: Work) -> None:
    unknown = Work(work.tenant_id, work.lane, by_handler=work.by_handler)
    if not pool.asks_for_type(by_handler=work.by_handler):
        assert pool.accepts(work) == pool.may_accept(unknown)


@settings(max_examples=50, deadline=None)
@given(
    st.sets(st.integers(0, 1000), min_size=1, max_size=6),
    pools.filter(lambda pool: not pool.is_empty),
)
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
        Work(work.tenant_id, work.lane, t, q, work.by_handler)
        for t in ("mail", "report", "another")
        for q in (None, "fast", "slow")
    ]
    unknown = Work(work.tenant_id, work.lane, by_handler=work.by_handler)
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
    assert str(WEBHOOKS) == "webhooks"
    assert str(NOTHING) == "nothing"
    worker = Pool(webhooks=False, handlers=frozenset({"b", "a"}), tenants=frozenset("t"))
    assert str(worker) == "handler a, b; tenant t"
    assert str(Pool(handlers=frozenset("a"))) == "webhooks; handler a"
    assert str(Pool(webhooks=False)) == "handlers"


def test_a_pool_with_hundreds_of_handlers_is_told_in_few_words() -> None:
    many = Pool(webhooks=False, handlers=frozenset(f"handler_{n:03}" for n in range(300)))
    assert str(many).endswith("handler_006, handler_007 and 292 more")


def test_a_node_that_serves_nothing_owns_nothing_and_keeps_it_from_nobody() -> None:
    me, other = UUID(int=1), UUID(int=2)
    for pool in (NOTHING, Pool(webhooks=False, types=frozenset("a"), handlers=frozenset("b"))):
        roster = {me: pool, other: EVERYTHING}
        assert not territory(me, roster).shards
        assert territory(other, roster).is_whole
        assert len(territory(other, roster).shards) == SHARDS
        assert shards_by_node(roster)[me] == frozenset()
        assert not territory(me, {me: pool}).shards


def test_webhooks_and_handlers_are_served_apart() -> None:
    """A node without an app and a worker do not compete: each owns all shards of its kind."""
    node, worker = UUID(int=1), UUID(int=2)
    roster = {node: WEBHOOKS, worker: Pool(webhooks=False, handlers=frozenset({"mail"}))}
    for each, pool in roster.items():
        own = territory(each, roster)
        assert (len(own.shards), own.others, own.pool) == (SHARDS, {}, pool)


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
    assert str(Work("acme", Lane.LOW, "mail", by_handler=True)).endswith("lane LOW, handler mail")
