"""Rows past their time are removed as fast as they come, in short transactions."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.conftest import connected
from tests.integration.support import Connection, database_now, joined, store, submission
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_incarnation
from gnomon.model.fleet.retention import RowKind
from gnomon.model.ids import lowest_id
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.node.maintenance.pruner import Pruner
from gnomon.node.maintenance.retention_alarm import RetentionAlarm
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import Event, RetentionSeen
from gnomon.settings import DatabaseSettings
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.retention.partitions import partition_name

# Longer, by hand: GNOMON_RETENTION_SECONDS=30 pytest -s tests/integration/test_retention.py
SECONDS = float(os.environ.get("GNOMON_RETENTION_SECONDS", "2"))

KEYS = """
INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at)
SELECT 'default', $1 || '-' || n, '\\x00', '{}', gnomon.now() + make_interval(secs => $3)
FROM generate_series(1, $2::integer) AS n
"""
EVENTS = """
INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
SELECT 't' || n % 40, overlay($1::uuid::text placing lpad(to_hex(n), 12, '0') from 25)::uuid,
    'kind', gnomon.now(), '{}'
FROM generate_series(1, $2::integer) AS n
"""
BUCKETS = """
INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
SELECT 'default', 'l', n::text FROM generate_series(1, $1::integer) AS n
"""


class Pruning:
    """A pruner, and what it told."""

    def __init__(self, database: Database, retention_days: float = 7.0) -> None:
        self.told: list[Event] = []
        self.alarm = RetentionAlarm(PostgresEventWriter(database), self.told.append)
        self.pruner = Pruner(
            PostgresChores(database),
            Lease(new_incarnation(), 10.0),
            DatabaseSettings(retention_days=retention_days),
            SystemClock(),
            Troubles(SystemClock(), self.told.append),
            self.alarm,
        )


@pytest.fixture
async def looker(database_dsn: str) -> AsyncIterator[Connection]:
    opened = await connected(database_dsn)
    yield opened
    await opened.close()


async def count(connection: Connection, table: str) -> int:
    found: int = await connection.fetchval(f"SELECT count(*) FROM gnomon.{table}")
    return found


async def test_one_pass_removes_all_that_is_past_its_time(
    database: Database, connection: Connection
) -> None:
    """However much it is: 10 000 a minute are not enough."""
    now = await database_now(connection)
    old = lowest_id(now - timedelta(days=8))
    await connection.execute(KEYS, "old", 25_000, -1.0)
    await connection.execute(KEYS, "young", 10, 60.0)
    await connection.execute(EVENTS, old, 15_000)
    await connection.execute(EVENTS, lowest_id(now), 40)
    await connection.execute(BUCKETS, 12_000)
    pruning = Pruning(database)
    result = await pruning.pruner.run_once()
    assert result.removed == 25_000 + 15_000 + 12_000
    assert not result.behind
    assert await count(connection, "idempotency") == 10
    assert await count(connection, "event") == 40
    assert await count(connection, "limit_bucket") == 0
    assert {(e.kind, e.behind_seconds) for e in pruning.told if isinstance(e, RetentionSeen)} == {
        (kind, 0.0) for kind in RowKind
    }


async def test_buckets_in_use_do_not_hide_those_at_rest(
    database: Database, connection: Connection
) -> None:
    await connection.execute(BUCKETS, 3_000)
    await connection.execute(
        """
        INSERT INTO gnomon.limit_lease (bucket, node, turn, permits, seen_at)
        SELECT id, gen_random_uuid(), 1, 0, gnomon.now() FROM gnomon.limit_bucket
        ORDER BY id LIMIT 2500
        """
    )
    assert (await Pruning(database).pruner.run_once()).removed == 500
    assert await count(connection, "limit_bucket") == 2500


async def test_a_dead_node_is_kept_for_a_day_and_while_a_task_is_its_own(
    database: Database, connection: Connection
) -> None:
    """A task that runs is swept by what its node's row says."""
    nodes = {name: await joined(database, name) for name in ("gone", "busy", "late", "alive")}
    now = await database_now(connection)
    dispatch = PostgresDispatch(database, 10.0)
    for name in ("busy", "alive"):
        keys = await store(database, submission(now))
        assert (await dispatch.claim(nodes[name], keys)).deliveries
    await connection.execute(
        """
        UPDATE gnomon.node
        SET dead = true,
            ended_at = gnomon.now() - interval '1h' * CASE name WHEN 'late' THEN 23 ELSE 25 END
        WHERE name <> 'alive'
        """
    )
    await Pruning(database).pruner.run_once()
    left = await connection.fetch("SELECT name FROM gnomon.node")
    assert {row["name"] for row in left} == {"busy", "late", "alive"}


async def test_a_session_that_ended_is_kept_for_a_minute(
    database: Database, connection: Connection
) -> None:
    """Workers come and go, and every sweep looks at each dead one."""
    for name in ("gone", "late", "alive"):
        await joined(database, name)
    await connection.execute(
        """
        UPDATE gnomon.node
        SET kind = 2, dead = name <> 'alive',
            ended_at = gnomon.now() - interval '1s' * CASE name WHEN 'late' THEN 30 ELSE 90 END
        """
    )
    await Pruning(database).pruner.run_once()
    left = await connection.fetch("SELECT name FROM gnomon.node")
    assert {row["name"] for row in left} == {"late", "alive"}


async def test_a_row_that_somebody_holds_is_left_for_a_later_pass(
    database: Database, connection: Connection, looker: Connection
) -> None:
    await connection.execute(KEYS, "old", 1000, -1.0)
    pruning = Pruning(database)
    async with connection.transaction():
        await connection.execute("SELECT FROM gnomon.idempotency WHERE key = 'old-7' FOR UPDATE")
        async with asyncio.timeout(20):
            assert (await pruning.pruner.run_once()).removed == 999
    assert await count(looker, "idempotency") == 1

    async def removed() -> bool:
        return (await pruning.pruner.run_once()).removed == 1

    await eventually(removed)


async def test_removal_keeps_pace_with_what_is_fed(
    database: Database, connection: Connection, looker: Connection
) -> None:
    """Also while an old reader keeps the dead rows from being cleaned up."""
    pruning = Pruning(database)
    fed, most, removed = 0, 0, 0
    async with looker.transaction(isolation="repeatable_read"):
        await count(looker, "idempotency")
        clock = SystemClock()
        began = clock.monotonic()

        async def feed() -> None:
            nonlocal fed
            while clock.monotonic() < began + SECONDS:
                await connection.execute(KEYS, f"k{fed}", 1000, 0.1)
                fed += 1000

        feeding = asyncio.create_task(feed())
        while not feeding.done():
            result = await pruning.pruner.run_once()
            removed += result.removed
            most = max(most, fed - removed)
            assert not result.behind
        took = clock.monotonic() - began
        await feeding
    print(f"fed {fed / took:,.0f} keys a second for {took:.1f} s; at most {most:,} were left")

    async def drained() -> bool:
        nonlocal removed
        removed += (await pruning.pruner.run_once()).removed
        return removed == fed

    await eventually(drained)
    assert await count(connection, "idempotency") == 0


async def test_a_pruner_that_cannot_keep_pace_says_so(
    database: Database, connection: Connection
) -> None:
    await connection.execute(KEYS, "old", 5_000, -1.0)
    pruning = Pruning(database)
    pruning.pruner.pass_seconds = 0.0  # time for one batch of each kind
    result = await pruning.pruner.run_once()
    assert result.behind == {RowKind.KEYS}
    seen = {e.kind: e for e in pruning.told if isinstance(e, RetentionSeen)}
    assert seen[RowKind.KEYS].behind_seconds > 0
    assert seen[RowKind.EVENTS].behind_seconds == 0


async def test_operators_are_told_that_it_is_behind_and_when_that_is_over(
    database: Database, connection: Connection
) -> None:
    async def told() -> list[str]:
        events = (await PostgresEventLog(database).read(0, 100)).events
        assert all(event.tenant_id == INSTALLATION for event in events)
        return [f"{event.kind} {event.fields['rows']}" for event in events]

    await connection.execute(KEYS, "old", 20_000, -1.0)
    pruning = Pruning(database)
    first = pruning.pruner
    first.pass_seconds = 0.0
    await first.run_once()
    assert await told() == []  # it may catch up
    pruning.alarm.behind_seconds = 0.0
    await first.run_once()
    await first.run_once()
    assert await told() == ["retention.behind keys"]
    await connection.execute(KEYS, "more", 10_000, -1.0)
    await connection.execute("UPDATE gnomon.chore SET held_until = '-infinity'")
    second = Pruning(database).pruner  # which does not know for how long it has been so
    second.pass_seconds = 0.0
    assert (await second.run_once()).behind == {RowKind.KEYS}
    assert await told() == ["retention.behind keys"]
    second.pass_seconds = 60.0
    await second.run_once()
    assert await told() == ["retention.behind keys", "retention.behind.resolved keys"]


async def test_rows_that_cannot_be_removed_keep_nothing_else_waiting(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await connection.execute(KEYS, "old", 10, -1.0)
    await connection.execute(EVENTS, lowest_id(now - timedelta(days=8)), 10)
    later = partition_name("execution", now.date() + timedelta(days=5))
    await connection.execute(f"DROP TABLE gnomon.{later}")
    await connection.execute(
        """
        CREATE FUNCTION gnomon.refuse() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '22P05'; END $$;
        CREATE TRIGGER refuse BEFORE DELETE ON gnomon.idempotency
            FOR EACH ROW EXECUTE FUNCTION gnomon.refuse()
        """
    )
    pruning = Pruning(database)
    result = await pruning.pruner.run_once()
    assert result.behind == {RowKind.KEYS}
    assert await count(connection, "event") == 0
    assert await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"gnomon.{later}")
