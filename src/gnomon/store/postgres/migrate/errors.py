"""Reasons why the schema cannot be migrated. Each message says what to do."""


class MigrationError(Exception):
    """The schema cannot be brought to the version that was asked for."""


class MigrationEdited(MigrationError):
    """The database has applied another text of a migration than this release has."""


class DatabaseTooOld(MigrationError):
    """The database lacks migrations that this release no longer has."""


class MigrationUnreadable(MigrationError):
    """A file of a migration does not follow the format."""
