"""The baseline: the same schema as the migrations that it replaces, whose databases it adopts."""

import hashlib
from collections.abc import AsyncIterator

import pytest
import structlog
from tests.conftest import connected
from tests.integration.old_database import NEWEST, migrate_as_before, replaced
from tests.integration.schema_catalog import catalog
from tests.integration.support import Connection

from gnomon.store.postgres import migrate

ROWS = ("tenant", "revision", "revised", "webhook_secret", "chore", "node", "usage")


@pytest.fixture
async def empty(empty_dsn: str) -> AsyncIterator[Connection]:
    connection = await connected(empty_dsn)
    yield connection
    await connection.close()


async def first_rows(connection: Connection) -> dict[str, list[dict[str, object]]]:
    """All but times, and how many changes were counted."""
    found = {}
    for table in ROWS:
        rows = await connection.fetch(f"SELECT * FROM gnomon.{table}")
        shown = [
            {k: v for k, v in row.items() if k not in ("created_at", "number")} for row in rows
        ]
        found[table] = shown
    return found


async def record(connection: Connection) -> list[tuple[int, str, str]]:
    rows = await connection.fetch(
        "SELECT version, name, checksum FROM gnomon.migration ORDER BY version"
    )
    return [tuple(row) for row in rows]


def test_the_kept_files_are_those_that_landed() -> None:
    assert [version for version, *_ in replaced()] == list(range(1, NEWEST + 1))
    for _, name, text, checksum in replaced():
        assert hashlib.sha256(text.encode()).hexdigest() == checksum, name


async def test_the_baseline_makes_what_the_old_migrations_made(
    empty: Connection,
) -> None:
    await migrate_as_before(empty)
    await empty.execute("DROP TABLE gnomon.migration")
    before, rows_before = await catalog(empty), await first_rows(empty)
    await empty.execute("DROP SCHEMA gnomon CASCADE")
    await migrate.up(empty, NEWEST)
    await empty.execute("DROP TABLE gnomon.migration_step, gnomon.migration")
    after = await catalog(empty)
    assert len(before["columns"]) > 300
    for part, found in after.items():
        assert found == before[part], part
    assert await first_rows(empty) == rows_before


async def test_a_database_of_the_last_old_migration_is_adopted(empty: Connection) -> None:
    await migrate_as_before(empty)
    old = await record(empty)
    before = await catalog(empty)
    with structlog.testing.capture_logs() as logs:
        applied = await migrate.up(empty, NEWEST)
    assert applied == []  # nothing was run
    assert [line["version"] for line in logs if "adopted" in line["event"]] == [NEWEST]
    after = await catalog(empty)
    made = {"migration_step", "_migration_step"}
    after["types"] = [row for row in after["types"] if row[0] not in made]
    assert after["types"] == before["types"]
    assert after["functions"] == before["functions"]

    # The record names the baseline; all checksums stay, so that the release before still starts.
    assert await record(empty) == [*old[:-1], (NEWEST, "baseline", old[-1][2])]
    (state,) = (m for m in await migrate.status(empty) if m.version == NEWEST)
    assert (state.name, state.applied, state.edited) == ("baseline", True, False)
    with structlog.testing.capture_logs() as logs:
        await migrate.up(empty, NEWEST)
    assert [line for line in logs if "adopted" in line["event"]] == []


async def test_an_adopted_database_goes_up_and_down_like_any_other(empty: Connection) -> None:
    await migrate_as_before(empty)
    await migrate.up(empty)
    assert all(m.applied for m in await migrate.status(empty))
    await migrate.down(empty, NEWEST)
    assert len(await record(empty)) == NEWEST
    await migrate.down(empty, 0)
    assert await record(empty) == []
    await migrate.up(empty)
    assert min(version for version, *_ in await record(empty)) == NEWEST


@pytest.mark.parametrize("version", [1, 11, 17])
async def test_an_older_database_is_told_what_to_do(empty: Connection, version: int) -> None:
    await migrate_as_before(empty, version)
    before = await record(empty), await catalog(empty)
    for refused in (migrate.up(empty), migrate.down(empty, 0)):
        with pytest.raises(migrate.DatabaseTooOld) as told:
            await refused
        assert f"the database is at migration {version}," in str(told.value)
        assert "`git checkout 37322fc`" in str(told.value)
        assert "`gnomon migrate`" in str(told.value)
    assert (await record(empty), await catalog(empty)) == before
    assert await migrate.refusal(empty) == str(told.value)
    assert not any(m.applied for m in await migrate.status(empty))


async def test_a_database_without_checksums_is_older(empty: Connection) -> None:
    """The first releases recorded none; the last one with the old migrations did."""
    await migrate_as_before(empty, 3)
    await empty.execute("ALTER TABLE gnomon.migration DROP COLUMN checksum")
    with pytest.raises(migrate.DatabaseTooOld, match="at migration 3,"):
        await migrate.up(empty)


@pytest.mark.parametrize("other", ["repeat('0', 64)", "NULL"])
async def test_an_old_migration_that_was_edited_is_not_adopted(
    empty: Connection, other: str
) -> None:
    await migrate_as_before(empty)
    await empty.execute(f"UPDATE gnomon.migration SET checksum = {other} WHERE version = 6")
    with pytest.raises(migrate.MigrationEdited, match="0006 limits was edited") as refused:
        await migrate.up(empty)
    assert "`gnomon migrate accept 6`" in str(refused.value)
    assert await migrate.accept(empty, 6) == "0006 limits"
    await migrate.up(empty)
    assert (NEWEST, "baseline") in [row[:2] for row in await record(empty)]


async def test_an_adopted_baseline_can_be_accepted(empty: Connection) -> None:
    await migrate_as_before(empty)
    old = await record(empty)
    await migrate.up(empty, NEWEST)
    await empty.execute("UPDATE gnomon.migration SET checksum = 'other' WHERE version = 18")
    with pytest.raises(migrate.MigrationEdited, match="0018 baseline was edited"):
        await migrate.up(empty, NEWEST)
    assert await migrate.accept(empty, NEWEST) == "0018 baseline"
    await migrate.up(empty, NEWEST)
    assert [row[2] for row in await record(empty)] == [row[2] for row in old]
