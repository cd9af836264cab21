"""Brings the schema of a database to a version, up or down, and tells which it has."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import asyncpg
import msgspec

from gnomon.clock import Clock, SystemClock
from gnomon.store.postgres.migrate import steps
from gnomon.store.postgres.migrate.errors import MigrationError
from gnomon.store.postgres.migrate.files import Migration, MigrationStep, StepKind, migrations
from gnomon.store.postgres.migrate.record import (
    Connection,
    Record,
    adopt,
    check,
    exclusive,
    expected_checksum,
    forget,
    is_adopted,
    is_applied,
    is_edited,
    read,
)
from gnomon.store.postgres.migrate.steps import OnProgress, Patience, StepProgress, to_log


class AppliedMigration(msgspec.Struct, frozen=True):
    """A migration and whether the database has applied it; `edited` where it was another text."""

    version: int
    name: str
    applied: bool
    applied_at: datetime | None = None
    edited: bool = False
    steps: tuple[MigrationStep, ...] = ()
    finished_steps: int = 0  # where it is not applied yet


async def status(
    connection: Connection, known: Sequence[Migration] | None = None
) -> list[AppliedMigration]:
    """Every migration of this release, applied or not."""
    record = await read(connection)
    return [_state(m, record) for m in (migrations() if known is None else known)]


async def refusal(connection: Connection) -> str | None:
    """Why `up` would refuse this database, and what to do; None where it would not."""
    try:
        check(migrations(), await read(connection))
    except MigrationError as error:
        return str(error)
    return None


async def up(
    connection: Connection,
    to: int | None = None,
    *,
    known: Sequence[Migration] | None = None,
    on_progress: OnProgress = to_log,
    clock: Clock | None = None,
) -> list[Migration]:
    """Apply every migration up to `to` (None: all); returns those that were finished now."""
    known = migrations() if known is None else known
    wanted = [m for m in known if to is None or m.version <= to]
    record = await read(connection)
    check(known, record)
    if all(is_adopted(m, record) for m in wanted):
        return []  # most processes that start: they need not wait for each other
    run = _Run(connection, known, on_progress, clock or SystemClock())
    return [m for m in wanted if await run.apply(m)]


async def down(
    connection: Connection,
    to: int,
    *,
    known: Sequence[Migration] | None = None,
    clock: Clock | None = None,
) -> list[Migration]:
    """Undo every migration above `to`, newest first, also one whose steps are not all finished."""
    known = migrations() if known is None else known
    if to not in (0, *(m.version for m in known)):
        raise MigrationError(
            f"there is no migration {to} to go back to: this release has "
            f"{', '.join(str(m) for m in known)}; 0 undoes all"
        )
    run = _Run(connection, known, to_log, clock or SystemClock())
    wanted = [m for m in reversed(known) if m.version > to]
    return [m for m in wanted if await run.undo(m)]


async def accept(connection: Connection, version: int, clock: Clock | None = None) -> str:
    """Record the present text of a migration as the applied one: the operator has checked.

    Returns its name.
    """
    for migration in migrations():
        names = {old.version: old.name for old in migration.replaces}
        names[migration.version] = migration.name
        if version in names:
            break
    else:
        raise MigrationError(f"this release has no migration {version}")
    name = f"{version:04d} {names[version]}"
    async with exclusive(connection, clock or SystemClock()) as record:
        if version not in record.applied:
            raise MigrationError(f"the database has not applied migration {name}")
        await connection.execute(
            "UPDATE gnomon.migration SET checksum = $2 WHERE version = $1",
            version,
            expected_checksum(migration, version, record),
        )
    return name


def _state(migration: Migration, record: Record) -> AppliedMigration:
    recorded = record.applied.get(migration.version)
    finished = sum(
        1
        for (version, _), step in record.steps.items()
        if version == migration.version and step.finished
    )
    return AppliedMigration(
        migration.version,
        migration.name,
        recorded is not None,
        None if recorded is None else recorded.applied_at,
        is_edited(migration, record),
        migration.steps,
        finished,
    )


class _Run:
    """One call of `up` or `down`."""

    def __init__(
        self,
        connection: Connection,
        known: Sequence[Migration],
        on_progress: OnProgress,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._known = known
        self._on_progress = on_progress
        self._clock = clock
        self._step: MigrationStep | None = None  # that was run last

    async def apply(self, migration: Migration) -> bool:
        """Run the steps that are left. Whether this call has finished the last of them."""
        patience = Patience(self._clock)
        finished: MigrationStep | None = None
        while True:
            began = self._clock.monotonic()
            try:
                progress = await self._advance(migration)
            except steps.BUSY as error:
                waits = StepProgress(migration, self._step or migration.steps[0], waits=str(error))
                self._on_progress(waits)
                await patience.wait(self._connection, migration, error)
                continue
            if progress is None:
                return finished is migration.steps[-1]
            self._on_progress(progress)
            if progress.finished:
                finished = progress.step
            else:
                await steps.rest(self._clock, self._clock.monotonic() - began)
            patience = Patience(self._clock)

    async def _advance(self, migration: Migration) -> StepProgress | None:
        """Run the next step, or one batch of it. None: the migration is applied."""
        async with exclusive(self._connection, self._clock) as record:
            check(self._known, record)
            await adopt(self._connection, self._known, record)
            if is_applied(migration, record):
                return None
            step = self._step = record.next_step(migration)
            if step.kind is not StepKind.CONCURRENTLY:
                with _named(migration, step):
                    return await steps.run(self._connection, migration, step, record)
        with _named(migration, step):
            return await steps.run_index(self._connection, self._clock, migration, step)

    async def undo(self, migration: Migration) -> bool:
        """Undo a migration, or as many of its steps as there are. Whether there was anything."""
        patience = Patience(self._clock)
        while True:
            try:
                async with exclusive(self._connection, self._clock) as record:
                    check(self._known, record, edited=False)
                    if not is_applied(migration, record) and not record.begun(migration):
                        return False
                    await steps.undo(self._connection, migration)
                    await forget(self._connection, migration)
                    return True
            except steps.BUSY as error:
                await patience.wait(self._connection, migration, error)


@contextmanager
def _named(migration: Migration, step: MigrationStep) -> Iterator[None]:
    """Say in an error of PostgreSQL which step it comes from."""
    try:
        yield
    except asyncpg.PostgresError as error:
        error.add_note(f"in step {step.number} ({step.name}) of migration {migration}")
        raise
