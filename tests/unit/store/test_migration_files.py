"""The format of migrations: what is read from their files, and what is refused."""

from pathlib import Path

import pytest

from gnomon.store.postgres.migrate import MigrationUnreadable, StepKind, migrations

CONCURRENTLY = "CREATE INDEX CONCURRENTLY task_x ON gnomon.task (x);"
BATCHES = "UPDATE gnomon.task SET x = 1 WHERE id > $1::jsonb RETURNING '1' AS position, 1 AS rows;"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def refused(folder: Path, files: dict[str, str]) -> str:
    with pytest.raises(MigrationUnreadable) as told:
        migrations(write(folder, files))
    return str(told.value)


PAIR = {"0001_a.up.sql": "SELECT 1;", "0001_a.down.sql": "SELECT 2;"}
STEPS = {
    "0002_b/1_one.sql": "SELECT 1;",
    "0002_b/2_two.concurrently.sql": f"-- Why; and how.\n{CONCURRENTLY}",
    "0002_b/3_three.batches.sql": BATCHES,
    "0002_b/down.sql": "SELECT 2;",
}


def test_pairs_and_folders_are_read_in_order(tmp_path: Path) -> None:
    first, second = migrations(write(tmp_path, STEPS | PAIR))
    assert (str(first), first.down) == ("0001 a", "SELECT 2;")
    assert [(s.number, s.name, s.kind) for s in first.steps] == [(1, "a", StepKind.TRANSACTION)]
    assert (str(second), second.down) == ("0002 b", "SELECT 2;")
    assert [(s.number, s.name, s.kind) for s in second.steps] == [
        (1, "one", StepKind.TRANSACTION),
        (2, "two", StepKind.CONCURRENTLY),
        (3, "three", StepKind.BATCHES),
    ]


def test_the_checksum_is_of_all_steps_and_not_of_the_way_back(tmp_path: Path) -> None:
    (before,) = migrations(write(tmp_path / "a", STEPS))
    back = {"0002_b/down.sql": "SELECT 3;"}
    (other_way_back,) = migrations(write(tmp_path / "b", STEPS | back))
    (other_step,) = migrations(write(tmp_path / "c", STEPS | {"0002_b/1_one.sql": "SELECT 3;"}))
    assert before.checksum == other_way_back.checksum
    assert before.checksum != other_step.checksum


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("readme.sql", "SELECT 1;", "migrations/readme.sql has no name of a migration"),
        ("0003_c.up.sql", "SELECT 1;", "0003_c has no file 0003_c.down.sql"),
        ("0003_c/1_one.sql", "SELECT 1;", "0003_c has no file 0003_c/down.sql"),
        ("0003_c/down.sql", "SELECT 1;", "numbers 1, 2, 3, …; found: none"),
        ("0001_b.up.sql", "SELECT 1;", "two migrations have the number 0001: a and b"),
        ("0001_a/1_one.sql", "SELECT 1;", "0001_a is both a folder and a pair of files"),
        ("0002_b/5_five.sql", "SELECT 1;", "numbers 1, 2, 3, …; found: 1, 2, 3, 5"),
        ("0002_b/3_too.sql", "SELECT 1;", "numbers 1, 2, 3, …; found: 1, 2, 3, 3"),
        ("0002_b/4_x.slowly.sql", "SELECT 1;", "0002_b/4_x.slowly.sql has no name of a step"),
        ("0002_b/notes.txt", "later", "0002_b/notes.txt has no name of a step"),
        ("0002_b/1_one.sql", "-- only words\n", "0002_b/1_one.sql has no statement in it"),
        ("0002_b/1_one.sql", CONCURRENTLY, "0002_b/1_one.sql has a statement with CONCURRENTLY"),
        ("0002_b/2_two.concurrently.sql", f"{CONCURRENTLY} SELECT 1;", "must be one statement"),
        ("0002_b/2_two.concurrently.sql", "CREATE INDEX a ON gnomon.b (c);", "CONCURRENTLY name"),
        (
            "0002_b/2_two.concurrently.sql",
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS a ON gnomon.b (c);",
            "no IF NOT EXISTS",
        ),
        ("0002_b/3_three.batches.sql", "UPDATE a SET b = 1;", "not found: $1, position, rows"),
        ("0002_b/3_three.batches.sql", f"SELECT 1; {BATCHES}", "must be one statement"),
        ("0001_a.replaces.txt", "0000_z abc", "must have a line `commit ID`"),
    ],
)
def test_a_file_that_does_not_follow_the_format_is_refused(
    tmp_path: Path, file: str, text: str, told: str
) -> None:
    assert told in refused(tmp_path, PAIR | STEPS | {file: text})


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    write(tmp_path, PAIR)
    (tmp_path / "0001_a.up.sql").write_bytes(b"SELECT '\xff';")
    with pytest.raises(MigrationUnreadable, match=r"0001_a\.up\.sql cannot be read: .*utf-8"):
        migrations(tmp_path)
