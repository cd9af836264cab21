"""Numbered migrations, up and down, that a running system need not be stopped for.

Files are read by `files`, what the database has applied is in `record`, `steps` runs one step after
the other, and `schema` is what others call. A migration is recorded with the checksum of its text:
a database that has applied another text is refused, because it is not what this release takes it
for. Several processes may migrate at once, and a killed one is continued by the next.
"""

from gnomon.store.postgres.migrate.errors import (
    DatabaseTooOld,
    MigrationEdited,
    MigrationError,
    MigrationUnreadable,
)
from gnomon.store.postgres.migrate.files import Migration, MigrationStep, StepKind, migrations
from gnomon.store.postgres.migrate.schema import (
    AppliedMigration,
    accept,
    down,
    refusal,
    status,
    up,
)
from gnomon.store.postgres.migrate.steps import StepProgress, to_log, to_nobody

__all__ = [
    "AppliedMigration",
    "DatabaseTooOld",
    "Migration",
    "MigrationEdited",
    "MigrationError",
    "MigrationStep",
    "MigrationUnreadable",
    "StepKind",
    "StepProgress",
    "accept",
    "down",
    "migrations",
    "refusal",
    "status",
    "to_log",
    "to_nobody",
    "up",
]
