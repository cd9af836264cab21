"""Pools that are unions: those of gateways whose sessions differ."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.clock import new_incarnation
from gnomon.model.fleet.pool import EVERYTHING, NOTHING, Pool, Work, territory, union
from gnomon.model.fleet.shard import SHARDS
from gnomon.model.tasks.priority import Lane
from gnomon.store.postgres.dispatch.pools import pool_of, serves_of

NAMES = ("a", "b", "c")
WORKS = [
    Work(tenant, Lane.LOW, kind, queue, by_handler=True)
    for tenant, kind, queue in product(NAMES, NAMES, (None, *NAMES))
]
sets = st.frozensets(st.sampled_from(NAMES))
pools = st.builds(
    lambda tenant, queues, handlers: Pool(
        tenants=frozenset({tenant}), queues=queues, webhooks=False, handlers=handlers
    ),
    st.sampled_from(NAMES),
    sets,
    st.frozensets(st.sampled_from(NAMES), min_size=1),
)
of_sessions = st.lists(pools, max_size=5)


@given(of_sessions)
def test_a_union_serves_what_one_of_its_parts_serves(parts: list[Pool]) -> None:
    whole = union(parts)
    for work in WORKS:
        served = any(part.accepts(work) for part in parts)
        assert whole.accepts(work) == whole.may_accept(work) == served
        if served:  # the lists are bounds of it all, as the store is asked by
            assert Pool(whole.tenants, whole.types, whole.queues, whole.lanes, whole.webhooks,
                        whole.handlers).accepts(work)  # fmt: skip
    assert whole.is_empty == (not parts)


@given(of_sessions, of_sessions)
def test_unions_cover_and_overlap_as_their_parts_do(mine: list[Pool], theirs: list[Pool]) -> None:
    one, other = union(mine), union(theirs)
    shared = [work for work in WORKS if one.accepts(work) and other.accepts(work)]
    if shared:
        assert one.overlaps(other)
    if one.covers(other):
        assert all(one.accepts(work) for work in WORKS if other.accepts(work))
    assert union([*mine, *theirs]).covers(other) or not theirs
    assert EVERYTHING.covers(one)


@given(of_sessions)
def test_a_union_is_stored_as_it_is(parts: list[Pool]) -> None:
    whole = union(parts)
    assert pool_of(serves_of(whole)) == whole
    assert serves_of(union(list(reversed(parts)))) == serves_of(whole)


@pytest.mark.parametrize("parts", [[], [NOTHING]])
def test_a_union_of_nothing_is_nothing(parts: list[Pool]) -> None:
    assert union(parts).is_empty


@given(of_sessions, of_sessions)
def test_between_gateways_and_workers_each_task_has_one_owner(
    mine: list[Pool], theirs: list[Pool]
) -> None:
    nodes = {
        new_incarnation(): pool
        for pool in (union(mine), union(theirs), Pool(webhooks=False, handlers=frozenset({"a"})))
    }
    territories = [territory(node, nodes) for node in nodes]
    for work in WORKS[:9]:
        owners = [set(each.shards_of(work)) for each in territories]
        served = any(pool.accepts(work) for pool in nodes.values())
        assert len(set().union(*owners)) == (SHARDS if served else 0)
        assert sum(map(len, owners)) == (SHARDS if served else 0)
