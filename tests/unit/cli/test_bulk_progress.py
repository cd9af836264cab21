"""The line that says how far a bulk operation is."""

from typing import Any

import pytest

from gnomon.cli.tasks.bulk import progress_bar


def found(done: int, total: int, *, capped: bool = False) -> dict[str, Any]:
    return {"action": "retry", "done": done, "total": total, "total_capped": capped}


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        (found(0, 100), f"retry [{'.' * 30}] 0 of 100"),
        (found(50, 100), f"retry [{'#' * 15}{'.' * 15}] 50 of 100"),
        (found(99, 100), f"retry [{'#' * 29}.] 99 of 100"),
        (found(100, 100), f"retry [{'#' * 30}] 100 of 100"),
        (found(12, 10), f"retry [{'#' * 30}] 12 of 10"),
        (found(12_000, 10_000, capped=True), "retry: 12000 of 10000+"),
        (found(0, 0), "retry: 0 of 0"),
    ],
    ids=str,
)
def test_it_fills_as_far_as_is_done(operation: dict[str, Any], line: str) -> None:
    assert progress_bar(operation) == line
