"""CRITICAL tasks start on a node that is full, and what gives way to them is not lost."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Process, Receiver, Submitter, Truth, eventually

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.priority import Lane

pytestmark = pytest.mark.system

TRIES = "SELECT array_agg(outcome ORDER BY fence) FROM gnomon.all_executions WHERE task_id = $1"
GIVES_WAY = "a task gives way to a CRITICAL one"
LOW: dict[str, Any] = {"priority": Lane.LOW, "preemptible": True}
URGENT: dict[str, Any] = {"priority": Lane.CRITICAL}

# The first try goes on whatever it is told, the next ones end at once.
STUBBORN = """
import asyncio
import pathlib
from gnomon import Gnomon, TaskContext

app = Gnomon()


@app.task
async def stay(payload, run: TaskContext):
    pathlib.Path(f"begun-{run.attempt}").touch()
    while run.attempt == 1:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pathlib.Path("told").touch()


@app.task
async def go(payload):
    pathlib.Path("went").touch()
"""


async def called(receiver: Receiver, *ids: UUID) -> None:
    async def look() -> bool:
        return receiver.calls_of(ids).keys() == set(ids)

    await eventually(look)


async def test_critical_tasks_start_while_long_ones_hold_every_other_slot(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    receiver.hold()
    node = new_node("node", node_slots=4, node_critical_slots=1)
    await node.started()
    low = await submitter.submit(receiver.url, 1, **LOW)
    plain = await submitter.submit(receiver.url, 2)
    await called(receiver, *low, *plain)
    behind = await submitter.submit(receiver.url, 5, priority=Lane.HIGH)

    # One slot is kept for it.
    first = await submitter.submit(receiver.url, 1, **URGENT)
    await called(receiver, *first)
    assert node.said(GIVES_WAY) == []
    assert receiver.calls_of(behind) == {}

    # No slot is left for the next one, so the task that may be preempted gives way; nobody gives
    # way to the one after that.
    second = await submitter.submit(receiver.url, 1, **URGENT)
    await called(receiver, *second)
    third = await submitter.submit(receiver.url, 1, **URGENT)
    row = await truth.fetch("SELECT retries_left, losses FROM gnomon.task WHERE id = $1", low[0])
    assert [tuple(r) for r in row] == [(3, 0)]
    assert [e["task_id"] for e in node.said(GIVES_WAY)] == [str(low[0])]
    # Nothing of all this has ended anything else.
    ids = [*low, *plain, *behind, *first, *second, *third]
    assert await truth.value("SELECT count(*) FROM gnomon.task") == len(ids)
    assert len(receiver.calls) == 5

    receiver.answer()
    await eventually(lambda: truth.completed(ids))
    assert await truth.value(TRIES, low[0]) == [OutcomeKind.PREEMPTED, OutcomeKind.SUCCEEDED]
    assert receiver.calls_of(ids) == {task: 1 + (task in low) for task in ids}
    errors = await truth.fetch("SELECT error, worker FROM gnomon.execution")
    assert [tuple(r) for r in errors] == [("preempted by a CRITICAL task", "node")]


async def test_nothing_is_lost_when_the_node_is_killed_while_a_task_gives_way(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    node: Process = new_node(
        "node",
        node_slots=1,
        node_prefetch=0,
        node_app="stubborn:app",
        node_timeout_grace_seconds=120,
    )
    low = await submitter.submit(PythonTarget("stay"), 1, timeout_seconds=600, **LOW)

    def seen(name: str) -> bool:
        return (tmp_path / name).exists()

    async def begun() -> bool:
        return seen("begun-1")

    async def told() -> bool:
        return seen("told")

    await eventually(begun)
    urgent = await submitter.submit(PythonTarget("go"), 1, **URGENT)
    await eventually(told)
    assert not seen("went")
    node.kill()
    node.start()
    await eventually(lambda: truth.completed([*low, *urgent]))
    assert seen("begun-2")
    assert await truth.value(TRIES, low[0]) == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]
    assert await truth.value("SELECT count(*) FROM gnomon.task") == 0
