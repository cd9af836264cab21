"""The shard map: the same on every node, and moved by a change of roster no more than needed."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.model.fleet.shard import SHARDS, owned_shards, owner, shard_of

nodes = st.uuids()
rosters = st.lists(nodes, min_size=1, max_size=8, unique=True)


def shard_map(roster: list[UUID]) -> list[UUID | None]:
    return [owner(shard, roster) for shard in range(SHARDS)]


@given(nodes)
def test_a_task_belongs_to_the_shard_of_its_last_byte(task_id: UUID) -> None:
    assert shard_of(task_id) == task_id.bytes[15]


@settings(deadline=None)
@given(rosters, st.randoms(use_true_random=False))
def test_the_order_of_the_roster_does_not_matter(roster: list[UUID], random: Random) -> None:
    shuffled = random.sample(roster, len(roster))
    assert shard_map(roster) == shard_map(shuffled)


@settings(deadline=None)
@given(rosters)
def test_each_shard_is_served_by_exactly_its_owner(roster: list[UUID]) -> None:
    served = {shard: node for node in roster for shard in owned_shards(node, roster)}
    assert sum(len(owned_shards(node, roster)) for node in roster) == SHARDS
    assert [served[shard] for shard in range(SHARDS)] == shard_map(roster)


@settings(deadline=None)
@given(rosters, nodes)
def test_a_node_that_joins_takes_shards_only_for_itself(roster: list[UUID], new: UUID) -> None:
    before, after = shard_map(roster), shard_map([*roster, new])
    assert all(now in (was, new) for was, now in zip(before, after, strict=True))


@settings(deadline=None)
@given(rosters, st.data())
def test_a_node_that_leaves_gives_away_only_its_own(
    roster: list[UUID], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(roster))
    before, after = shard_map(roster), shard_map([node for node in roster if node != gone])
    assert all(was in (now, gone) for was, now in zip(before, after, strict=True))


@pytest.mark.parametrize("size", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("seed", range(5))
def test_shares_are_about_even(size: int, seed: int) -> None:
    random = Random(seed)
    roster = [UUID(int=random.getrandbits(128)) for _ in range(size)]
    shares = [len(owned_shards(node, roster)) for node in roster]
    fair = SHARDS / size
    # Each share is binomial; four standard deviations leave room for no systematic bias.
    slack = 4 * (fair * (1 - 1 / size)) ** 0.5
    assert all(abs(share - fair) <= slack for share in shares)


def test_nodes_whose_ids_differ_in_one_bit_share_evenly_too() -> None:
    roster = [UUID(int=number) for number in range(4)]
    assert all(40 <= len(owned_shards(node, roster)) <= 88 for node in roster)


@given(nodes, st.lists(nodes, max_size=5))
def test_a_node_that_is_not_on_the_roster_serves_nothing(me: UUID, others: list[UUID]) -> None:
    assert owned_shards(me, [node for node in others if node != me]) == frozenset()


def test_an_empty_roster_owns_nothing() -> None:
    assert owner(7, []) is None


def test_a_roster_that_names_a_node_twice_is_the_same_roster() -> None:
    one, two = UUID(int=1), UUID(int=2)
    assert owned_shards(one, [one, two, one]) == owned_shards(one, [one, two])


def test_the_map_is_the_same_in_every_version() -> None:
    # Nodes of two versions serve together during an upgrade: a map that changes unnoticed would
    # leave shards unserved until the sweep finds them.
    roster = [UUID(int=number) for number in (1, 2, 3)]
    first = [roster.index(node) for node in shard_map(roster)[:16] if node is not None]
    assert first == [1, 0, 0, 1, 1, 1, 0, 2, 1, 0, 0, 1, 2, 2, 0, 2]
