"""Numbered migrations, up and down. Safe when several processes start at once.

Each applied step is stored with the checksum of its up text. A step whose text has changed since
then is refused: the database is not what this release takes it for.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

import asyncpg
import msgspec
import structlog

log = structlog.get_logger("gnomon.store")

_NAME = re.compile(r"(\d{4})_(\w+)\.(up|down)\.sql")
# Any fixed number will do: it keeps two migrating processes apart, for one transaction each.
_LOCK = 0x676E6F6D6F6E
_REMEDY = (
    "start the release that it came from, or restore the file; or, for a development database, "
    "start over (`DROP SCHEMA gnomon CASCADE`, or for the embedded server remove the folder "
    "`postgres` of the data directory, then `gnomon migrate`; all tasks are lost); or, "
    "after checking that the schema is what the file says, run `gnomon migrate accept {version}`"
)


class MigrationError(Exception):
    """The schema cannot be brought where it was asked to be."""


class MigrationEdited(MigrationError):
    """A step is not the one that the database has taken."""


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    version: int
    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        """Of the up text, whatever its line ends."""
        return hashlib.sha256(_normalised(self.up).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.version:04d} {self.name}"


class AppliedMigration(msgspec.Struct, frozen=True):
    """A step and whether the database has taken it; `edited` where it has taken another text."""

    version: int
    name: str
    applied: bool
    applied_at: datetime | None = None
    edited: bool = False


class _Taken(msgspec.Struct, frozen=True):
    """What the database says of a step; `checksum` is None where an older release took it."""

    applied_at: datetime
    checksum: str | None


def migrations() -> list[Migration]:
    """All steps that this release knows, in order."""
    found: dict[int, dict[str, str]] = {}
    for file in files(__package__).joinpath("migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            step = found.setdefault(int(match[1]), {"name": match[2]})
            step[match[3]] = file.read_text()
    return [Migration(version, **step) for version, step in sorted(found.items())]


async def status(connection: "asyncpg.Connection[Any]") -> list[AppliedMigration]:
    """Every known step, taken or not."""
    taken = await _taken(connection)
    return [_state(step, taken.get(step.version)) for step in migrations()]


def _state(step: Migration, taken: _Taken | None) -> AppliedMigration:
    if taken is None:
        return AppliedMigration(step.version, step.name, applied=False)
    edited = taken.checksum not in (None, step.checksum)
    return AppliedMigration(step.version, step.name, True, taken.applied_at, edited)


async def accept(connection: "asyncpg.Connection[Any]", version: int) -> Migration:
    """Take the present text of a step for the one that was applied: the operator has checked."""
    step = next((m for m in migrations() if m.version == version), None)
    if step is None:
        raise MigrationError(f"this release has no migration {version}")
    async with connection.transaction():
        await _lock(connection)
        updated = await connection.execute(
            "UPDATE gnomon.migration SET checksum = $2 WHERE version = $1", version, step.checksum
        )
    if updated == "UPDATE 0":
        raise MigrationError(f"the database has not taken migration {step}; run `gnomon migrate`")
    return step


async def up(connection: "asyncpg.Connection[Any]", to: int | None = None) -> list[Migration]:
    """Take every step up to `to` (None: all) that was not taken; gives those taken now."""
    known = migrations()
    taken = []
    for step in known if to is None else [m for m in known if m.version <= to]:
        async with connection.transaction():
            applied = await _locked(connection, known)
            await _verify(connection, known, applied)
            if step.version in applied:
                continue
            await connection.execute(step.up)
            await connection.execute(
                "INSERT INTO gnomon.migration (version, name, checksum) VALUES ($1, $2, $3)",
                step.version,
                step.name,
                step.checksum,
            )
            taken.append(step)
    return taken


async def down(connection: "asyncpg.Connection[Any]", to: int) -> list[Migration]:
    """Undo every step above `to`, newest first."""
    known = migrations()
    undone = []
    for step in reversed([m for m in known if m.version > to]):
        async with connection.transaction():
            applied = await _locked(connection, known)
            if step.version not in applied:
                continue
            await connection.execute(step.down)
            await connection.execute(
                "DELETE FROM gnomon.migration WHERE version = $1", step.version
            )
            undone.append(step)
    return undone


async def _locked(
    connection: "asyncpg.Connection[Any]", known: Sequence[Migration]
) -> dict[int, _Taken]:
    """Keep other migrating processes out until the transaction ends; gives the steps taken."""
    await _lock(connection)
    taken = await _taken(connection)
    unknown = taken.keys() - {m.version for m in known}
    if unknown:
        raise MigrationError(
            f"the database has migration {max(unknown)}, which this release does not know; "
            "start the newer release, or migrate down with it first"
        )
    return taken


async def _lock(connection: "asyncpg.Connection[Any]") -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
    await connection.execute(
        """
        CREATE SCHEMA IF NOT EXISTS gnomon;
        CREATE TABLE IF NOT EXISTS gnomon.migration (
            version    integer PRIMARY KEY,
            name       text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            checksum   text                 -- of the up text; null: taken by an older release
        )
        """
    )
    has_checksums = """
        SELECT FROM pg_attribute
        WHERE attrelid = 'gnomon.migration'::regclass AND attname = 'checksum' AND NOT attisdropped
    """
    if await connection.fetchrow(has_checksums) is None:
        await connection.execute("ALTER TABLE gnomon.migration ADD COLUMN checksum text")


async def _taken(connection: "asyncpg.Connection[Any]") -> dict[int, _Taken]:
    if await connection.fetchval("SELECT to_regclass('gnomon.migration')") is None:
        return {}
    # An older release has made the table without checksums.
    rows = await connection.fetch(
        """
        SELECT version, applied_at, to_jsonb(m) ->> 'checksum' AS checksum
        FROM gnomon.migration AS m
        """
    )
    return {row["version"]: _Taken(row["applied_at"], row["checksum"]) for row in rows}


async def _verify(
    connection: "asyncpg.Connection[Any]", known: Sequence[Migration], taken: dict[int, _Taken]
) -> None:
    """Refuse a database that has taken another text of a step than this release has."""
    for step in known:
        applied = taken.get(step.version)
        if applied is not None and _state(step, applied).edited:
            raise MigrationEdited(
                f"migration {step} was edited after this database took it on "
                f"{_day(applied)}: the text then had the checksum {_short(applied.checksum)}, the "
                f"text of this release has {_short(step.checksum)}; {_remedy(step)}"
            )
    unmarked = [step for step in known if step.version in taken]
    unmarked = [step for step in unmarked if taken[step.version].checksum is None]
    if unmarked:
        await _adopt(connection, unmarked, taken)


async def _adopt(
    connection: "asyncpg.Connection[Any]", steps: Collection[Migration], taken: dict[int, _Taken]
) -> None:
    """Store the present checksums of steps that an older release took without any.

    What they were then is not known, but their functions are there to be compared: the body of
    each must be in some step.
    """
    known = [step for step in migrations() if step.version in taken]
    bodies = await connection.fetch(
        """
        SELECT proname, prosrc FROM pg_proc
        WHERE pronamespace = 'gnomon'::regnamespace AND proname <> 'now'  -- tests replace it
        """
    )
    for name, body in bodies:
        if any(_normalised(body) in _normalised(step.up) for step in known):
            continue
        step = _maker(name, known)
        if step is not None and step in steps:
            raise MigrationEdited(
                f"migration {step} was edited after this database took it on "
                f"{_day(taken[step.version])}: gnomon.{name}() is not as in any migration of this "
                f"release; {_remedy(step)}"
            )
    for step in steps:
        await connection.execute(
            "UPDATE gnomon.migration SET checksum = $2 WHERE version = $1",
            step.version,
            step.checksum,
        )
    log.info(
        "stored the checksums of migrations that an older release applied",
        versions=[step.version for step in steps],
    )


def _maker(function: str, known: Sequence[Migration]) -> Migration | None:
    """The last step that defines the function."""
    defines = re.compile(rf"CREATE (OR REPLACE )?FUNCTION gnomon\.{re.escape(function)}\b")
    return next((step for step in reversed(known) if defines.search(step.up)), None)


def _normalised(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _day(taken: _Taken) -> str:
    return f"{taken.applied_at:%Y-%m-%d %H:%M:%S %Z}"


def _short(checksum: str | None) -> str:
    return f"{checksum:.12}…"


def _remedy(step: Migration) -> str:
    return _REMEDY.format(version=step.version)
