"""A node stops in time although its functions do not."""

import time
from pathlib import Path
from uuid import UUID

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Process, Submitter, Truth, eventually

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State

pytestmark = pytest.mark.system

# Neither ever ends. What they were told is in a file, for the test to see.
HANDLERS = """
import asyncio
import time
from gnomon import Gnomon

app = Gnomon()


def note(name):
    with open("begun", "a") as begun:
        print(name, file=begun)


@app.task
async def hang(payload):
    note("hang")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@app.task
def hang_in_thread(payload):
    note("hang_in_thread")
    while True:
        time.sleep(0.1)
"""
DRAIN = 1.0
# After the drain: 5 s for what was interrupted, a second each to settle and to end what is left.
IN_TIME = DRAIN + 5.0 + 2.0
LOAD = 5.0  # the machine may have other things to do


def stubborn_node(new_node: NewProcess, folder: Path, grace: float) -> Process:
    (folder / "stubborn.py").write_text(HANDLERS)
    return new_node(
        "node",
        node_app="stubborn:app",
        node_slots=5,
        node_drain_seconds=DRAIN,
        node_timeout_grace_seconds=grace,
    )


async def hanging(
    node: Process, submitter: Submitter, folder: Path, timeout_seconds: float
) -> list[UUID]:
    """Both functions, under way."""
    await node.started()
    ids = []
    for name in ("hang", "hang_in_thread"):
        target = PythonTarget(name)
        ids += await submitter.submit(target, 1, timeout_seconds=timeout_seconds)

    async def begun() -> bool:
        file = folder / "begun"
        return file.exists() and len(file.read_text().split()) >= 2

    await eventually(begun)
    return ids


async def stopped(node: Process) -> None:
    """End it as an operator does; it must not take too long, nor die of it."""
    node.terminate()
    asked_at = time.monotonic()
    assert await node.code(60.0) == 0, node.text()[-4000:]
    took = time.monotonic() - asked_at
    print(f"stopped {took:.1f} s after it was asked to")
    assert took < IN_TIME + LOAD


@pytest.mark.parametrize("grace", [2.0, 60.0], ids=["given up before", "given up at the end"])
async def test_a_node_stops_in_time_while_functions_ignore_it(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path, grace: float
) -> None:
    node = stubborn_node(new_node, tmp_path, grace)
    ids = await hanging(node, submitter, tmp_path, timeout_seconds=300)
    await stopped(node)
    # They were given back by the node itself, as interrupted: no other has to find them lost.
    rows = await truth.fetch("SELECT state, losses FROM gnomon.task WHERE id = ANY($1)", ids)
    assert {tuple(row) for row in rows} == {(State.WAITING, 0)}
    tried = await truth.fetch("SELECT outcome, error FROM gnomon.execution ORDER BY error")
    reason = "the node shut down before the execution ended; it"
    assert [tuple(row) for row in tried] == [
        (OutcomeKind.CANCELLED, f"{reason} goes on in its thread, which cannot be stopped"),
        (OutcomeKind.CANCELLED, f"{reason} ignored its cancellation"),
    ]
    assert await truth.living() == {}


async def test_a_node_does_not_wait_for_functions_that_it_has_given_up(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    node = stubborn_node(new_node, tmp_path, grace=2.0)
    ids = await hanging(node, submitter, tmp_path, timeout_seconds=0.2)

    async def all_given_up() -> bool:
        told = node.said("a handler ignores its cancellation")
        return {e["task_id"] for e in told} >= {str(task) for task in ids}

    await eventually(all_given_up)
    told = node.said("a handler ignores its cancellation")
    assert {(e["function"], e["runs_in"], e["level"]) for e in told} == {
        ("hang", "loop", "warning"),
        ("hang_in_thread", "thread", "warning"),
    }
    assert all(e["seconds_over"] < 30 for e in told)
    await stopped(node)
    assert await truth.living() == {}


async def test_a_node_whose_threads_all_hang_ends_instead_of_failing_whatever_it_claims(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(HANDLERS)
    node = new_node("node", node_app="stubborn:app", node_slots=2, targets_threads=1)
    await node.started()
    target = PythonTarget("hang_in_thread")
    ids = await submitter.submit(target, 20, timeout_seconds=0.2)
    assert await node.code(60.0) == 1, node.text()[-4000:]
    (told,) = node.said("a slot has died, and the node ends with it")
    assert told["level"] == "error"
    assert told["why"] == "10 handlers hang in threads of this node; it can begin no more"
    rows = await truth.fetch("SELECT state FROM gnomon.task WHERE id = ANY($1)", ids)
    assert len(rows) == 20
    tried = await truth.fetch("SELECT DISTINCT outcome FROM gnomon.execution")
    assert {row["outcome"] for row in tried} == {OutcomeKind.TIMED_OUT}
