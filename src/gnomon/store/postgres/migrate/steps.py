"""Runs the steps of a migration, so that nobody else waits for long.

A lock that is not free within `LOCK_SECONDS` is given up, because every statement that came later
queues behind it. The step is then tried again after a pause.
"""

from collections.abc import Callable

import asyncpg
import msgspec
import structlog

from gnomon.clock import Clock
from gnomon.store.postgres.database import is_pooled
from gnomon.store.postgres.migrate.errors import MigrationError
from gnomon.store.postgres.migrate.files import Migration, MigrationStep, StepKind, index_statement
from gnomon.store.postgres.migrate.record import (
    Connection,
    Record,
    exclusive,
    index_session,
    is_applied,
    read,
    record_step,
)

log = structlog.get_logger("gnomon.store")

# More than deadlock_timeout (1 s): an autovacuum that is in the way is cancelled only then.
LOCK_SECONDS = 2.0
# Batches lock rows. Less than deadlock_timeout: where a migration and a node wait for each other,
# the migration gives way.
ROW_LOCK_SECONDS = 0.5
PATIENCE_SECONDS = 600.0
_MOST_SMALL = 10_000  # rows, of which an index is made in the time of a short transaction
_PAUSE_SECONDS = 0.25
_MOST_PAUSE_SECONDS = 5.0
_MOST_REST_SECONDS = 0.1
# Connections end their statements after 30 s; a step takes as long as it takes.
NO_TIMEOUT = 30 * 86400.0

BUSY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class StepProgress(msgspec.Struct, frozen=True):
    """How far a step is, after a batch, at its end, or when it has to wait."""

    migration: Migration
    step: MigrationStep
    finished: bool = False
    rows: int = 0  # changed by its batches so far
    waits: str = ""  # why it could not be run and is tried again


OnProgress = Callable[[StepProgress], None]


def to_log(progress: StepProgress) -> None:
    """Log progress: for a process that migrates at its start."""
    where = {"migration": str(progress.migration), "step": progress.step.number}
    if progress.waits:
        log.info("a migration step waits for a lock, retrying", **where, why=progress.waits)
    elif progress.finished:
        log.info("finished a migration step", **where, rows=progress.rows)
    else:
        log.debug("a migration step is in progress", **where, rows=progress.rows)


def to_nobody(_: StepProgress) -> None:
    """Show nothing: every step of a new database takes a moment."""


class Patience:
    """Pauses between tries to get a lock, longer and longer; ends after `PATIENCE_SECONDS`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pause = _PAUSE_SECONDS
        self._ends_at = clock.monotonic() + PATIENCE_SECONDS

    async def wait(self, connection: Connection, migration: Migration, why: Exception) -> None:
        if self._clock.monotonic() > self._ends_at:
            raise MigrationError(
                f"migration {migration} could not get a lock within {PATIENCE_SECONDS:g} s: {why}; "
                f"{await _oldest_transaction(connection)}; run `gnomon migrate` again when it has "
                "ended, the migration goes on where it was"
            ) from why
        await self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, _MOST_PAUSE_SECONDS)


async def run(
    connection: Connection, migration: Migration, step: MigrationStep, record: Record
) -> StepProgress:
    """Run a step, or the next of its batches, in the transaction that the connection is in."""
    if step.kind is StepKind.BATCHES:
        return await _run_batch(connection, migration, step, record)
    await _limit_locks(connection, LOCK_SECONDS)
    await connection.execute(step.text, timeout=NO_TIMEOUT)
    await record_step(connection, migration, step)
    return StepProgress(migration, step, finished=True)


async def undo(connection: Connection, migration: Migration) -> None:
    """Run the way back, in the transaction that the connection is in."""
    await _limit_locks(connection, LOCK_SECONDS)
    await connection.execute(migration.down, timeout=NO_TIMEOUT)


async def rest(clock: Clock, seconds: float) -> None:
    """Leave the database to others after a batch, for as long as the batch took."""
    await clock.sleep(min(seconds, _MOST_REST_SECONDS))


async def _run_batch(
    connection: Connection, migration: Migration, step: MigrationStep, record: Record
) -> StepProgress:
    recorded = record.steps.get((migration.version, step.number))
    position, before = (None, 0) if recorded is None else (recorded.position, recorded.rows)
    await _limit_locks(connection, ROW_LOCK_SECONDS)
    row = await connection.fetchrow(step.text, position, timeout=NO_TIMEOUT)
    if row is None or not {"position", "rows"} <= set(row.keys()):
        raise MigrationError(
            f"step {step.number} ({step.name}) of migration {migration} must return one row with "
            "`position` and `rows`"
        )
    finished = row["position"] is None
    if not finished and row["position"] == position:
        raise MigrationError(
            f"step {step.number} ({step.name}) of migration {migration} does not get on: its batch "
            f"returned the position it was given, {position}"
        )
    await record_step(
        connection, migration, step, finished=finished, position=row["position"], rows=row["rows"]
    )
    return StepProgress(migration, step, finished, before + row["rows"])


async def run_index(
    connection: Connection, clock: Clock, migration: Migration, step: MigrationStep
) -> StepProgress:
    """Make or drop an index concurrently, outside of a transaction."""
    if is_pooled(connection):
        return await _run_small_index(connection, clock, migration, step)
    recorded = False
    async with index_session(connection, clock):
        if _is_next(migration, step, await read(connection)):
            await _make_or_drop(connection, step)
            async with exclusive(connection, clock) as record:
                # Another process may have undone the migration, and dropped the index with it.
                recorded = _is_next(migration, step, record) and await _is_done(connection, step)
                if recorded:
                    await record_step(connection, migration, step)
    return StepProgress(migration, step, finished=recorded)


async def _run_small_index(
    connection: Connection, clock: Clock, migration: Migration, step: MigrationStep
) -> StepProgress:
    """Make or drop the index of a small table in a transaction, where nobody has a session."""
    recorded = False
    async with exclusive(connection, clock) as record:
        if _is_next(migration, step, record):
            await _limit_locks(connection, LOCK_SECONDS)
            if not await _is_done(connection, step):
                await _make_or_drop_small(connection, migration, step)
            await record_step(connection, migration, step)
            recorded = True
    return StepProgress(migration, step, finished=recorded)


async def _make_or_drop_small(
    connection: Connection, migration: Migration, step: MigrationStep
) -> None:
    statement = index_statement(step)
    if statement.table is not None:
        some = f"SELECT FROM gnomon.{statement.table} OFFSET $1 LIMIT 1"
        if await connection.fetchrow(some, _MOST_SMALL) is not None:
            raise MigrationError(
                f"migration {migration} makes an index concurrently, which needs a session of its "
                "own, and a pooler is in between; set GNOMON_DATABASE_DIRECT_URL, and run "
                "`gnomon migrate`"
            )
        await connection.execute(f"DROP INDEX IF EXISTS gnomon.{statement.index}")
    await connection.execute(step.text.replace(" CONCURRENTLY ", " "), timeout=NO_TIMEOUT)


def _is_next(migration: Migration, step: MigrationStep, record: Record) -> bool:
    return not is_applied(migration, record) and record.next_step(migration) is step


async def _is_done(connection: Connection, step: MigrationStep) -> bool:
    """Whether the index that a step makes can be used, or the one that it drops is gone."""
    statement = index_statement(step)
    found = await _find_index(connection, statement.index)
    return found is None if statement.table is None else found is not None and found["valid"]


async def _find_index(connection: Connection, name: str) -> asyncpg.Record | None:
    return await connection.fetchrow(
        """
        SELECT i.indisvalid AS valid, t.relname AS "table"
        FROM pg_index AS i JOIN pg_class AS t ON t.oid = i.indrelid
        WHERE i.indexrelid = to_regclass('gnomon.' || $1)
        """,
        name,
    )


async def _make_or_drop(connection: Connection, step: MigrationStep) -> None:
    statement = index_statement(step)
    drop = f"DROP INDEX CONCURRENTLY IF EXISTS gnomon.{statement.index}"
    if statement.table is None:
        await connection.execute(drop, timeout=NO_TIMEOUT)
        return
    found = await _find_index(connection, statement.index)
    if found is not None and found["table"] != statement.table:
        raise MigrationError(
            f"{statement.index} is an index of {found['table']}, not of {statement.table}; "
            "rename or drop it"
        )
    if found is not None and found["valid"]:
        return  # a process was killed after making it and before recording it
    if found is not None:
        log.info("dropping an index that was not finished", index=statement.index)
        await connection.execute(drop, timeout=NO_TIMEOUT)
    try:
        await connection.execute(step.text, timeout=NO_TIMEOUT)
    except asyncpg.PostgresError:
        # Half of an index helps nobody, and costs every write.
        if not connection.is_closed():
            await connection.execute(drop, timeout=NO_TIMEOUT)
        raise


async def _limit_locks(connection: Connection, seconds: float) -> None:
    await connection.execute(
        f"SET LOCAL lock_timeout = '{seconds * 1000:.0f}ms'; SET LOCAL statement_timeout = 0"
    )


async def _oldest_transaction(connection: Connection) -> str:
    row = await connection.fetchrow(
        """
        SELECT pid, application_name AS name, extract(epoch FROM age(clock_timestamp(), xact_start))
            AS seconds
        FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
        ORDER BY xact_start LIMIT 1
        """
    )
    if row is None:
        return "no other transaction is open now"
    return (
        f"the oldest open transaction has the process id {row['pid']} ({row['name'] or 'unnamed'}) "
        f"and began {row['seconds']:.0f} s ago"
    )
