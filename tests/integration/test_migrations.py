"""Migrations: up, down and up again, and several processes at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.conftest import connected
from tests.integration.support import Connection, blocked_by
from tests.waiting import eventually

from gnomon.model.errors import StoreUnavailable
from gnomon.store.postgres import migrate
from gnomon.wiring.processes import prepare

VERSIONS = [m.version for m in migrate.migrations()]


@pytest.fixture
async def empty(empty_dsn: str) -> AsyncIterator[Connection]:
    connection = await connected(empty_dsn)
    yield connection
    await connection.close()


async def schema(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """All that a migration makes, as the catalogue tells it."""
    queries = {
        "relations": """
            SELECT relname, relkind, reloptions::text, pg_get_expr(relpartbound, oid),
                relrowsecurity
            FROM pg_class WHERE relnamespace = 'gnomon'::regnamespace
        """,
        "columns": """
            SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                a.attnotnull, a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid),
                a.attcollation::regcollation::text
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
            WHERE c.relnamespace = 'gnomon'::regnamespace AND a.attnum > 0 AND NOT attisdropped
        """,
        "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'gnomon'",
        "constraints": """
            SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'gnomon'::regnamespace
        """,
        "functions": """
            SELECT proname, pg_get_functiondef(oid) FROM pg_proc
            WHERE pronamespace = 'gnomon'::regnamespace
        """,
        "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'gnomon'",
        "policies": """
            SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check
            FROM pg_policies WHERE schemaname = 'gnomon'
        """,
        "privileges": """
            SELECT table_name, column_name, grantee, privilege_type
            FROM information_schema.column_privileges WHERE table_schema = 'gnomon'
        """,
    }
    found = {}
    for name, statement in queries.items():
        found[name] = sorted((tuple(row) for row in await connection.fetch(statement)), key=repr)
    return found


async def applied(connection: Connection) -> list[int]:
    return [m.version for m in await migrate.status(connection) if m.applied]


async def test_every_step_has_both_ways() -> None:
    steps = migrate.migrations()
    assert all(m.up.strip() and m.down.strip() for m in steps)


async def test_up_down_up_leaves_the_same_schema(empty: Connection) -> None:
    assert await applied(empty) == []
    assert [m.version for m in await migrate.up(empty)] == await applied(empty)
    first = await schema(empty)
    assert first["columns"]
    assert await migrate.up(empty) == []

    undone = await migrate.down(empty, 0)
    assert [m.version for m in undone] == VERSIONS[::-1]
    assert await applied(empty) == []
    rest = {name for name, *_ in (await schema(empty))["relations"]}
    assert rest == {"migration", "migration_pkey"}
    assert await migrate.down(empty, 0) == []

    await migrate.up(empty)
    assert await schema(empty) == first


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_step_down_undoes_its_step_up(empty: Connection, version: int) -> None:
    await migrate.up(empty, version - 1)
    before = await schema(empty) if version > 1 else None
    await migrate.up(empty, version)
    assert await applied(empty) == [v for v in VERSIONS if v <= version]
    await migrate.down(empty, version - 1)
    assert await applied(empty) == [v for v in VERSIONS if v < version]
    if before is not None:
        assert await schema(empty) == before


async def test_on_the_way_back_no_key_becomes_stronger(empty: Connection) -> None:
    """An older release does not know the lists that a key is held to."""
    (version,) = (m.version for m in migrate.migrations() if m.name == "allow_lists")
    await migrate.up(empty)
    for name, lists in (("free", "NULL, NULL"), ("held", "'{}', NULL"), ("bound", "NULL, '{a}'")):
        await empty.execute(
            f"""INSERT INTO gnomon.api_key
                    (id, tenant_id, name, hash, hint, roles, functions, hosts)
                VALUES (gen_random_uuid(), 'default', '{name}', '{name}', '', '{{}}', {lists})"""
        )
    await migrate.down(empty, version - 1)
    rows = await empty.fetch("SELECT name FROM gnomon.api_key WHERE revoked_at IS NULL")
    assert [row["name"] for row in rows] == ["free"]


async def test_processes_that_migrate_at_once_do_not_meet(
    empty: Connection, empty_dsn: str
) -> None:
    async with AsyncExitStack() as stack:
        connections = [await connected(empty_dsn) for _ in range(4)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        taken = await asyncio.gather(*(migrate.up(c) for c in connections))
    assert sorted(m.version for steps in taken for m in steps) == VERSIONS
    assert await applied(empty) == VERSIONS


async def test_a_step_that_fails_leaves_nothing(empty: Connection) -> None:
    await empty.execute("CREATE SCHEMA gnomon; CREATE TABLE gnomon.task (mine integer)")
    with pytest.raises(Exception, match="already exists"):
        await migrate.up(empty)
    assert await applied(empty) == []
    assert await empty.fetchval("SELECT to_regclass('gnomon.node')") is None


async def test_a_schema_of_a_newer_release_is_left_alone(empty: Connection) -> None:
    await migrate.up(empty)
    await empty.execute("INSERT INTO gnomon.migration (version, name) VALUES (999, 'future')")
    before = await schema(empty)
    with pytest.raises(migrate.MigrationError, match="999"):
        await migrate.up(empty)
    with pytest.raises(migrate.MigrationError, match="999"):
        await migrate.down(empty, 0)
    assert await schema(empty) == before


async def test_an_edited_step_is_refused_until_it_is_accepted(empty: Connection) -> None:
    await migrate.up(empty)
    await empty.execute("UPDATE gnomon.migration SET checksum = repeat('0', 64) WHERE version = 6")
    with pytest.raises(migrate.MigrationEdited) as refused:
        await migrate.up(empty)
    told = str(refused.value)
    assert "0006 limits was edited" in told
    assert "DROP SCHEMA" in told
    assert "`gnomon migrate accept 6`" in told
    assert str((await migrate.status(empty))[5].applied_at)[:16] in told  # when it was taken
    assert [m.version for m in await migrate.status(empty) if m.edited] == [6]

    assert (await migrate.accept(empty, 6)).name == "limits"
    assert await migrate.up(empty) == []
    assert not any(m.edited for m in await migrate.status(empty))


async def test_only_a_step_that_was_taken_can_be_accepted(empty: Connection) -> None:
    await migrate.up(empty, 1)
    with pytest.raises(migrate.MigrationError, match="has not taken migration 0002 cron"):
        await migrate.accept(empty, 2)
    with pytest.raises(migrate.MigrationError, match="no migration 999"):
        await migrate.accept(empty, 999)


async def test_line_ends_make_no_difference() -> None:
    step = migrate.migrations()[0]
    windows = migrate.Migration(1, "tasks", step.up.replace("\n", "\r\n"), step.down)
    assert windows.checksum == step.checksum


async def without_checksums(connection: Connection) -> None:
    """As a release left it that knew of none."""
    await connection.execute("ALTER TABLE gnomon.migration DROP COLUMN checksum")


async def test_steps_of_an_older_release_get_the_present_checksums(empty: Connection) -> None:
    await migrate.up(empty)
    before = await empty.fetch("SELECT version, checksum FROM gnomon.migration ORDER BY version")
    await without_checksums(empty)
    assert await applied(empty) == VERSIONS
    assert await migrate.up(empty) == []
    after = await empty.fetch("SELECT version, checksum FROM gnomon.migration ORDER BY version")
    assert after == before


async def test_an_older_release_with_other_functions_is_recognised(empty: Connection) -> None:
    await migrate.up(empty)
    await without_checksums(empty)
    await empty.execute(
        """
        CREATE OR REPLACE FUNCTION gnomon.drop_dead_leases(p_bucket bigint) RETURNS void
            LANGUAGE sql AS 'SELECT NULL::void'
        """
    )
    with pytest.raises(migrate.MigrationEdited, match=r"0006 limits.*gnomon\.drop_dead_leases\(\)"):
        await migrate.up(empty)
    await migrate.accept(empty, 6)
    assert await migrate.up(empty) == []


async def test_a_connection_that_ends_in_the_middle_is_no_riddle(
    empty: Connection, empty_dsn: str
) -> None:
    """A process that starts while PostgreSQL goes says so, and can be started again."""
    async with empty.transaction():
        await empty.execute("SELECT pg_advisory_xact_lock($1)", migrate._LOCK)
        preparing = asyncio.create_task(prepare(empty_dsn))
        (pid,) = await eventually(lambda: blocked_by(empty))
        await empty.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable):
            await preparing
    await prepare(empty_dsn)
    assert await applied(empty) == VERSIONS
