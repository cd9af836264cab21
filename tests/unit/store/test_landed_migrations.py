"""A migration that has landed is never edited: databases have taken it as it was."""

from pathlib import Path

from gnomon.store.postgres import migrate

LANDED = Path(__file__).with_name("landed_migrations.txt")


def landed() -> dict[str, str]:
    lines = (line.partition(" ") for line in LANDED.read_text().splitlines())
    return {name: checksum for name, _, checksum in lines}


def name_of(step: migrate.Migration) -> str:
    return f"{step.version:04d}_{step.name}"


def test_no_landed_migration_was_edited() -> None:
    present = {name_of(step): step.checksum for step in migrate.migrations()}
    for name, checksum in landed().items():
        assert present.get(name) == checksum, (
            f"migration {name} has landed and was edited, renamed or removed since: databases that "
            "took it would be refused. Restore its up file, and write a new migration instead."
        )


def test_every_migration_is_on_the_list() -> None:
    for step in migrate.migrations():
        assert name_of(step) in landed(), (
            f"migration {name_of(step)} is new. When its text is final, add this line to {LANDED}; "
            f"from then on it is never edited:\n{name_of(step)} {step.checksum}"
        )
