"""Each metric of a node moves when its thing happens."""

import msgspec
from tests.integration.cron_support import created
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, end_of, joined, store, submission
from tests.scrapes import Samples, samples_at
from tests.waiting import eventually

from gnomon.clock import new_incarnation
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.overview.overview import PostgresOverview

AT_ONCE = RetryPolicy(max_retries=1, base_seconds=0.0, jitter=False)


async def test_executions_are_counted_by_their_end_and_by_who_is_to_blame(
    database: Database, database_dsn: str, connection: Connection, unused_tcp_port: int
) -> None:
    now = await database_now(connection)
    tasks = [
        *(call_of(now, "echo", task_type="good")[1] for _ in range(3)),
        call_of(now, "reject", task_type="bad")[1],
        call_of(now, "fail_with_a_nul", task_type="again", retry_policy=AT_ONCE)[1],
    ]
    async with running_node(database_dsn, output_metrics_port=unused_tcp_port):
        for key in await store(database, *tasks):
            await end_of(connection, key)
        payload = msgspec.Raw(b'{"who": "test_node_metrics"}')
        await created(database, target=PythonTarget("echo"), payload_template=payload)

        async def runs() -> Samples | None:
            found = await samples_at(unused_tcp_port)
            done = found.of("gnomon_tasks_completed_total", kind="recurring")
            return found if done and found.of("gnomon_slots") else None

        found = await eventually(runs)
    one = {"kind": "one_time", "lane": "MEDIUM"}
    assert found.of("gnomon_executions_started_total", **one) == 6
    assert found.of("gnomon_start_delay_seconds_count", **one) == 6
    assert found.of("gnomon_run_seconds_count", **one) == 6
    assert found.of("gnomon_executions_ended_total", outcome="succeeded", **one) == 3
    assert found.of("gnomon_executions_ended_total", outcome="failed", **one) == 3
    assert found.of("gnomon_tasks_completed_total", **one) == 3
    assert found.of("gnomon_retries_total", **one) == 1
    assert found.of("gnomon_dead_letters_total", **one) == 2
    assert found.of("gnomon_failures_total", fault="receiver") == 3
    assert found.of("gnomon_failures_total", fault="gnomon") == 0
    assert found.of("gnomon_type_executions_total", task_type="good") == 3
    assert found.of("gnomon_claim_batch_tasks_sum") >= 6
    assert found.of("gnomon_settle_batch_tasks_sum") >= 6
    assert found.of("gnomon_claim_seconds_count") > 0
    assert found.of("gnomon_settle_seconds_sum") > 0
    assert found.of("gnomon_lease_renewals_total", result="failed") == 0
    assert (found.of("gnomon_slots"), found.of("gnomon_shards")) == (20, 256)
    assert found.of("gnomon_database_connections", state="limit") == 4


async def test_tasks_of_a_lost_node_are_recoveries_and_nobody_elses_fault(
    database: Database, database_dsn: str, connection: Connection, unused_tcp_port: int
) -> None:
    now = await database_now(connection)
    _, task = call_of(now, "echo")
    (key,) = await store(database, task)
    lost = new_incarnation()
    await connection.execute(
        """
        INSERT INTO gnomon.node
            (incarnation, name, version, slots, started_at, alive_until, dead, ended_at)
        VALUES ($1, 'lost', '', 1, $2, $2::timestamptz - interval '7 s', true, $2)
        """,
        lost,
        now,
    )
    await connection.execute(
        "UPDATE gnomon.task SET state = 1, fence = 1, attempt = 1, node = $2, started_at = $3, "
        "run_until = 'infinity' WHERE id = $1",
        key.id,
        lost,
        now,
    )
    async with running_node(database_dsn, output_metrics_port=unused_tcp_port):
        await end_of(connection, key)

        async def recovered() -> Samples | None:
            found = await samples_at(unused_tcp_port)
            return found if found.of("gnomon_recoveries_total", reason="node_lost") else None

        found = await eventually(recovered)
    assert found.of("gnomon_failures_total", fault="gnomon") == 1
    assert found.of("gnomon_executions_ended_total", outcome="lost") == 1
    assert found.of("gnomon_recovery_seconds_count") == 1
    assert found.of("gnomon_recovery_seconds_sum") >= 7


async def test_one_node_tells_of_the_whole_installation(
    database: Database, database_dsn: str, connection: Connection, unused_tcp_port: int
) -> None:
    now = await database_now(connection)
    _, dead = call_of(now, "reject")
    await store(database, submission(now, 3600.0), submission(now, 3600.0))
    async with running_node(database_dsn, output_metrics_port=unused_tcp_port) as node:
        (key,) = await store(database, dead)
        await end_of(connection, key)

        async def looked() -> Samples | None:
            found = await samples_at(unused_tcp_port)
            return (
                found if "gnomon_installation_looked_timestamp_seconds" in found.names() else None
            )

        found = await eventually(looked)
        assert not node.task.done()
    assert found.of("gnomon_tasks", state="scheduled") == 2
    assert {"gnomon_oldest_due_seconds", "gnomon_hottest_shard_ratio"} <= found.names()
    assert found.of("gnomon_partitions_ahead_days") >= 8
    assert (
        found.of("gnomon_batches", state="open") == found.of("gnomon_batches", state="ended") == 0
    )
    assert found.of("gnomon_database_bytes") > 1_000_000
    assert {"gnomon_limiter_use_ratio", "gnomon_limiters_full"} <= found.names()
    assert "gnomon_replication_lag_seconds" not in found.names(), "there is no standby"


async def test_what_waits_runs_and_died_is_counted_within_bounds(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    keys = await store(
        database,
        *(submission(now) for _ in range(3)),
        submission(now, 60.0),
        *(submission(now) for _ in range(3)),
    )
    ids = [key.id for key in keys]
    await connection.execute(
        "UPDATE gnomon.task SET due_at = due_at - interval '60 s' WHERE id = ANY ($1)", ids[:3]
    )
    node = await joined(database)
    await connection.execute(
        "UPDATE gnomon.task SET state = 1, node = $2 WHERE id = $1", ids[4], node
    )
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = ANY ($1)", ids[5:])
    chores = PostgresChores(database)
    await chores.hold("held", node, 60.0)
    await chores.hold("given up", node, -100.0)
    overview = await PostgresOverview(database, ("held", "given up", "never")).look()
    assert overview.missing == {}
    assert (overview.ready, overview.scheduled, overview.running, overview.dead) == (3, 1, 1, 2)
    assert overview.oldest_due is not None
    assert 60 <= overview.oldest_due[Lane.MEDIUM] < 120
    assert overview.oldest_due[Lane.LOW] == 0
    assert overview.chores_unheld is not None
    assert overview.chores_unheld.keys() == {"held", "given up"}
    assert overview.chores_unheld["held"] == 0
    assert overview.chores_unheld["given up"] >= 100
    assert overview.replication_lag is None


async def test_limiters_tell_how_much_of_them_is_used(
    database: Database, connection: Connection
) -> None:
    await connection.execute(
        """
        INSERT INTO gnomon.limiter (tenant_id, name, concurrency, rate, per_seconds)
        VALUES ('default', 'four', 4, NULL, 1), ('default', 'paced', NULL, 10, 60)
        """
    )
    await connection.execute(
        """
        WITH bucket AS (
            INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
            VALUES ('default', 'four', 'a'), ('default', 'four', 'b'), ('default', 'paced', '')
            RETURNING id, limiter, key
        ), held AS (
            INSERT INTO gnomon.limit_lease (bucket, node, turn, permits, seen_at)
            SELECT id, gen_random_uuid(), 1, CASE key WHEN 'a' THEN 4 ELSE 1 END, gnomon.now()
            FROM bucket WHERE limiter = 'four'
        )
        INSERT INTO gnomon.limit_window (bucket, until, starts)
        SELECT id, gnomon.now(), 5 FROM bucket WHERE limiter = 'paced'
        """
    )
    overview = await PostgresOverview(database, ()).look()
    await connection.execute("DELETE FROM gnomon.limit_bucket")
    assert overview.missing == {}
    assert (overview.limiter_use, overview.limiters_full) == (1.0, 1)
