"""The commands that work on the database: `migrate`, `scheduler`, `doctor`."""

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.commands import Finished, gnomon, running
from tests.conftest import connected
from tests.integration.old_database import migrate_as_before
from tests.waiting import eventually

from gnomon.model.fleet.pool import Pool
from gnomon.model.tasks.priority import Lane
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.ports.roster import NodeRecord
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.retention.partitions import partition_name

NODE = UUID(int=7)


def applied(done: Finished) -> set[bool]:
    assert done.code == 0, done.err
    return {step["applied"] for step in done.json["migrations"]}


def checks_of(done: Finished) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in done.json["checks"]}


def test_migrations_go_up_and_down(empty_dsn: str, tmp_path: Path) -> None:
    env = {"DATABASE_URL": empty_dsn}
    assert applied(gnomon("migrate", "status", "--json", cwd=tmp_path, env=env)) == {False}

    first = gnomon("migrate", cwd=tmp_path, env=env)
    assert first.out.startswith("applied 0018 baseline\n")
    again = gnomon("migrate", "up", cwd=tmp_path, env=env)
    assert again.out == "the schema is up to date\n"
    assert applied(gnomon("migrate", "status", "--json", cwd=tmp_path, env=env)) == {True}

    refused = gnomon("migrate", "down", "--to", "0", cwd=tmp_path, env=env, stdin="n\n")
    assert refused.code == 1
    assert applied(gnomon("migrate", "status", "--json", cwd=tmp_path, env=env)) == {True}

    undone = gnomon("migrate", "down", "--to", "0", "--yes", cwd=tmp_path, env=env)
    assert undone.out.splitlines()[-1] == "undid 0018 baseline"
    assert applied(gnomon("migrate", "status", "--json", cwd=tmp_path, env=env)) == {False}


def test_the_embedded_server_is_started_for_a_migration(tmp_path: Path) -> None:
    data = tmp_path / ".gnomon"
    with EmbeddedServer(data, settings_overrides={"fsync": "off"}):
        pass
    # What a killed owner leaves behind must not be believed.
    (data / "postgres.dsn").write_text("postgresql://postgres@127.0.0.1:1/postgres\n")

    assert gnomon("migrate", cwd=tmp_path).out.startswith("applied 0018 ")
    assert not (data / "postgres.dsn").exists()


async def test_an_edited_migration_stops_every_process(
    database_dsn: str, connection: Any, tmp_path: Path
) -> None:
    env = {"DATABASE_URL": database_dsn}
    await connection.execute("UPDATE gnomon.migration SET checksum = 'other' WHERE version = 18")
    for command in (("migrate",), ("api", "--port", "0"), ("scheduler",), ("up", "--port", "0")):
        refused = gnomon(*command, cwd=tmp_path, env=env)
        assert refused.code == 1
        assert "migration 0018 baseline was edited" in refused.err
        assert "gnomon migrate accept 18" in refused.err
    told = gnomon("migrate", "status", cwd=tmp_path, env=env)
    assert re.search(r"0018 +baseline +edited since", told.out)
    check = checks_of(gnomon("doctor", "--json", cwd=tmp_path, env=env))["migrations"]
    assert not check["ok"]
    assert "0018 baseline" in check["detail"]
    assert "gnomon migrate accept 18" in check["remedy"]

    done = gnomon("migrate", "accept", "18", "--yes", cwd=tmp_path, env=env)
    assert done.out == "accepted 0018 baseline\n"
    assert gnomon("migrate", cwd=tmp_path, env=env).out == "the schema is up to date\n"


async def test_a_newer_schema_is_refused(
    database_dsn: str, connection: Any, tmp_path: Path
) -> None:
    await connection.execute("INSERT INTO gnomon.migration VALUES (9999, 'tomorrow')")
    done = gnomon("migrate", cwd=tmp_path, env={"DATABASE_URL": database_dsn})
    assert done.code == 1
    assert "migration 9999, which this release does not know" in done.err


async def test_a_database_of_a_release_before_the_baseline_is_told_what_to_do(
    empty_dsn: str, tmp_path: Path
) -> None:
    env = {"DATABASE_URL": empty_dsn}
    connection = await connected(empty_dsn)
    await migrate_as_before(connection, 12)
    await connection.close()
    for command in (("migrate",), ("api", "--port", "0"), ("scheduler",), ("up", "--port", "0")):
        refused = gnomon(*command, cwd=tmp_path, env=env)
        assert refused.code == 1
        assert "the database is at migration 12" in refused.err
        assert "git checkout 37322fc" in refused.err
    assert "git checkout 37322fc" in gnomon("migrate", "status", cwd=tmp_path, env=env).err
    check = checks_of(gnomon("doctor", "--json", cwd=tmp_path, env=env))["migrations"]
    assert "git checkout 37322fc" in check["remedy"]


async def test_the_doctor_finds_what_is_wrong(
    database_dsn: str, connection: Any, tmp_path: Path, unused_tcp_port: int
) -> None:
    today = (await connection.fetchval("SELECT gnomon.now()")).date()
    tomorrow = partition_name("execution", today + timedelta(days=1))
    await connection.execute(f"DROP TABLE gnomon.{tomorrow}")
    await connection.execute(
        """
        INSERT INTO gnomon.task (tenant_id, id, task_type, target, due_at)
        VALUES ('default', uuidv7(), 'x', '{}', gnomon.now() - interval '2 hours'),
               ('default', uuidv7(), 'x', '{}', gnomon.now() + interval '2 hours')
        """
    )
    await connection.execute(
        """
        INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at)
        VALUES ('default', 'k', '', '{}', gnomon.now() - interval '1 hour')
        """
    )
    env = {
        "DATABASE_URL": database_dsn,
        "GNOMON_NODE_SLOTTS": "5",
        "GNOMON_API_CONNECTIONS": "1000000000",
        "GNOMON_API_PORT": str(unused_tcp_port),
    }
    done = gnomon("doctor", "--json", cwd=tmp_path, env=env)
    checks = checks_of(done)
    assert done.code == 1
    assert not done.json["ok"]
    assert {name for name, check in checks.items() if not check["ok"]} == {
        "environment",  # GNOMON_NODE_SLOTTS
        "open files",
        "durability",  # this server runs without fsync
        "partitions",
        "retention",
        "nodes",
        "due tasks",
        "fleet",
        "API",
    }
    assert all(check["remedy"] for check in checks.values() if not check["ok"])
    assert "GNOMON_NODE_SLOTTS" in checks["environment"]["detail"]
    assert "not the 1000000000 of api.connections" in checks["open files"]["detail"]
    assert re.search(r"is 72\d\d s late", checks["due tasks"]["detail"])


async def test_the_doctor_is_content_with_what_is_right(
    database_dsn: str, connection: Any, tmp_path: Path, unused_tcp_port: int
) -> None:
    await _join(connection)
    env = {
        "DATABASE_URL": database_dsn,
        "GNOMON_API_PORT": str(unused_tcp_port),
        "GNOMON_API_CONNECTIONS": "100",
        "GNOMON_NODE_SLOTS": "100",
    }
    checks = checks_of(gnomon("doctor", "--json", cwd=tmp_path, env=env))
    assert {name for name, check in checks.items() if not check["ok"]} == {"durability", "API"}
    lines = gnomon("doctor", cwd=tmp_path, env=env).out.splitlines()
    assert "✓ migrations: all applied" in lines
    assert any(line.startswith("✗ API: does not answer at ") for line in lines)


def test_the_doctor_without_a_schema(empty_dsn: str, tmp_path: Path) -> None:
    checks = checks_of(gnomon("doctor", "--json", cwd=tmp_path, env={"DATABASE_URL": empty_dsn}))
    assert checks["migrations"]["remedy"] == "run `gnomon migrate`"
    assert not checks["migrations"]["ok"]


def test_the_doctor_and_a_wrong_settings_file(tmp_path: Path) -> None:
    (tmp_path / "gnomon.toml").write_text("node.slots = 0")
    done = gnomon("doctor", cwd=tmp_path)
    assert done.code == 1
    assert "✗ settings: " in done.out
    assert "node.slots must be at least 1" in done.out


async def _join(connection: Any) -> None:
    await connection.execute(
        """
        INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
        VALUES ($1, 'one', '0', 5, gnomon.now(), gnomon.now() + interval '1 hour')
        """,
        NODE,
    )


def test_a_node_whose_app_cannot_be_loaded(database_dsn: str, tmp_path: Path) -> None:
    env = {"DATABASE_URL": database_dsn, "GNOMON_NODE_APP": "no_such_module:app"}
    done = gnomon("scheduler", cwd=tmp_path, env=env)
    assert done.code == 1
    assert "gnomon: node.app cannot be used: there is no module 'no_such_module'" in done.err


async def test_a_node_starts_and_stops(
    database_dsn: str, database: Database, tmp_path: Path
) -> None:
    env = {"DATABASE_URL": database_dsn, "GNOMON_NODE_NAME": "me",
           "GNOMON_OUTPUT_LOG_FORMAT": "json"}  # fmt: skip
    pool = ("--serve-tenant", "a", "--serve-tenant", "b", "--serve-lane", "LOW")
    with running("scheduler", "--slots", "7", *pool, cwd=tmp_path, env=env) as node:

        async def living() -> list[NodeRecord]:
            assert node.process.poll() is None, node.errors
            return await PostgresRoster(database).roster()

        [me] = await eventually(living)
        node.interrupt()
        assert await asyncio.to_thread(node.wait) == 0, node.errors
        assert await PostgresRoster(database).roster() == []
    assert (me.name, me.slots) == ("me", 7)
    tenants, lanes = frozenset({"a", "b"}), frozenset({Lane.LOW})
    assert me.pool == Pool(tenants=tenants, lanes=lanes, handlers=frozenset())
    assert {json.loads(line)["level"] for line in node.errors.splitlines()} == {"info"}


async def test_the_doctor_names_the_session_that_keeps_a_partition(
    database_dsn: str, connection: Any, tmp_path: Path, unused_tcp_port: int
) -> None:
    today = (await connection.fetchval("SELECT gnomon.now()")).date()
    yesterday = partition_name("execution", today - timedelta(days=1))
    reader = await connected(database_dsn)
    try:
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM gnomon.execution")
        with pytest.raises(TimeoutError):
            await connection.execute(
                f"ALTER TABLE gnomon.execution DETACH PARTITION gnomon.{yesterday} CONCURRENTLY",
                timeout=0.5,
            )
        env = {"DATABASE_URL": database_dsn, "GNOMON_API_PORT": str(unused_tcp_port)}
        check = checks_of(gnomon("doctor", "--json", cwd=tmp_path, env=env))["partitions"]
        assert f"{yesterday} wait to be dropped" in check["detail"]
        assert f"session {reader.get_server_pid()}" in check["detail"]
        assert check["ok"], "it has not waited for long"
    finally:
        await reader.close()
