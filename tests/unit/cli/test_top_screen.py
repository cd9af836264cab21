"""The screen of `gnomon top` fits, whatever is on it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gnomon.cli.admin.top_screen import Snapshot, facts, screen

AT = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)
NO_DELAY = {"p50": None, "p95": None, "p99": None}


def sums(number: int, **more: Any) -> dict[str, Any]:
    return {
        "submitted": number, "started": number, "succeeded": number, "failed": number // 2,
        "dead": 0, "run_seconds": number / 4, "start_delay": NO_DELAY, **more,
    }  # fmt: skip


def count(number: int, *, capped: bool = False) -> dict[str, Any]:
    return {"count": number, "capped": capped}


def snapshot(types: int = 3, nodes: int = 2, **more: Any) -> Snapshot:
    lanes = [
        {"priority": name, "ready": count(5, capped=True), "running": count(1),
         "oldest_ready_seconds": 7.25}
        for name in ("CRITICAL", "HIGH", "MEDIUM", "LOW")
    ]  # fmt: skip
    activity = {
        "from": "2026-05-01T11:59:00Z",
        "total": sums(900, start_delay={"p50": 0.004, "p95": 0.25, "p99": 3.0}),
        "task_types": [sums(n + 2, task_type=f"type-{n}\x1b[31m" + "x" * 99) for n in range(types)],
    }
    members = [
        {"name": f"node-{n}", "state": "alive", "dead": False, "slots": 10, "running": n,
         "lag_seconds": 100.0 * n}
        for n in range(nodes)
    ]  # fmt: skip
    return Snapshot(
        at=AT, activity=activity, stats={"lanes": lanes}, nodes={"nodes": members}, **more
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (10, 3)])
def test_it_fits(width: int, height: int) -> None:
    lines = screen(snapshot(50, 40), "http://127.0.0.1:8080", width, height)
    assert len(lines) <= max(height, 10)
    assert max(map(len, lines)) <= max(width, 40)
    assert not any("\x1b" in line for line in lines)


def test_it_shows_all_that_there_is_room_for() -> None:
    text = "\n".join(screen(snapshot(), "here", 80, 40))
    for word in (
        "submitted 10.0",
        "p95 250 ms",
        "5+",
        "7.2 s",
        "node-1",
        "slowest",
        "most failing",
    ):
        assert word in text
    whole = "\n".join(screen(snapshot(nodes=2), "here", 80, 24))
    assert "node-0" in whole
    assert "node-1" in whole


def test_what_the_key_may_not_see_is_left_out() -> None:
    seen = Snapshot(at=AT, activity=snapshot().activity, stats=snapshot().stats)
    known = facts(seen)
    assert (known["nodes"], known["tenants"]) == (None, None)
    assert known["rates"]["failed"] == 5.0
    assert not any(line.startswith(("node", "tenant")) for line in screen(seen, "", 80, 40))
