"""Migrations in steps: resumed after a kill, and shared by processes that migrate at once."""

import asyncio
import itertools
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import connected
from tests.integration.migrating import FOLDER, LABELS, known
from tests.integration.schema_catalog import catalog
from tests.integration.support import Connection, blocked_by
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.store.postgres import migrate
from gnomon.store.postgres.migrate.record import INDEX_LOCK, exclusive, forget

ROWS = 5000
FILL = """
    INSERT INTO gnomon.task (tenant_id, id, task_type, target, state)
    SELECT 'default', overlay(gen_random_uuid()::text PLACING '7' FROM 15)::uuid, 'x', '{}', 2
    FROM generate_series(1, $1)
"""


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await connection.execute(FILL, ROWS)
    return connection


@pytest.fixture
async def other(database_dsn: str) -> AsyncIterator[Connection]:
    opened = await connected(database_dsn)
    yield opened
    await opened.close()


@asynccontextmanager
async def migrating(dsn: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of its own. It is killed at the end, if it was not before."""
    command = (sys.executable, "-m", "tests.integration.migrating", dsn)
    process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


async def finished_steps(connection: Connection) -> int:
    (state,) = (m for m in await migrate.status(connection, known()) if m.version == LABELS)
    return len(state.steps) if state.applied else state.finished_steps


async def finish(connection: Connection) -> list[str]:
    """Run what is left, and see that all of it holds; returns the steps that were run."""
    ran: list[str] = []

    def seen(progress: migrate.StepProgress) -> None:
        if progress.finished:
            ran.append(progress.step.name)

    await migrate.up(connection, known=known(), on_progress=seen)
    assert await finished_steps(connection) == 5
    assert await connection.fetchval("SELECT count(*) FROM gnomon.migration_step") == 0
    # Each row was changed by exactly one batch, whoever was killed.
    labels = await connection.fetch("SELECT label, count(*) FROM gnomon.task GROUP BY label")
    assert [tuple(row) for row in labels] == [("x", ROWS)]
    assert await index_is_valid(connection) is True
    assert await migrate.up(connection, known=known()) == []
    return ran


async def index_is_valid(connection: Connection) -> bool | None:
    valid: bool | None = await connection.fetchval(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('gnomon.task_by_label')"
    )
    return valid


async def index_oid(connection: Connection) -> int:
    oid: int = await connection.fetchval("SELECT 'gnomon.task_by_label'::regclass::oid")
    return oid


async def session_of_index(connection: Connection) -> int | None:
    """The session that makes an index, whether its process still lives or not."""
    pid: int | None = await connection.fetchval(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = $1",
        INDEX_LOCK & 0xFFFFFFFF,
    )
    return pid


class Interrupted(Exception):
    """The step after which a test wants to go on by itself is finished."""


async def run_until(connection: Connection, step: str) -> None:
    """Run the steps up to this one, and no more."""

    def stop(progress: migrate.StepProgress) -> None:
        if progress.step.name == step and progress.finished:
            raise Interrupted

    with pytest.raises(Interrupted):
        await migrate.up(connection, known=known(), on_progress=stop)


async def test_all_kinds_of_steps(filled: Connection) -> None:
    assert await finish(filled) == ["column", "by_label", "fill", "rule", "valid"]


async def test_the_way_back_begins_at_any_step(connection: Connection) -> None:
    last = known()[-2].version
    await migrate.up(connection)
    await connection.execute("ALTER TABLE gnomon.task ADD COLUMN label text")
    await connection.execute("ALTER TABLE gnomon.task DROP COLUMN label")
    assert await migrate.down(connection, last, known=known()) == []
    before = await catalog(connection)
    for step in ("column", "by_label", "fill", "rule", "valid"):
        with suppress(Interrupted):
            await run_until(connection, step)
        assert [m.version for m in await migrate.down(connection, last, known=known())] == [LABELS]
        assert await finished_steps(connection) == 0
        assert await catalog(connection) == before


async def test_killed_in_a_transaction(
    filled: Connection, other: Connection, database_dsn: str
) -> None:
    async with migrating(database_dsn) as process, other.transaction():
        await other.execute("SELECT FROM gnomon.task LIMIT 1")  # in the way of ALTER TABLE
        await eventually(lambda: blocked_by(other))
        await kill(process)
    assert await finish(filled) == ["column", "by_label", "fill", "rule", "valid"]


async def test_a_lock_that_is_never_free_is_given_up_with_who_is_in_the_way(
    filled: Connection, other: Connection
) -> None:
    moments = itertools.count(0, 1000)  # every look at the clock is a quarter of an hour later
    async with other.transaction():
        pid = await other.fetchval("SELECT pg_backend_pid() FROM gnomon.task LIMIT 1")
        with pytest.raises(migrate.MigrationError, match="could not get a lock") as refused:
            await migrate.up(filled, known=known(), clock=SystemClock(lambda: float(next(moments))))
    assert f"the process id {pid} " in str(refused.value)
    assert "run `gnomon migrate` again" in str(refused.value)
    assert await finish(filled) == ["column", "by_label", "fill", "rule", "valid"]


async def killed_while_making_the_index(
    filled: Connection, writer: Connection, database_dsn: str
) -> int:
    """PostgreSQL goes on with the index as soon as the writer ends; returns its session."""
    await writer.execute("UPDATE gnomon.task SET attempt = 0 WHERE id = $1", await some_id(filled))
    async with migrating(database_dsn) as process:
        await eventually(lambda: blocked_by(writer))
        assert await index_is_valid(filled) is False
        session = await session_of_index(filled)
        await kill(process)
    assert session is not None
    return session


async def some_id(connection: Connection, place: int = 3000) -> UUID:
    found: UUID = await connection.fetchval(
        "SELECT id FROM gnomon.task ORDER BY tenant_id, id OFFSET $1 LIMIT 1", place
    )
    return found


async def test_an_index_that_postgresql_finishes_after_the_kill_is_kept(
    filled: Connection, other: Connection, database_dsn: str
) -> None:
    await run_until(filled, "column")
    async with other.transaction():
        await killed_while_making_the_index(filled, other, database_dsn)
        made = await index_oid(filled)
        # Nobody touches it while it is being made.
        following = asyncio.create_task(finish(filled))
    assert await following == ["by_label", "fill", "rule", "valid"]
    assert await index_oid(filled) == made


async def test_half_an_index_is_dropped_and_made_again(
    filled: Connection, other: Connection, database_dsn: str
) -> None:
    await run_until(filled, "column")
    async with other.transaction():
        session = await killed_while_making_the_index(filled, other, database_dsn)
        half = await index_oid(filled)
        await filled.execute("SELECT pg_terminate_backend($1, 10000)", session)
    assert await index_is_valid(filled) is False
    assert await finish(filled) == ["by_label", "fill", "rule", "valid"]
    assert await index_oid(filled) != half


async def test_killed_between_two_batches(
    filled: Connection, other: Connection, database_dsn: str
) -> None:
    """The position and its batch are committed together: no row is filled twice, none left out."""
    await run_until(filled, "by_label")
    async with other.transaction():
        await other.execute(
            "SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", await some_id(filled)
        )
        async with migrating(database_dsn) as process:
            await eventually(lambda: blocked_by(other))
            await kill(process)
        assert (
            await filled.fetchval("SELECT rows FROM gnomon.migration_step WHERE number = 3") == 2000
        )
    assert await finish(filled) == ["fill", "rule", "valid"]


async def test_an_index_of_a_migration_that_is_undone_meanwhile_is_not_recorded(
    filled: Connection, other: Connection, database_dsn: str
) -> None:
    labels = known()[-1]
    await run_until(filled, "column")
    writer = other.transaction()
    await writer.start()
    await other.execute("UPDATE gnomon.task SET attempt = 0 WHERE id = $1", await some_id(filled))
    async with migrating(database_dsn) as process:
        await eventually(lambda: blocked_by(other))  # the index waits for the writer
        async with exclusive(filled, SystemClock()):  # as `down` has it
            await filled.execute("SELECT")  # the portal of the statement before has a snapshot
            await writer.rollback()
            await eventually(lambda: index_is_valid(other))  # made, and not recorded yet
            await filled.execute(labels.down)
            await forget(filled, labels)
        assert await process.wait() == 0
    assert await finish(filled) == []


async def test_processes_that_migrate_at_once_share_the_steps(
    filled: Connection, database_dsn: str
) -> None:
    connections = [await connected(database_dsn) for _ in range(3)]
    done = await asyncio.gather(*(migrate.up(each, known=known()) for each in connections))
    for each in connections:
        await each.close()
    assert [m.version for taken in done for m in taken] == [LABELS]
    assert await finish(filled) == []


async def test_an_index_that_cannot_be_made_leaves_nothing_behind(
    filled: Connection, tmp_path: Path
) -> None:
    folder = tmp_path / "9002_unique"
    folder.mkdir()
    (folder / "1_one_type.concurrently.sql").write_text(
        "CREATE UNIQUE INDEX CONCURRENTLY task_one_type ON gnomon.task (task_type);"
    )
    (folder / "down.sql").write_text("DROP INDEX IF EXISTS gnomon.task_one_type;")
    migrations = migrate.migrations() + migrate.migrations(tmp_path)
    with pytest.raises(asyncpg.UniqueViolationError) as failed:
        await migrate.up(filled, known=migrations)
    assert failed.value.__notes__ == ["in step 1 (one_type) of migration 9002 unique"]
    assert await filled.fetchval("SELECT to_regclass('gnomon.task_one_type')") is None
    await filled.execute("DELETE FROM gnomon.task")
    assert [m.version for m in await migrate.up(filled, known=migrations)] == [9002]

    (folder / "1_one_type.concurrently.sql").write_text(
        "DROP INDEX CONCURRENTLY gnomon.task_one_type;"
    )
    (folder.rename(tmp_path / "9003_not_unique"))
    await migrate.up(filled, known=[*migrations, *migrate.migrations(tmp_path)])
    assert await filled.fetchval("SELECT to_regclass('gnomon.task_one_type')") is None


async def test_a_step_that_was_edited_meanwhile_is_refused(
    filled: Connection, tmp_path: Path
) -> None:
    await run_until(filled, "by_label")
    edited = tmp_path / "9001_labels"
    shutil.copytree(FOLDER / "9001_labels", edited)
    with (edited / "1_column.sql").open("a") as file:
        file.write("-- one more\n")
    other = migrate.migrations() + migrate.migrations(tmp_path)
    with pytest.raises(migrate.MigrationEdited, match="step 1 of migration 9001 labels"):
        await migrate.up(filled, known=other)
    await finish(filled)
