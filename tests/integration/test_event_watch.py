"""Conditions are told when they begin and when they are over, each once, whoever looks."""

from collections import Counter, deque
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.support import Connection, database_now, joined

from gnomon.clock import SystemClock, new_id, new_incarnation
from gnomon.model.errors import StoreError
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.model.tasks.task import TaskKey
from gnomon.node.maintenance import event_watch
from gnomon.node.maintenance.event_watch import EventWatch
from gnomon.node.maintenance.quarantine_alarm import QuarantineAlarm
from gnomon.node.maintenance.usage_recorder import UsageRecorder
from gnomon.node.membership.lease import Lease
from gnomon.node.run.quarantine.pool import Killer
from gnomon.store.ports.insight.events import Condition, EventRecord
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events import looks
from gnomon.store.postgres.events.event_log import PostgresEventLog
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.events.looks import PostgresLooks

_ACTIVITY = """
INSERT INTO gnomon.activity
SELECT $3, 1, $1, date_trunc('minute', gnomon.now()), 2, 0, $2, 0, $2, 0, 1, '{}'
ON CONFLICT (tenant_id, span, task_type, starts_at, lane) DO UPDATE SET failed = excluded.failed
"""
_STARVING = """
WITH bucket AS (
    INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key) VALUES ('acme', 'bank', '')
    RETURNING id
)
INSERT INTO gnomon.limit_lease (bucket, node, turn, permits, seen_at, permits_since)
SELECT id, $1, 1, 0, gnomon.now(), gnomon.now() - interval '1 hour' FROM bucket
"""

# The last is of another tenant, and has waited for less time.
_STARVING_MANY = """
WITH bucket AS (
    INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
    SELECT CASE WHEN n = $1::integer THEN 'zeta' ELSE 'acme' END, 'limiter' || n, ''
    FROM generate_series(1, $1::integer) AS n
    RETURNING id, tenant_id
)
INSERT INTO gnomon.limit_lease (bucket, node, turn, permits, seen_at, permits_since)
SELECT id, $2, 1, 0, gnomon.now(), gnomon.now()
    - CASE WHEN tenant_id = 'zeta' THEN interval '20 minutes' ELSE interval '1 hour' END
FROM bucket
"""


async def storm(
    connection: Connection, task_type: str, retries: int, tenant_id: str = "acme"
) -> None:
    await connection.execute(_ACTIVITY, task_type, retries, tenant_id)


def watch(database: Database, quotas: Quotas | None = None) -> EventWatch:
    clock = SystemClock()
    return EventWatch(
        PostgresLooks(database, clock),
        PostgresEventWriter(database),
        PostgresChores(database, clock),
        Lease(new_incarnation(), 10.0),
        lambda _tenant: quotas or Quotas(),
        clock,
    )


async def told(database: Database) -> list[EventRecord]:
    return list((await PostgresEventLog(database).read(0, 100)).events)


def kinds_of(events: list[EventRecord]) -> list[str]:
    return [event.kind for event in events]


async def test_a_condition_is_told_twice_at_its_ends(database: Database) -> None:
    writer = PostgresEventWriter(database)

    def condition(key: str, **detail: Any) -> Condition:
        return Condition(
            kind="tasks.retry_storm", tenant_id="acme", key=key, detail={"task_type": key, **detail}
        )

    kinds = ["tasks.retry_storm"]
    assert await writer.conditions(kinds, [condition("a"), condition("b")]) == (2, 0)
    assert await writer.conditions(kinds, [condition("a", retries=9), condition("b")]) == (0, 0)
    assert await writer.conditions(["node.lost"], []) == (0, 0), "of another kind"
    assert await writer.conditions(kinds, [condition("b")]) == (0, 1)
    *both, over = await told(database)
    begun, other = sorted(both, key=lambda event: str(event.task_type))  # of one moment
    assert kinds_of([begun, over]) == ["tasks.retry_storm", "tasks.retry_storm.resolved"]
    assert begun.fingerprint == over.fingerprint != other.fingerprint
    assert over.is_end
    assert over.fields["task_type"] == "a"
    assert over.fields["seconds"] >= 0


async def test_a_storm_of_retries_begins_and_ends(
    database: Database, connection: Connection
) -> None:
    look = watch(database)
    await storm(connection, "mail", 120)
    await storm(connection, "bill", 99)
    await look.run_once()
    await storm(connection, "mail", 60)
    await look.run_once()
    (event,) = await told(database)
    assert (event.tenant_id, event.task_type, event.fields["retries"]) == ("acme", "mail", 120)
    await storm(connection, "mail", 0)
    await look.run_once()
    assert kinds_of(await told(database))[1:] == ["tasks.retry_storm.resolved"]


async def test_a_node_that_is_lost_is_told_and_one_that_leaves_is_not(
    database: Database, connection: Connection
) -> None:
    look = watch(database)
    lost, left = await joined(database, "lost"), await joined(database, "left")
    await connection.execute("UPDATE gnomon.node SET dead = true, ended_at = gnomon.now()")
    await connection.execute(
        "UPDATE gnomon.node SET alive_until = ended_at - interval '1 s' WHERE incarnation = $1",
        lost,
    )
    assert left != lost
    await look.run_once()
    await look.run_once()
    events = await told(database)
    assert sorted(kinds_of(events)) == ["node.joined", "node.joined", "node.lost"]
    (about,) = [event for event in events if event.kind == "node.lost"]
    assert about.fields["node"] == "lost"
    assert about.tenant_id == INSTALLATION
    await joined(database, "lost")
    await look.run_once()
    assert "node.lost.resolved" in kinds_of(await told(database))


async def test_quotas_limiters_room_and_chores_are_looked_at(
    database: Database, connection: Connection
) -> None:
    await connection.execute(_STARVING, new_incarnation())
    await connection.execute(
        "INSERT INTO gnomon.tenant_storage (tenant_id, bytes) VALUES ('acme', 9)"
    )
    await connection.execute(
        "INSERT INTO gnomon.tenant_room (tenant_id, slot, quota, counted_at, distrusted_until)"
        " VALUES ('acme', 0, 5, gnomon.now(), gnomon.now())"
    )
    await connection.execute(
        "UPDATE gnomon.revision SET full_until = gnomon.now() + interval '1 h', full_why = 'full'"
    )
    await connection.execute(
        "INSERT INTO gnomon.trouble VALUES ('p', 'plan', '', '', 'n', NULL, 'e', 'r',"
        " now() - interval '1 h', now(), 9, now(), now() + interval '1 h')"
    )
    await watch(database, Quotas(stored_bytes=9)).run_once()
    events = await told(database)
    assert sorted(kinds_of(events)) == [
        "chore.failing", "database.full", "limiter.starving", "quota.reached", "quota.reached",
    ]  # fmt: skip
    assert {e.fields["quota"] for e in events if e.kind == "quota.reached"} == {
        "scheduled_tasks", "stored_bytes",
    }  # fmt: skip


async def test_missing_partitions_are_told(database: Database, connection: Connection) -> None:
    tomorrow = (await database_now(connection) + timedelta(days=1)).strftime("%Y%m%d")
    name = await connection.fetchval(
        "SELECT relname FROM pg_class WHERE relname LIKE 'occurrence\\_%' || $1", tomorrow
    )
    await connection.execute(f"DROP TABLE gnomon.{name}")
    await watch(database).run_once()
    (event,) = await told(database)
    assert event.kind == "partitions.missing"
    assert event.fields["tables"] == ["occurrence"]


async def test_another_server_is_told_once(database: Database) -> None:
    first, second = watch(database), watch(database)
    now = SystemClock().now()
    for look in (first, second):
        await look._tell_changed(1, 1, now - timedelta(hours=1))
        await look._tell_changed(1, 2, now)
        await look._tell_changed(1, 2, now)
    (event,) = await told(database)
    assert event.kind == "database.changed"
    assert event.fields["what"] == "failed_over"


async def test_usage_is_recorded_once_an_hour(database: Database, connection: Connection) -> None:
    clock = SystemClock()
    hour = clock.now().replace(minute=0, second=0, microsecond=0)
    day = (hour - timedelta(microseconds=1)).date()
    await connection.execute(
        "INSERT INTO gnomon.usage (tenant_id, day, session, submissions, executions)"
        " VALUES ('acme', $1, 1, 3, 4), ('acme', $1, 2, 5, 6), ('other', $1, 1, 1, 1)",
        day,
    )

    async def recorded() -> int:
        recorder = UsageRecorder(
            PostgresLooks(database, clock),
            PostgresEventWriter(database),
            PostgresChores(database, clock),
            Lease(new_incarnation(), 10.0),
            clock,
        )
        return await recorder.run_once()

    assert await recorded() == 2
    await connection.execute("UPDATE gnomon.usage SET submissions = 100")
    await connection.execute("DELETE FROM gnomon.chore")
    assert await recorded() == 0, "the hour has its reading"
    reading, _ = await told(database)
    assert reading.tenant_id == "acme"
    assert (reading.fields["submissions"], reading.fields["executions"]) == (8, 10)


async def test_a_look_that_fails_in_any_way_keeps_no_other_from_being_told(
    database: Database, connection: Connection
) -> None:
    # A year that the driver cannot hold.
    await connection.execute(_STARVING, await joined(database))
    await connection.execute("UPDATE gnomon.limit_lease SET permits_since = '0001-01-01 BC'")
    with pytest.raises(StoreError, match="out of range"):
        await watch(database).run_once()
    assert "node.joined" in kinds_of(await told(database))


async def test_a_task_that_killed_its_process_is_told(
    database: Database, connection: Connection
) -> None:
    clock = SystemClock()
    task_id = new_id(clock.now())
    killers = deque([Killer(TaskKey("acme", task_id), "crunch", "signal 9 (SIGKILL)")])
    alarm = QuarantineAlarm(killers, PostgresEventWriter(database), clock)
    await connection.execute("ALTER TABLE gnomon.event RENAME TO elsewhere")
    with pytest.raises(StoreError):
        await alarm.run_once()
    await connection.execute("ALTER TABLE gnomon.elsewhere RENAME TO event")
    assert await alarm.run_once() == 1
    assert await alarm.run_once() == 0
    (event,) = await told(database)
    assert (event.kind, event.tenant_id, event.task_id) == ("task.quarantined", "acme", task_id)
    assert event.fields == {"task_type": "crunch", "how": "signal 9 (SIGKILL)"}


async def test_what_was_cut_off_by_others_is_not_over(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (event_watch, looks):
        monkeypatch.setattr(module, "MOST_FOUND", 2)
    for name in ("a", "b"):
        await storm(connection, name, 200)
    one = watch(database)
    assert await one.run_once()
    for name in ("c", "d"):
        await storm(connection, name, 900, tenant_id=name)
    assert await one.run_once()
    found = kinds_of(await told(database))
    assert found.count("tasks.retry_storm") == 4
    assert "tasks.retry_storm.resolved" not in found


async def test_one_tenant_with_many_storms_hides_no_other(
    database: Database, connection: Connection
) -> None:
    for number in range(looks.MOST_FOUND + 50):
        await storm(connection, f"type{number}", 1_000 + number)
    await storm(connection, "mail", 100, tenant_id="zeta")
    one = watch(database)
    await one.run_once()
    for number in range(looks.MOST_FOUND):  # which others now exceed by far
        await storm(connection, f"type{number}", 5_000)
    await one.run_once()
    events = (await PostgresEventLog(database).read(0, 1_000)).events
    begun = Counter(event.tenant_id for event in events if event.kind == "tasks.retry_storm")
    assert begun == {"acme": looks.MOST_OF_TENANT, "zeta": 1}
    assert "tasks.retry_storm.resolved" not in kinds_of(list(events))


async def test_one_tenant_with_many_starving_limiters_hides_no_other(
    database: Database, connection: Connection
) -> None:
    await connection.execute(_STARVING_MANY, looks.MOST_FOUND + 50, await joined(database))
    one = watch(database)
    await one.run_once()
    await one.run_once()
    events = (await PostgresEventLog(database).read(0, 1_000)).events
    begun = Counter(event.tenant_id for event in events if event.kind == "limiter.starving")
    assert begun == {"acme": looks.MOST_OF_TENANT, "zeta": 1}
