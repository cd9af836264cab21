"""Databases that the migrations before the baseline have made. Their files are kept beside this
one, only for that."""

from pathlib import Path

from tests.integration.support import Connection

from gnomon.store.postgres import migrate

FOLDER = Path(__file__).with_name("old_migrations")
NEWEST = 18


def replaced() -> list[tuple[int, str, str, str]]:
    """Version, name, text and recorded checksum of each migration that the baseline replaces."""
    (baseline,) = (m for m in migrate.migrations() if m.replaces)
    return [
        (
            old.version,
            old.name,
            (FOLDER / f"{old.version:04d}_{old.name}.sql").read_text(),
            old.checksum,
        )
        for old in baseline.replaces
    ]


async def migrate_as_before(connection: Connection, to: int = NEWEST) -> None:
    """Make what the release before the baseline made, with its record."""
    await connection.execute(
        """
        CREATE SCHEMA IF NOT EXISTS gnomon;
        CREATE TABLE IF NOT EXISTS gnomon.migration (
            version    integer PRIMARY KEY,
            name       text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            checksum   text
        )
        """
    )
    for version, name, text, checksum in replaced():
        if version <= to:
            await connection.execute(text)
            await connection.execute(
                "INSERT INTO gnomon.migration (version, name, checksum) VALUES ($1, $2, $3)",
                version,
                name,
                checksum,
            )
