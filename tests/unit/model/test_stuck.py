"""Stuck is what nothing known holds up: not what is late, held, or waits its turn."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.model.test_explanation import a_task

from gnomon.model.insight.circumstances import Circumstances, FailingChore, LimitUse
from gnomon.model.insight.explanation import explain
from gnomon.model.insight.stuck import StuckReason, stuck
from gnomon.model.tasks.lifecycle import Status

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
AFTER = timedelta(minutes=5)
LONG_AGO = NOW - timedelta(minutes=6)


def around(**values: Any) -> Circumstances:
    found: dict[str, Any] = {
        "now": NOW, "due_at": LONG_AGO, "shard": 1, "server": "n1", "nodes": 1,
        "server_alive_until": NOW + timedelta(seconds=9),
    }  # fmt: skip
    return Circumstances(**(found | values))


@pytest.mark.parametrize(
    ("status", "values", "reason"),
    [
        (Status.READY, {}, StuckReason.UNSTARTED),
        (Status.READY, {"due_at": NOW - timedelta(minutes=4)}, None),
        (Status.READY, {"server": "busy"}, None),  # no slot
        (Status.READY, {"server": None}, None),
        (Status.READY, {"ahead": 1}, None),
        (Status.READY, {"server_alive_until": NOW - timedelta(seconds=1)}, None),
        (Status.READY, {"limits": (LimitUse("l", 1, None, 1.0, "", 1),)}, None),
        (Status.PAUSED, {}, None),
        (Status.SCHEDULED, {"due_at": NOW + timedelta(hours=1)}, None),
        (Status.RUNNING, {"run_until": NOW - timedelta(seconds=61)}, StuckReason.OVERRUN),
        (Status.RUNNING, {"run_until": NOW - timedelta(seconds=59)}, None),
    ],
)
def test_a_task_is_stuck_where_nothing_holds_it_up(
    status: Status, values: dict[str, Any], reason: StuckReason | None
) -> None:
    found = stuck(a_task(status), around(**values), AFTER, {"n1"})
    assert (None if found is None else found.reason) == reason


def test_a_task_that_nodes_set_aside_is_stuck() -> None:
    one = a_task(Status.READY)
    failing = (FailingChore("claim", "n1", LONG_AGO, f"task {one.task_id}", "it cannot be read"),)
    found = stuck(one, around(failing=failing, ahead=3), AFTER, set())
    assert found is not None
    assert (found.reason, found.since) == (StuckReason.SET_ASIDE, LONG_AGO)


def test_an_explanation_says_so() -> None:
    told = around(stuck_since=LONG_AGO, stuck_reason="unstarted")
    facts = explain(a_task(Status.READY), told).facts
    assert "is stuck (unstarted): it should have moved on at 2026-05-01T11:54:00Z" in facts
