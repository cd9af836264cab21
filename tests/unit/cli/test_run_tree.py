"""A run of a workflow as a tree of text."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gnomon.cli.shared.tables import cell_length
from gnomon.cli.workflows.run_tree import counted, fitted, tree
from gnomon.cli.workflows.run_views import screen

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def node(name: str, *after: str, status: str = "BLOCKED", **more: Any) -> dict[str, Any]:
    fields = {"attempt": 0, "started_at": None, "finished_at": None, "error": None}
    return {"node": name, "after": list(after), "status": status, "waits_for": [], **fields, **more}


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


ORDER = [
    node("reserve", status="COMPLETED", started_at=ago(9), finished_at=ago(8)),
    node("charge", "reserve", status="COMPLETED", started_at=ago(8), finished_at=ago(4), attempt=2),
    node("ship", "charge", status="RUNNING", started_at=ago(3.2)),
    node("label", "ship", waits_for=["ship"]),
    node("pack", "ship", waits_for=["ship"]),
    node("notify", "charge", status="DEAD_LETTERED", error="nobody\nanswers"),
    node("done", "label", "pack", "notify", waits_for=["label", "pack", "notify"]),
]


def texts(nodes: list[dict[str, Any]], width: int = 80) -> list[str]:
    return [line.text for line in tree(nodes, NOW, width)]


def test_branches_step_to_the_right_and_come_together_again() -> None:
    assert texts(ORDER) == [
        "✓ reserve      COMPLETED  1s",
        "✓ charge       COMPLETED  4s  attempt 2",
        "├─ ▶ ship      RUNNING    3.2s",
        "│  ├─ · label  BLOCKED",
        "│  └─ · pack   BLOCKED",
        "└─ ✕ notify    DEAD_LETTERED  nobody answers",
        "· done         BLOCKED    waits for label, pack, notify",
    ]


def test_nodes_may_come_in_any_order() -> None:
    lines = texts(ORDER[::-1])
    assert len(lines) == len(ORDER)
    assert lines[0].startswith("✓ reserve")
    assert lines[-1].startswith("· done")


def test_a_long_chain_stays_narrow() -> None:
    chain = [node("n0"), *(node(f"n{n}", f"n{n - 1}") for n in range(1, 300))]
    lines = texts(chain)
    assert len(lines) == 300
    assert all(line.startswith("· n") for line in lines)


def test_deep_branches_stop_stepping_to_the_right() -> None:
    nodes = [node("n0")]
    for n in range(1, 40):
        nodes += [node(f"n{n}", f"n{n - 1}"), node(f"m{n}", f"n{n - 1}")]
    assert len(texts(nodes)) == len(nodes)
    assert all(cell_length(line) <= 80 for line in texts(nodes))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = [node("x" * 90, status="FAILED", error="e" * 200), *ORDER]
    assert all(cell_length(line) <= width for line in texts(long, width))


def test_of_more_lines_than_fit_the_active_ones_are_shown() -> None:
    many = [*(node(f"n{n}", status="COMPLETED") for n in range(50)), *ORDER]
    shown = fitted(tree(many, NOW, 80), 10)
    assert [line.status for line in shown[:-1]] == ["RUNNING", "DEAD_LETTERED"]
    assert shown[-1].text == "… and 55 more nodes"
    assert len(fitted(tree(many, NOW, 80), 100)) == 57


def test_a_screen_has_a_heading_and_a_count() -> None:
    run = {"workflow": "order", "version": 3, "status": "FAILED", "created_at": ago(61)}
    lines = screen({**run, "nodes": ORDER}, NOW, 80, 24)
    assert lines[0].text == "order, version 3  FAILED, for 1m"
    assert lines[-1].text == "2 COMPLETED, 1 RUNNING, 3 BLOCKED, 1 DEAD_LETTERED"
    assert counted([]) == ""
