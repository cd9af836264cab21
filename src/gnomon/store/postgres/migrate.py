"""Numbered migrations, up and down. Safe when several processes start at once."""

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import asyncpg
import msgspec

_NAME = re.compile(r"(\d{4})_(\w+)\.(up|down)\.sql")
# Any fixed number will do: it keeps two migrating processes apart, for one transaction each.
_LOCK = 0x676E6F6D6F6E


class MigrationError(Exception):
    """The schema cannot be brought where it was asked to be."""


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    version: int
    name: str
    up: str
    down: str


class AppliedMigration(msgspec.Struct, frozen=True):
    """A step and whether the database has taken it."""

    version: int
    name: str
    applied: bool


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
    applied = await _applied(connection)
    return [AppliedMigration(m.version, m.name, m.version in applied) for m in migrations()]


async def up(connection: "asyncpg.Connection[Any]", to: int | None = None) -> list[Migration]:
    """Take every step up to `to` (None: all) that was not taken; gives those taken now."""
    known = migrations()
    taken = []
    for step in known if to is None else [m for m in known if m.version <= to]:
        async with connection.transaction():
            applied = await _locked(connection, known)
            if step.version in applied:
                continue
            await connection.execute(step.up)
            await connection.execute(
                "INSERT INTO gnomon.migration (version, name) VALUES ($1, $2)",
                step.version,
                step.name,
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
) -> frozenset[int]:
    """Keep other migrating processes out until the transaction ends; gives the steps taken."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
    await connection.execute(
        """
        CREATE SCHEMA IF NOT EXISTS gnomon;
        CREATE TABLE IF NOT EXISTS gnomon.migration (
            version    integer PRIMARY KEY,
            name       text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
        )
        """
    )
    applied = await _applied(connection)
    unknown = applied - {m.version for m in known}
    if unknown:
        raise MigrationError(
            f"the database has migration {max(unknown)}, which this release does not know; "
            "start the newer release, or migrate down with it first"
        )
    return applied


async def _applied(connection: "asyncpg.Connection[Any]") -> frozenset[int]:
    if await connection.fetchval("SELECT to_regclass('gnomon.migration')") is None:
        return frozenset()
    rows = await connection.fetch("SELECT version FROM gnomon.migration")
    return frozenset(row["version"] for row in rows)
