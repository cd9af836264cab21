"""A rate under any order of what happens: nodes with clocks of their own, answers that are late or
lost, calls that are slow to go out, nodes that stand still or die, a rate that is changed.

The function of the store, and what nodes hold of it, are the real ones. Time is not: the store's
clock is a row, and everything happens in the order that chance gives, the same for a seed.
"""

import heapq
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import pytest
from proof.limits.judge import most_within

from gnomon.limits.exchange import PermitGrant, Starts
from gnomon.limits.holdings import Batch, Holding, Wish
from gnomon.limits.limiter import Bucket, Limiter
from gnomon.limits.store_time import StoreTime
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.limits.permits import PostgresLimits

Connection: TypeAlias = Any
Act: TypeAlias = Callable[[], Awaitable[None]]
RATE = 12
_EPOCH = 1_800_000_000.0
_TIME = """
CREATE TABLE gnomon.time (now float8 NOT NULL);
INSERT INTO gnomon.time VALUES (0);
CREATE OR REPLACE FUNCTION gnomon.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT to_timestamp(now) FROM gnomon.time';
"""
_COUNTED = """
SELECT sum(starts) FROM gnomon.limit_window
WHERE until > $1::timestamptz - make_interval(secs => $2)
"""
_NODE = """
INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
VALUES ($1, 'n', '1', 10, now(), now() + interval '1 hour')
"""
_DEAD = "UPDATE gnomon.node SET dead = true WHERE incarnation = $1"
_LIMITER = """
INSERT INTO gnomon.limiter (tenant_id, name, rate, per_seconds) VALUES ('default', 'few', $1, $2)
ON CONFLICT (tenant_id, name) DO UPDATE SET rate = excluded.rate
"""


class World:
    """What happens, one after the other, by the store's clock."""

    def __init__(self, database: Database, connection: Connection, per: float, seed: int) -> None:
        self.limits = PostgresLimits(database)
        self.limiter = Limiter(tenant_id="default", name="few", rate=RATE, per_seconds=per)
        self.chance = random.Random(seed)
        self.now = _EPOCH
        self.made: list[float] = []
        self.arrived: list[float] = []
        self.nodes: list[Node] = []
        self._connection = connection
        self._order = count()
        self._coming: list[tuple[float, int, Act]] = []

    async def begin(self) -> None:
        await self._connection.execute(_TIME)
        await self.change(RATE)
        self.nodes = [await self.node() for _ in range(3)]

    async def node(self) -> "Node":
        node = Node(self)
        await self._connection.execute(_NODE, node.incarnation)
        return node

    async def dead(self, node: "Node") -> None:
        """It is taken for dead later than it dies."""
        await self._connection.execute(_DEAD, node.incarnation)

    async def change(self, rate: int) -> None:
        per = self.limiter.per_seconds
        self.limiter = Limiter(tenant_id="default", name="few", rate=rate, per_seconds=per)
        await self._connection.execute(_LIMITER, rate, per)

    def after(self, seconds: float, act: Act) -> None:
        heapq.heappush(self._coming, (self.now + seconds, next(self._order), act))

    async def run(self, seconds: float) -> None:
        ends = self.now + seconds
        while self._coming and self._coming[0][0] < ends:
            self.now, _, act = heapq.heappop(self._coming)
            await act()
        self.now = ends

    async def exchange(self, node: UUID, turn: int, asks: list[Any]) -> list[PermitGrant]:
        await self._connection.execute("UPDATE gnomon.time SET now = $1", self.now)
        grants = await self.limits.exchange(node, turn, asks)
        for grant in grants:
            await self._fits(list(grant.starts))
        return grants

    async def _fits(self, granted: list[Starts]) -> None:
        """With all that may be made in the same time, as far as it was granted before."""
        later = 0
        while granted:
            last = granted.pop()
            counted = await self._connection.fetchval(
                _COUNTED, last.since, self.limiter.per_seconds
            )
            assert counted - later <= (self.limiter.rate or 0)
            later += last.count


class Node:
    """Takes starts whenever it can, and calls with them a little later."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self.incarnation = uuid4()
        # By less than what is allowed for, and anything apart.
        self._pace = 1.0 + self._chance.uniform(-9e-4, 9e-4)
        self._origin = world.now - self._chance.uniform(0, 1e5)
        self._account = Holding(Bucket("default", "few"), world.limiter, self._clock())
        self._time = StoreTime()
        self._turn = 0
        self._stands_until = 0.0
        self._dead = False
        self._later(0.0, self._ask)
        self._later(0.0, self._take)

    def _clock(self) -> float:
        return (self._world.now - self._origin) * self._pace

    def _later(self, seconds: float, act: Act) -> None:
        """In this process, which may stand still then, or be gone."""

        async def when_it_runs() -> None:
            if self._dead:
                return
            if self._world.now < self._stands_until:
                self._world.after(self._stands_until - self._world.now, when_it_runs)
                return
            await act()

        self._world.after(seconds, when_it_runs)

    async def stand_still(self) -> None:
        self._stands_until = self._world.now + self._chance.uniform(0.01, 2.5)

    async def die(self) -> None:
        self._dead = True
        world = self._world
        world.nodes[world.nodes.index(self)] = await world.node()
        world.after(self._chance.uniform(0.0, 3.0), lambda: world.dead(self))

    def hear_of_change(self) -> None:
        self._account.change(self._world.limiter)

    async def _ask(self) -> None:
        account, asked_at = self._account, self._clock()
        self._turn += 1
        turn = self._turn
        waiting = self._chance.choice((0, 1, RATE, RATE))
        ask = account.ask(Wish(waiting, self._chance.random() < 0.02), asked_at)
        fate = self._chance.random()

        async def at_the_store() -> None:
            grants = await self._world.exchange(self.incarnation, turn, [ask])

            async def answered() -> None:
                now = self._clock()
                for grant in grants:
                    self._time.heard(grant.now, asked_at, now)
                    account.granted(grant, ask, self._time, now)
                self._later(self._chance.uniform(0.0, 0.15), self._ask)

            if fate > 0.1:
                self._later(self._delay(), answered)

        if fate > 0.05:  # or it never gets there
            self._world.after(self._delay(), at_the_store)
        if fate <= 0.1:  # what comes to the store may be too late by then
            self._later(self._delay(), self._ask)

    def _delay(self) -> float:
        return self._chance.choice((0.001, 0.01, 0.3)) * self._chance.random()

    async def _take(self) -> None:
        batch = self._account.batch(self._clock())
        if batch is not None:
            batch.left -= 1
            self._later(self._delay(), lambda: self._call(batch))
        self._later(self._chance.choice((0.0, 0.01, 0.1)) * self._chance.random(), self._take)

    async def _call(self, batch: Batch) -> None:
        """The last look, and then the call; now and then the node stands still in between."""
        now = self._clock()
        if now >= batch.use_until:
            batch.left += 1
            return
        self._world.made.append(self._world.now)
        batch.spend(now)
        if self._chance.random() < 0.02:
            await self.stand_still()
        way = 0.09 * self._world.limiter.per_seconds * self._chance.random()
        self._later(way * self._chance.choice((0.0, 0.1, 1.0)), lambda: self._send(batch))

    async def _send(self, batch: Batch) -> None:
        # Nobody can call back what was let through in time and goes out after that.
        if self._world.now <= batch.until.timestamp():
            self._world.arrived.append(self._world.now)

        async def comes_back() -> None:
            batch.came_back(self._clock())

        self._later(self._chance.choice((0.0, 0.02, 3.0)) * self._chance.random(), comes_back)


async def faults(world: World) -> None:
    """One, and the next one later."""
    node = world.chance.choice(world.nodes)
    await world.chance.choice((node.stand_still, node.die))()
    world.after(world.chance.uniform(0.2, 2.0), lambda: faults(world))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("per", [1.0, 5.0])
async def test_never_one_too_many_in_any_time(
    database: Database, connection: Connection, per: float, seed: int
) -> None:
    world = World(database, connection, per, seed)
    await world.begin()
    world.after(1.0, lambda: faults(world))
    await world.run(25 * per)
    assert most_within(world.made, per) <= RATE
    assert most_within(world.arrived, per) <= RATE
    assert len(world.arrived) > 25 * RATE / 4, "nothing is shown by those who do nothing"


async def test_a_lower_rate_holds_once_it_is_heard_of(
    database: Database, connection: Connection
) -> None:
    world = World(database, connection, 20.0, 1)
    await world.begin()
    await world.run(30.0)
    await world.change(3)
    for node in world.nodes:
        node.hear_of_change()
    heard = world.now + 0.3  # until which those call that were chosen
    await world.run(100.0)
    later = [moment for moment in world.made if moment > heard]
    assert 0 < most_within(later, 20.0) <= 3


def test_times_of_the_store_are_never_surer_than_the_clocks() -> None:
    for pace in (1 - 1e-3, 1 + 1e-3):  # of the store's clock, by ours
        time = StoreTime()
        time.heard(datetime.fromtimestamp(_EPOCH, UTC), 99.9, 100.1)
        moment = datetime.fromtimestamp(_EPOCH + 3600, UTC)
        for said, late in ((99.9, 1), (100.1, -1)):
            reached = said + 3600 / pace
            bound = time.surely_after(moment) if late < 0 else time.surely_before(moment)
            assert (bound - reached) * late <= 1e-3
