"""Leases of permits and starts in PostgreSQL: never one too many, and nobody starves."""

import asyncio
import random
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import pytest

from gnomon.clock import SystemClock, new_id
from gnomon.limits.exchange import Ask, PermitGrant, Told
from gnomon.limits.limiter import Bucket
from gnomon.model.fleet.retention import RowKind
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.limits.permits import PostgresLimits
from gnomon.store.postgres.queries import query

Connection: TypeAlias = Any  # one of its own, or a pooled one
BUCKET = Bucket("default", "few")
SILENCE = "SHOW idle_in_transaction_session_timeout"


@pytest.fixture
def limits(database: Database) -> PostgresLimits:
    return PostgresLimits(database)


async def limiter(connection: Connection, name: str = "few", **numbers: float) -> None:
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, concurrency, rate, per_seconds) "
        "VALUES ('default', $1, $2, $3, $4) ON CONFLICT (tenant_id, name) DO UPDATE "
        "SET concurrency = excluded.concurrency, rate = excluded.rate",
        name,
        numbers.get("concurrency"),
        numbers.get("rate"),
        numbers.get("per_seconds", 1.0),
    )


async def node(connection: Connection) -> UUID:
    incarnation = uuid4()
    await connection.execute(
        "INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until) "
        "VALUES ($1, 'n', '1', 10, now(), now() + interval '1 hour')",
        incarnation,
    )
    return incarnation


class Asking:
    """A node that asks for one bucket."""

    def __init__(self, limits: PostgresLimits, incarnation: UUID, bucket: Bucket = BUCKET) -> None:
        self.limits = limits
        self.incarnation = incarnation
        self.bucket = bucket
        self.turn = 0

    async def __call__(
        self, kept: int = 0, wanted: int = 0, starts: int = 0, rate: int | None = None
    ) -> PermitGrant:
        self.turn += 1
        ask = Ask(self.bucket, kept, wanted, starts, rate=rate)
        (grant,) = await self.limits.exchange(self.incarnation, self.turn, [ask])
        return grant


async def test_permits_are_shared_and_never_more_than_there_are(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, concurrency=7)
    a, b, c = [Asking(limits, await node(connection)) for _ in range(3)]

    assert (await a(0, 100)).permits == 7
    assert (await b(0, 100)).permits == 0  # and waits
    # What may be in use, as far as the store knows, is not taken away. Less is asked for.
    told = await a(7, 100)
    assert (told.permits, told.allowed, told.contended) == (7, 4, True)
    assert (await a(4, 100)).permits == 4
    assert (await b(0, 100)).permits == 3
    assert (await c(0, 100)).permits == 0
    told = await a(4, 100)
    assert (told.permits, told.allowed) == (4, 2)
    assert (await a(2, 100)).permits == 2
    assert (await c(0, 100)).permits == 2
    assert await held(connection) == 7

    await limiter(connection, concurrency=2)  # changed while in use
    told = await b(3, 100)
    assert (told.permits, told.allowed) == (3, 0)


async def test_one_permit_goes_round_among_three(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, concurrency=1)
    asking = [Asking(limits, await node(connection)) for _ in range(3)]
    turns = []
    for _ in range(6):
        grants = [await each(0, 5) for each in asking]
        (holder,) = [i for i, grant in enumerate(grants) if grant.permits]
        turns.append(holder)
        assert await held(connection) == 1
        # It uses the permit all the time, for longer than a turn.
        await connection.execute(
            "UPDATE gnomon.limit_lease SET held_since = held_since - '2 s'::interval"
        )
        told = await asking[holder](1, 5)
        assert (told.permits, told.allowed) == (1, 0), "the turn is over"
        assert (await asking[holder](0, 5)).permits == 0
    assert sorted(turns[:3]) == [0, 1, 2]
    assert turns[:3] == turns[3:]


async def test_what_comes_late_changes_nothing(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, concurrency=7)
    me = await node(connection)
    await limits.exchange(me, 2, [Ask(BUCKET, 0, 5, 0)])
    assert await limits.exchange(me, 1, [Ask(BUCKET, 0, 1, 0)]) == []
    assert await held(connection) == 5


async def test_leases_of_the_dead_count_while_a_task_runs(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, concurrency=1)
    dead, other = await node(connection), Asking(limits, await node(connection))
    await limits.exchange(dead, 1, [Ask(BUCKET, 0, 1, 0)])
    key = await waiting_task(connection)
    assert await claim(connection, dead, key)
    await connection.execute("UPDATE gnomon.node SET dead = true WHERE incarnation = $1", dead)

    assert (await other(0, 1)).permits == 0
    await connection.execute("UPDATE gnomon.task SET state = 0, node = NULL")
    assert (await other(0, 1)).permits == 1


async def test_a_claim_that_is_not_committed_keeps_the_lease_of_the_dead(
    limits: PostgresLimits, connection: Connection, database: Database
) -> None:
    await limiter(connection, concurrency=1)
    dead, other = await node(connection), Asking(limits, await node(connection))
    await limits.exchange(dead, 1, [Ask(BUCKET, 0, 1, 0)])
    key = await waiting_task(connection)
    async with database.connection() as claiming:
        transaction = claiming.transaction()
        await transaction.start()
        assert await claim(claiming, dead, key)
        await connection.execute("UPDATE gnomon.node SET dead = true WHERE incarnation = $1", dead)
        assert (await other(0, 1)).permits == 0, "the claim may yet be committed"
        assert await limits.running(dead) is None
        await transaction.commit()
    assert (await other(0, 1)).permits == 0
    assert await limits.running(dead) == {key}
    assert not await claim(connection, dead, await waiting_task(connection)), "it is dead"


async def test_who_falls_silent_holding_its_node_holds_it_for_a_moment(
    connection: Connection,
) -> None:
    """Or nobody could declare a node dead that was stopped right there."""
    held, before = await node(connection), await connection.fetchval(SILENCE)
    async with connection.transaction():
        assert await connection.fetchrow(query("hold_node"), held) is not None
        setting = await connection.fetchval(SILENCE)
    assert setting == "5s"
    assert await connection.fetchval(SILENCE) == before != "5s"


def count(grant: PermitGrant) -> int:
    return sum(starts.count for starts in grant.starts)


async def test_starts_within_any_window(limits: PostgresLimits, connection: Connection) -> None:
    await limiter(connection, rate=10, per_seconds=60)
    a, b = [Asking(limits, await node(connection)) for _ in range(2)]
    granted = await a(starts=8)
    (given,) = granted.starts
    assert given.count == 8
    assert given.since == granted.now
    assert timedelta(seconds=3) <= given.until - granted.now <= timedelta(seconds=3.75)
    assert count(await b(starts=8)) == 2
    short = await a(starts=8)
    assert count(short) == 0
    assert short.again > 0
    # Returned unused, they are there for others; who has waited longest comes first.
    await limits.exchange(a.incarnation, 9, [Ask(BUCKET, 0, 0, 0, told=[Told(given.until, 6)])])
    assert count(await b(starts=8)) == 6
    assert count(await b(starts=1)) == 0


async def test_starts_count_until_the_last_could_be_used(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, rate=10, per_seconds=60)
    a = Asking(limits, await node(connection))
    assert count(await a(starts=10)) == 10
    await connection.execute("UPDATE gnomon.limit_window SET until = now() - interval '50 s'")
    assert count(await a(starts=10)) == 0
    await connection.execute("UPDATE gnomon.limit_window SET until = now() - interval '60 s'")
    assert count(await a(starts=10)) == 10


async def test_starts_are_granted_a_little_ahead(
    limits: PostgresLimits, connection: Connection
) -> None:
    """From when the ones before them leave the window, and not more than those."""
    await limiter(connection, rate=10, per_seconds=60)
    a, b = [Asking(limits, await node(connection)) for _ in range(2)]
    assert count(await a(starts=9)) == 9
    await connection.execute("UPDATE gnomon.limit_window SET until = now() - interval '59.5 s'")
    left = await connection.fetchval("SELECT until + interval '60 s' FROM gnomon.limit_window")
    granted = await b(starts=20)
    assert [(each.count, each.since) for each in granted.starts] == [(1, granted.now), (9, left)]
    assert count(await a(starts=20)) == 0


async def test_starts_are_good_for_as_long_as_they_must_be(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, rate=10, per_seconds=1)
    me = await node(connection)
    for turn, seconds in enumerate((0.0, 8.0), 1):
        (grant,) = await limits.exchange(me, turn, [Ask(BUCKET, 0, 0, 5, seconds)])
        good = (grant.starts[0].until - grant.now).total_seconds()
        assert max(1.0, seconds) <= good <= max(1.0, seconds) * 1.25


async def test_starts_that_were_made_count_from_then(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, rate=10, per_seconds=60)
    a = Asking(limits, await node(connection))
    (given,) = (await a(starts=10)).starts
    at = given.until - timedelta(seconds=2.2)
    told = [Told(given.until, 7, at), Told(given.until, 1), Told(given.until, 5)]
    await limits.exchange(a.incarnation, 9, [Ask(BUCKET, 0, 0, 0, told=told)])
    rows = await connection.fetch("SELECT until, starts FROM gnomon.limit_window ORDER BY until")
    (made, left) = [(row["until"], row["starts"]) for row in rows]
    assert left == (given.until, 2), "more than there were is not true of any"
    assert made[1] == 7
    assert at <= made[0] <= at + timedelta(seconds=60 / 128)


async def test_who_holds_hears_of_those_who_wait(
    limits: PostgresLimits, connection: Connection
) -> None:
    await limiter(connection, concurrency=1)
    a, b = [Asking(limits, await node(connection)) for _ in range(2)]
    await a(0, 1)
    assert await limits.wanted(a.incarnation) == []
    await b(0, 1)
    assert await limits.wanted(a.incarnation) == [BUCKET]
    assert await limits.wanted(b.incarnation) == []
    await connection.execute("UPDATE gnomon.limit_lease SET seen_at = now() - interval '3 s'")
    assert await limits.wanted(a.incarnation) == [], "it has not come for a while"


async def test_a_quota_is_a_limiter_without_a_row(
    limits: PostgresLimits, connection: Connection
) -> None:
    asking = Asking(limits, await node(connection), Bucket("default", "executions_per_minute"))
    assert count(await asking(starts=5, rate=3)) == 3
    assert count(await asking(starts=5, rate=3)) == 0
    assert count(await asking(starts=5, rate=4)) == 1


async def test_buckets_at_rest_are_removed(
    limits: PostgresLimits, connection: Connection, database: Database
) -> None:
    await limiter(connection, concurrency=7, rate=10)
    asking = Asking(limits, await node(connection))
    await asking(0, 3, 3)
    age = "UPDATE gnomon.limit_lease SET seen_at = now() - interval '2 hours'"
    chores = PostgresChores(database)
    assert (await chores.remove(RowKind.BUCKETS, 10, 7.0)).removed == 0
    await connection.execute(age)
    assert (await chores.remove(RowKind.BUCKETS, 10, 7.0)).removed == 0, "permits are held"
    await asking(0, 0)
    await connection.execute(age)
    await connection.execute("UPDATE gnomon.limit_window SET until = now() - interval '1 min'")
    assert (await chores.remove(RowKind.BUCKETS, 10, 7.0)).removed == 1
    assert (await asking(0, 3)).permits == 3


@pytest.mark.parametrize("seed", range(2))
async def test_any_order_of_commits(database_dsn: str, connection: Connection, seed: int) -> None:
    """Nodes that ask for permits, run tasks with them, lose answers, and die, all at once; after
    every commit no limit is exceeded."""
    opened = Database(database_dsn, 12)
    await opened.open()
    await limiter(connection, "few", concurrency=5)
    await limiter(connection, "one", concurrency=1)
    await limiter(connection, "none", concurrency=0)
    stop = asyncio.Event()
    chance = random.Random(seed)
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(_life(opened, random.Random(seed * 10 + number), stop))
            for _ in range(400):
                await asyncio.sleep(chance.random() / 200)
                rows = await connection.fetch(
                    "SELECT b.limiter, sum(l.permits) AS held, (SELECT count(*) FROM gnomon.task t "
                    "WHERE t.state = 1 AND t.limit_keys = b.limiter) AS running "
                    "FROM gnomon.limit_lease l JOIN gnomon.limit_bucket b ON b.id = l.bucket "
                    "GROUP BY b.limiter"
                )
                for name, total, running in rows:
                    assert total <= {"few": 5, "one": 1, "none": 0}[name]
                    assert running <= {"few": 5, "one": 1, "none": 0}[name]
            stop.set()
    finally:
        await opened.close()
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task_archive") > 50


async def _life(database: Database, chance: random.Random, stop: asyncio.Event) -> None:
    """Lives of one node, one after the other: it keeps to what it was told, and no more."""
    while not stop.is_set():
        async with database.connection() as connection:
            incarnation = await node(connection)
        await _Liver(database, chance, incarnation).live(stop)


class _Liver:
    def __init__(self, database: Database, chance: random.Random, incarnation: UUID) -> None:
        self._database = database
        self._limits = PostgresLimits(database)
        self._chance = chance
        self._me = incarnation
        self._turn = 0
        self._buckets = {n: Bucket("default", n) for n in ("few", "one", "none")}
        self._allowed = dict.fromkeys(self._buckets, 0)
        self._running: dict[str, list[TaskKey]] = {name: [] for name in self._buckets}

    async def live(self, stop: asyncio.Event) -> None:
        for _ in range(self._chance.randrange(5, 60)):
            if stop.is_set():
                break
            await self._chance.choice([self._exchange, self._exchange, self._start, self._end])()
        async with self._database.connection() as connection:
            await connection.execute(
                "UPDATE gnomon.node SET dead = true WHERE incarnation = $1", self._me
            )
            await asyncio.sleep(self._chance.random() / 50)
            await connection.execute(
                "UPDATE gnomon.task SET state = 0, node = NULL WHERE state = 1 AND node = $1",
                self._me,
            )

    async def _exchange(self) -> None:
        asks = []
        for name, bucket in self._buckets.items():
            used = len(self._running[name])
            wanted = used + self._chance.randrange(4)
            # Now and then it keeps what it does not use, as if more were to start meanwhile.
            kept = self._chance.randint(used, max(used, self._allowed[name]))
            self._allowed[name] = kept
            asks.append(Ask(bucket, kept, max(kept, wanted), 0))
        self._turn += 1
        call = self._limits.exchange(self._me, self._turn, asks)
        if self._chance.random() < 0.2:  # the answer is lost, or comes too late to be heard
            try:
                async with asyncio.timeout(self._chance.random() / 500):
                    await call
            except TimeoutError:
                pass
            return
        for grant in await call:
            self._allowed[grant.bucket.limiter] = grant.allowed

    async def _start(self) -> None:
        for name, running in self._running.items():
            if len(running) < self._allowed[name]:
                async with self._database.connection() as connection:
                    key = await waiting_task(connection, name)
                    if await claim(connection, self._me, key):
                        running.append(key)

    async def _end(self) -> None:
        for running in self._running.values():
            if running:
                key = running.pop()
                async with self._database.connection() as connection:
                    await connection.execute(
                        "WITH gone AS (DELETE FROM gnomon.task WHERE id = $1 RETURNING *) "
                        "INSERT INTO gnomon.task_archive (tenant_id, id, lane, state, delivery, "
                        "execute_at, finished_at, fence, attempt, timeout_seconds, task_type, "
                        "target) "
                        "SELECT tenant_id, id, lane, 10, delivery, execute_at, now(), fence, "
                        "attempt, timeout_seconds, task_type, target FROM gone",
                        key.id,
                    )


async def held(connection: Connection) -> int:
    total: int = await connection.fetchval("SELECT sum(permits) FROM gnomon.limit_lease")
    return total


async def waiting_task(connection: Connection, limiter: str | None = None) -> TaskKey:
    """A task whose `limit_keys` say which limiter it is about."""
    task_id = new_id(SystemClock().now())
    await connection.execute(
        "INSERT INTO gnomon.task (tenant_id, id, task_type, target, limit_keys) "
        "VALUES ('default', $1, 't', '{}', $2)",
        task_id,
        limiter,
    )
    return TaskKey("default", task_id)


async def claim(connection: Connection, incarnation: UUID, key: TaskKey) -> bool:
    rows = await connection.fetch(
        query("claim"), incarnation, ["default"], [key.id], 30.0, False, [], 0.0
    )
    return bool(rows)
