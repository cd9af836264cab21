"""Migrations: up, down and up again, and several processes at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise

import asyncpg
import pytest
from tests.conftest import connected
from tests.integration.schema_catalog import Catalog, catalog, without_places
from tests.integration.support import Connection, blocked_by
from tests.waiting import eventually

from gnomon.model.errors import StoreUnavailable
from gnomon.store.postgres import migrate
from gnomon.wiring.processes import prepare

VERSIONS = [m.version for m in migrate.migrations()]
# Down: PostgreSQL generates no column that is there already, and a new one comes last.
MAKE_COLUMNS_ANEW = {57}


@pytest.fixture
async def empty(empty_dsn: str) -> AsyncIterator[Connection]:
    connection = await connected(empty_dsn)
    yield connection
    await connection.close()


async def applied(connection: Connection) -> list[int]:
    return [m.version for m in await migrate.status(connection) if m.applied]


async def test_every_step_has_both_ways() -> None:
    known = migrate.migrations()
    assert known
    assert all(m.steps and m.down.strip() for m in known)


async def test_up_down_up_leaves_the_same_schema(empty: Connection) -> None:
    assert await applied(empty) == []
    assert [m.version for m in await migrate.up(empty)] == await applied(empty)
    first = await catalog(empty)
    assert first["columns"]
    assert await migrate.up(empty) == []

    undone = await migrate.down(empty, 0)
    assert [m.version for m in undone] == VERSIONS[::-1]
    assert await applied(empty) == []
    rest = {name for name, *_ in (await catalog(empty))["relations"]}
    assert rest == {"migration", "migration_pkey", "migration_step", "migration_step_pkey"}
    assert await migrate.down(empty, 0) == []

    await migrate.up(empty)
    assert await catalog(empty) == first


async def test_each_migration_down_undoes_its_way_up(empty: Connection) -> None:
    """One after the other on the same database, each up, down and up again."""
    schema: Catalog | None = None  # before the first there is none to compare with
    for before, version in pairwise([0, *VERSIONS]):
        await migrate.up(empty, version)
        await migrate.down(empty, before)
        assert await applied(empty) == [v for v in VERSIONS if v <= before]
        undone = await catalog(empty)
        if version in MAKE_COLUMNS_ANEW and schema is not None:
            schema, undone = without_places(schema), without_places(undone)
        assert schema is None or undone == schema, f"{version} down"
        await migrate.up(empty, version)
        assert await applied(empty) == [v for v in VERSIONS if v <= version]
        schema = await catalog(empty)


async def test_outcomes_that_wait_for_feeds_are_not_lost_on_the_way_down(
    empty: Connection,
) -> None:
    await migrate.up(empty)
    await empty.execute(
        "INSERT INTO gnomon.feed_note (tenant_id, feed_id, state, at)"
        " VALUES ('default', gen_random_uuid(), 10, gnomon.now())"
    )
    with pytest.raises(asyncpg.RaiseError, match="outcomes wait for feeds"):
        await migrate.down(empty, 54)
    assert 56 in await applied(empty)
    await empty.execute("DELETE FROM gnomon.feed_note")
    await migrate.down(empty, 54)
    assert await applied(empty) == [v for v in VERSIONS if v <= 54]


async def test_there_must_be_a_migration_to_go_back_to(empty: Connection) -> None:
    """Undoing the baseline would lose everything, and nobody asked for that."""
    await migrate.up(empty)
    with pytest.raises(migrate.MigrationError, match="no migration 5 to go back to"):
        await migrate.down(empty, 5)
    assert await applied(empty) == VERSIONS


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
    before = await catalog(empty)
    with pytest.raises(migrate.MigrationError, match="999"):
        await migrate.up(empty)
    with pytest.raises(migrate.MigrationError, match="999"):
        await migrate.down(empty, 0)
    assert await catalog(empty) == before


async def test_an_edited_migration_is_refused_until_it_is_accepted(empty: Connection) -> None:
    await migrate.up(empty)
    other = "UPDATE gnomon.migration SET checksum = repeat('0', 64) WHERE version = 18"
    await empty.execute(other)
    with pytest.raises(migrate.MigrationEdited) as refused:
        await migrate.up(empty)
    told = str(refused.value)
    assert "0018 baseline was edited" in told
    assert "DROP SCHEMA" in told
    assert "`gnomon migrate accept 18`" in told
    assert str((await migrate.status(empty))[0].applied_at)[:16] in told  # when it was applied
    assert [m.version for m in await migrate.status(empty) if m.edited] == [18]

    assert await migrate.accept(empty, 18) == "0018 baseline"
    assert await migrate.up(empty) == []
    assert not any(m.edited for m in await migrate.status(empty))


async def test_only_an_applied_migration_can_be_accepted(empty: Connection) -> None:
    with pytest.raises(migrate.MigrationError, match="has not applied migration 0018 baseline"):
        await migrate.accept(empty, 18)
    with pytest.raises(migrate.MigrationError, match="no migration 999"):
        await migrate.accept(empty, 999)


async def test_line_ends_make_no_difference() -> None:
    (step, *_) = migrate.migrations()[0].steps
    windows = migrate.MigrationStep(1, step.name, step.kind, step.text.replace("\n", "\r\n"))
    assert windows.checksum == step.checksum


async def test_a_connection_that_ends_in_the_middle_is_no_riddle(
    empty: Connection, empty_dsn: str
) -> None:
    """A process that starts while PostgreSQL goes says so, and can be started again."""
    other = await connected(empty_dsn)
    async with other.transaction():  # it waits for this one, in the middle of the baseline
        await other.execute("CREATE SCHEMA gnomon; CREATE TABLE gnomon.task ()")
        preparing = asyncio.create_task(prepare(empty_dsn))
        (pid,) = await eventually(lambda: blocked_by(other))
        await empty.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable):
            await preparing
        await other.execute("DROP SCHEMA gnomon CASCADE")
    await other.close()
    await prepare(empty_dsn)
    assert await applied(empty) == VERSIONS
