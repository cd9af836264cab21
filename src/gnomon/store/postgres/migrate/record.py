"""The record of applied migrations in the database, and the locks that keep migrating processes
apart.

Nobody waits for one of these locks inside of a statement: a statement that waits holds a snapshot,
CREATE INDEX CONCURRENTLY waits for old snapshots, and the two would wait for each other for ever.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias

import asyncpg
import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.store.postgres.migrate.errors import (
    DatabaseTooOld,
    MigrationEdited,
    MigrationError,
)
from gnomon.store.postgres.migrate.files import Migration, MigrationStep

log = structlog.get_logger("gnomon.store")

Connection: TypeAlias = "asyncpg.Connection[Any]"

# Any fixed numbers will do. The first is held for one transaction at a time, by older releases too;
# the second by the session that makes or drops an index concurrently.
TRANSACTION_LOCK = 0x676E6F6D6F6E
INDEX_LOCK = TRANSACTION_LOCK + 1
_POLL_SECONDS = 0.05
_MOST_POLL_SECONDS = 1.0

_TABLES = """
CREATE SCHEMA IF NOT EXISTS gnomon;
CREATE TABLE IF NOT EXISTS gnomon.migration (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    checksum   text
);
-- Steps of the migration that is under way; none, once it is applied.
CREATE TABLE IF NOT EXISTS gnomon.migration_step (
    version     integer NOT NULL,
    number      integer NOT NULL,
    checksum    text NOT NULL,
    position    jsonb,                  -- of batches: where the next one begins
    rows        bigint NOT NULL DEFAULT 0,  -- that batches have changed
    finished_at timestamptz,
    PRIMARY KEY (version, number)
)
"""


class RecordedMigration(msgspec.Struct, frozen=True):
    """A row of gnomon.migration."""

    name: str
    applied_at: datetime
    checksum: str | None


class RecordedStep(msgspec.Struct, frozen=True):
    """A row of gnomon.migration_step."""

    checksum: str
    position: str | None
    rows: int
    finished: bool


class Record(msgspec.Struct, frozen=True):
    """Everything that the database says of its migrations."""

    applied: dict[int, RecordedMigration]
    steps: dict[tuple[int, int], RecordedStep]

    def next_step(self, migration: Migration) -> MigrationStep:
        """The first step that is not finished, of a migration that is not applied."""
        recorded = (self.steps.get((migration.version, step.number)) for step in migration.steps)
        finished = [each is not None and each.finished for each in recorded]
        return migration.steps[finished.index(False)]

    def begun(self, migration: Migration) -> bool:
        """Whether any step of it was run, though not all."""
        return any(version == migration.version for version, _ in self.steps)


@asynccontextmanager
async def exclusive(connection: Connection, clock: Clock) -> AsyncIterator[Record]:
    """A transaction that no other migrating process has at the same time, and the record in it."""
    pause = _POLL_SECONDS
    while True:
        transaction = connection.transaction()
        await transaction.start()
        try:
            if await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", TRANSACTION_LOCK):
                await connection.execute(_TABLES)
                yield await read(connection)
                await transaction.commit()
                return
        except BaseException:
            if not connection.is_closed():
                await transaction.rollback()
            raise
        await transaction.rollback()
        pause = await _wait_for_others(clock, pause)


@asynccontextmanager
async def index_session(connection: Connection, clock: Clock) -> AsyncIterator[None]:
    """Hold the lock of those who make indexes concurrently, outside of any transaction.

    The session holds it. If this process is killed, PostgreSQL goes on with its index, and ends the
    session (and frees the lock) only afterwards: so the next process never meets a half-made index
    that somebody is still making.
    """
    pause = _POLL_SECONDS
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", INDEX_LOCK):
        pause = await _wait_for_others(clock, pause)
    try:
        # An index takes as long as it takes; waiting for its locks holds up nobody.
        await connection.execute("SET lock_timeout = 0; SET statement_timeout = 0")
        yield
    finally:
        if not connection.is_closed():
            await connection.execute(
                f"RESET lock_timeout; RESET statement_timeout; "
                f"SELECT pg_advisory_unlock({INDEX_LOCK})"
            )


async def _wait_for_others(clock: Clock, pause: float) -> float:
    await clock.sleep(pause)
    longer = min(pause * 2, _MOST_POLL_SECONDS)
    if longer == _MOST_POLL_SECONDS > pause:  # not for those who only start at the same time
        log.info("another process is migrating the database, waiting for it")
    return longer


async def read(connection: Connection) -> Record:
    """The record; an empty one where the database has none yet."""
    applied: dict[int, RecordedMigration] = {}
    if await connection.fetchval("SELECT to_regclass('gnomon.migration')") is not None:
        # A release before the checksums has made the table without that column.
        rows = await connection.fetch(
            """
            SELECT version, name, applied_at, to_jsonb(m) ->> 'checksum' AS checksum
            FROM gnomon.migration AS m
            """
        )
        applied = {version: RecordedMigration(*rest) for version, *rest in rows}
    steps: dict[tuple[int, int], RecordedStep] = {}
    if await connection.fetchval("SELECT to_regclass('gnomon.migration_step')") is not None:
        rows = await connection.fetch(
            """
            SELECT version, number, checksum, position::text, rows, finished_at IS NOT NULL
            FROM gnomon.migration_step
            """
        )
        steps = {(version, number): RecordedStep(*rest) for version, number, *rest in rows}
    return Record(applied, steps)


async def record_step(
    connection: Connection,
    migration: Migration,
    step: MigrationStep,
    *,
    finished: bool = True,
    position: str | None = None,
    rows: int = 0,
) -> None:
    """Record a step; once it was the last, the migration instead of its steps."""
    if finished and step is migration.steps[-1]:
        await connection.execute(
            "INSERT INTO gnomon.migration (version, name, checksum) VALUES ($1, $2, $3)",
            migration.version,
            migration.name,
            migration.checksum,
        )
        await connection.execute(
            "DELETE FROM gnomon.migration_step WHERE version = $1", migration.version
        )
        return
    await connection.execute(
        """
        INSERT INTO gnomon.migration_step AS s
            (version, number, checksum, position, rows, finished_at)
        VALUES ($1, $2, $3, $4::jsonb, $5, CASE WHEN $6 THEN clock_timestamp() END)
        ON CONFLICT (version, number) DO UPDATE
        SET position = excluded.position, rows = s.rows + excluded.rows,
            finished_at = excluded.finished_at
        """,
        migration.version,
        step.number,
        step.checksum,
        position,
        rows,
        finished,
    )


async def forget(connection: Connection, migration: Migration) -> None:
    """Remove a migration that was undone, and those that it replaces, from the record."""
    versions = [migration.version, *(old.version for old in migration.replaces)]
    await connection.execute("DELETE FROM gnomon.migration WHERE version = ANY ($1)", versions)
    await connection.execute("DELETE FROM gnomon.migration_step WHERE version = ANY ($1)", versions)


def is_adopted(migration: Migration, record: Record) -> bool:
    """Whether it is applied under its own name."""
    recorded = record.applied.get(migration.version)
    return recorded is not None and recorded.name == migration.name


async def adopt(connection: Connection, known: Sequence[Migration], record: Record) -> None:
    """Name the baseline in the record of a database that has applied what it replaces.

    Nothing else is changed, so the release before can be started on this database again.
    """
    for migration in known:
        if is_applied(migration, record) and not is_adopted(migration, record):
            await connection.execute(
                "UPDATE gnomon.migration SET name = $2 WHERE version = $1",
                migration.version,
                migration.name,
            )
            log.info(
                "adopted the database: it has all that the baseline makes",
                version=migration.version,
            )


def check(known: Sequence[Migration], record: Record, *, edited: bool = True) -> None:
    """Refuse a database that this release cannot migrate, and say what to do.

    `edited`: refuse also one that has applied another text of a migration.
    """
    versions = {m.version for m in known} | {old.version for m in known for old in m.replaces}
    unknown = record.applied.keys() - versions
    if unknown:
        raise MigrationError(
            f"the database has migration {max(unknown)}, which this release does not know; "
            "start the newer release, or migrate down with it first"
        )
    for migration in known:
        _check_age(migration, record)
        if edited:
            _check_texts(migration, record)


def is_applied(migration: Migration, record: Record) -> bool:
    return migration.version in record.applied


def is_edited(migration: Migration, record: Record) -> bool:
    """Whether the database has applied another text of it."""
    return any(recorded.checksum != checksum for _, recorded, checksum in _texts(migration, record))


def expected_checksum(migration: Migration, version: int, record: Record) -> str:
    """Of a version that the migration stands for, in this database."""
    old = {old.version: old.checksum for old in migration.replaces}
    replaced = old.keys() - {migration.version}
    if version in replaced or (version in old and replaced & record.applied.keys()):
        return old[version]
    return migration.checksum


def _check_age(migration: Migration, record: Record) -> None:
    """A baseline adopts a database that has all that it replaces, and no older one."""
    old = [each.version for each in migration.replaces]
    missing = [version for version in old if version not in record.applied]
    if migration.version in record.applied or len(missing) == len(old):
        return
    has = max(version for version in old if version in record.applied)
    commit = migration.replaced_in[:7]
    raise DatabaseTooOld(
        f"the database is at migration {has}, and this release can start from "
        f"{migration.version} at the earliest; bring it there with the last code that has the "
        f"migrations between: in a clone of Gnomon, run `git checkout {commit}`, then `gnomon "
        "migrate` on this database, and start this release again"
    )


def _check_texts(migration: Migration, record: Record) -> None:
    for name, recorded, checksum in _texts(migration, record):
        if recorded.checksum != checksum:
            raise MigrationEdited(_was_edited(name, recorded, checksum))
    texts = {step.number: step.checksum for step in migration.steps}
    for (version, number), step in record.steps.items():
        if version == migration.version and texts.get(number) != step.checksum:
            raise MigrationEdited(
                f"step {number} of migration {migration} was edited after this database began it; "
                "finish the migration with the release that began it, or undo it with that one "
                "(`gnomon migrate down`)"
            )


def _texts(migration: Migration, record: Record) -> list[tuple[str, RecordedMigration, str]]:
    """What the database has applied of a migration or of those it replaces, and the checksums
    that they should have."""
    names = {old.version: old.name for old in migration.replaces} | {
        migration.version: migration.name
    }
    return [
        (
            f"{version:04d} {name}",
            record.applied[version],
            expected_checksum(migration, version, record),
        )
        for version, name in sorted(names.items())
        if version in record.applied
    ]


def _was_edited(name: str, recorded: RecordedMigration, checksum: str) -> str:
    number = int(name[:4])
    then = "none" if recorded.checksum is None else f"{recorded.checksum:.12}…"
    return (
        f"migration {name} was edited after this database applied it on "
        f"{recorded.applied_at:%Y-%m-%d %H:%M:%S %Z}: the text then had the checksum {then}, the "
        f"text of this release has {checksum:.12}…; start the release that it came from, or "
        "restore the file; or, for a development database, start over (`DROP SCHEMA gnomon "
        "CASCADE`, or for the embedded server remove the folder `postgres` of the data directory, "
        "then `gnomon migrate`; all tasks are lost); or, after checking that the schema is what "
        f"the file says, run `gnomon migrate accept {number}`"
    )
