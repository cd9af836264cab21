"""The contract of the roster port, as tests: derive from it and give it a `roster`.

    class TestMine(RosterContract):
        @pytest.fixture
        def roster(self) -> RosterStore:
            return MyRoster()  # empty

The tests are coroutines: run them with pytest-asyncio or the like, in its auto mode. To see what
they compare, call `pytest.register_assert_rewrite("gnomon.testing.contracts")` before they are
imported.
"""

import asyncio
from datetime import timedelta
from uuid import UUID

from gnomon.clock import new_incarnation
from gnomon.model.errors import LeaseLost
from gnomon.model.fleet.pool import Pool
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.roster import NodeRecord, RosterStore
from gnomon.testing.contracts.store_world import declared_dead, joined


class RosterContract:
    """The suite."""

    async def test_a_node_that_joins_is_in_the_roster(self, roster: RosterStore) -> None:
        assert await roster.roster() == []
        incarnation, pool = new_incarnation(), Pool(queues=frozenset({"q"}), lanes=frozenset(Lane))
        now = await roster.join(incarnation, "a", 7, 60.0, pool)
        (node,) = await roster.roster()
        assert (node.incarnation, node.name, node.slots, node.dead) == (incarnation, "a", 7, False)
        assert node.pool == pool
        assert abs(node.alive_until - now - timedelta(seconds=60)) < timedelta(seconds=5)

    async def test_joining_again_is_joining_once(self, roster: RosterStore) -> None:
        """The answer to the first one may have been lost."""
        incarnation = new_incarnation()
        await roster.join(incarnation, "a", 7, 60.0)
        await roster.join(incarnation, "a", 7, 60.0)
        assert [node.incarnation for node in await roster.roster()] == [incarnation]

    async def test_a_renewal_extends_the_lease_and_moves_the_beat(
        self, roster: RosterStore
    ) -> None:
        incarnation = await joined(roster)
        before = await seen(roster, incarnation)
        now = await roster.renew(incarnation, 7200.0)
        after = await seen(roster, incarnation)
        assert after.beat > before.beat
        assert abs(after.alive_until - now - timedelta(hours=2)) < timedelta(seconds=5)

    async def test_a_node_is_declared_dead_only_at_the_beat_that_was_seen(
        self, roster: RosterStore
    ) -> None:
        incarnation = await joined(roster)
        seen_at = (await seen(roster, incarnation)).beat
        await roster.renew(incarnation, 60.0)
        assert not await roster.declare_dead(incarnation, seen_at)
        assert (await seen(roster, incarnation)).dead is False
        assert await roster.declare_dead(incarnation, (await seen(roster, incarnation)).beat)
        assert await roster.roster() == []

    async def test_a_node_is_declared_dead_once(self, roster: RosterStore) -> None:
        incarnation = await joined(roster)
        beat = (await seen(roster, incarnation)).beat
        answers = await asyncio.gather(*(roster.declare_dead(incarnation, beat) for _ in range(4)))
        assert sorted(answers) == [False, False, False, True]
        assert not await roster.declare_dead(new_incarnation(), beat)

    async def test_one_that_was_declared_dead_stays_so(self, roster: RosterStore) -> None:
        incarnation = await joined(roster)
        await declared_dead(roster, incarnation)
        assert await refuses_to_renew(roster, incarnation)
        await roster.join(incarnation, "node", 10, 60.0)
        assert await roster.roster() == []
        assert await refuses_to_renew(roster, incarnation)
        another = await joined(roster)
        assert [node.incarnation for node in await roster.roster()] == [another]

    async def test_a_node_that_leaves_is_gone_and_others_stay(self, roster: RosterStore) -> None:
        leaving, staying = await joined(roster), await joined(roster)
        await roster.leave(leaving)
        await roster.leave(leaving)
        assert [node.incarnation for node in await roster.roster()] == [staying]
        assert await refuses_to_renew(roster, leaving)

    async def test_an_unknown_node_cannot_renew(self, roster: RosterStore) -> None:
        assert await refuses_to_renew(roster, new_incarnation())

    async def test_a_lease_that_ran_out_kills_nobody(self, roster: RosterStore) -> None:
        """Only a peer declares a node dead: an outage of the store must not."""
        incarnation = new_incarnation()
        await roster.join(incarnation, "late", 1, 0.0)
        assert (await seen(roster, incarnation)).dead is False
        await roster.renew(incarnation, 60.0)

    async def test_where_nothing_waits_nothing_is_unserved(self, roster: RosterStore) -> None:
        await roster.join(new_incarnation(), "a", 1, 60.0, Pool(queues=frozenset({"q"})))
        assert await roster.unserved() == []


async def seen(roster: RosterStore, incarnation: UUID) -> NodeRecord:
    (node,) = [each for each in await roster.roster() if each.incarnation == incarnation]
    return node


async def refuses_to_renew(roster: RosterStore, incarnation: UUID) -> bool:
    try:
        await roster.renew(incarnation, 60.0)
    except LeaseLost:
        return True
    return False
