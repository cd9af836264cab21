"""The lines that `gnomon migrate` shows while it works."""

import pytest

from gnomon.cli.admin.migrate import MigrationProgress
from gnomon.store.postgres.migrate import Migration, MigrationStep, StepKind, StepProgress

COLUMN = MigrationStep(1, "column", StepKind.TRANSACTION, "SELECT 1")
INDEX = MigrationStep(2, "by_label", StepKind.CONCURRENTLY, "SELECT 2")
FILL = MigrationStep(3, "fill_the_labels_of_all_tasks", StepKind.BATCHES, "SELECT 3")
LABELS = Migration(21, "labels", (COLUMN, INDEX, FILL), "SELECT 0")


def test_one_line_for_a_step_and_for_many_batches(capsys: pytest.CaptureFixture[str]) -> None:
    progress = MigrationProgress()
    progress.show(StepProgress(LABELS, COLUMN, waits="canceling statement due to lock timeout"))
    progress.show(StepProgress(LABELS, COLUMN, finished=True))
    progress.show(StepProgress(LABELS, INDEX, finished=True))
    for rows in range(2000, 250_000, 2000):
        progress.show(StepProgress(LABELS, FILL, rows=rows))
    progress.show(StepProgress(LABELS, FILL, finished=True, rows=250_000))
    shown = capsys.readouterr()
    assert shown.out == ""  # what was applied is said there, at the end
    assert shown.err.splitlines() == [
        "0021 step 1 column (in one transaction): waiting for a lock, retrying",
        "0021 step 1 column (in one transaction): done",
        "0021 step 2 by_label (index, concurrently): done",
        "0021 step 3 fill_the_labels_of_all_tasks (in batches): 100000 rows",
        "0021 step 3 fill_the_labels_of_all_tasks (in batches): 200000 rows",
        "0021 step 3 fill_the_labels_of_all_tasks (in batches): done, 250000 rows",
    ]
    assert max(map(len, shown.err.splitlines())) <= 80


def test_a_migration_of_one_step_is_not_told_twice(capsys: pytest.CaptureFixture[str]) -> None:
    MigrationProgress().show(StepProgress(Migration(22, "a", (COLUMN,), ""), COLUMN, finished=True))
    assert capsys.readouterr().err == ""
