"""A node that dies in the middle of its work, and one that is asked to go."""

import time
from pathlib import Path

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Process, Receiver, Submitter, Truth, eventually, judge

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State

pytestmark = pytest.mark.system

POISON = """
import os
from gnomon import Gnomon

app = Gnomon()

@app.task
def poison(payload):
    os._exit(9)

@app.task
async def harmless(payload):
    return payload
"""


async def test_nothing_is_lost_when_a_node_is_killed_with_a_thousand_running(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    receiver.hold()
    node = new_node("node", node_slots=1000, node_prefetch=200)
    await node.started()
    ids = await submitter.submit(receiver.url, 1300)

    async def all_slots_taken() -> bool:
        return len(receiver.calls) == 1000

    await eventually(all_slots_taken)
    running = {call.webhook_id for call in receiver.calls}
    node.kill()
    receiver.answer()
    killed_at = time.monotonic()
    node.start()

    await eventually(lambda: truth.completed(ids))
    print(f"recovered {time.monotonic() - killed_at:.1f} s after the kill")
    verdict = await judge(truth, ids, receiver)
    assert verdict._replace(duplicated=set()) == (set(), set(), set(), set(), set())
    assert verdict.duplicated == running
    assert set(receiver.calls_of(ids).values()) == {1, 2}
    tries = await truth.fetch(
        "SELECT task_id, array_agg(outcome ORDER BY fence) AS outcomes FROM gnomon.all_executions "
        "WHERE task_id = ANY($1) GROUP BY task_id",
        list(running),
    )
    assert len(tries) == 1000
    expected = [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]
    assert all(row["outcomes"] == expected for row in tries)
    assert await truth.value("SELECT count(*) FROM gnomon.task") == 0


async def test_a_function_that_kills_its_node_becomes_a_dead_letter(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    (tmp_path / "handlers.py").write_text(POISON)
    (poison,) = await submitter.submit(PythonTarget("poison"), 1)
    harmless = await submitter.submit(PythonTarget("harmless"), 50)
    node = new_node("node", node_app="handlers:app", node_sweep_seconds=0.1, node_lease_seconds=1)
    deaths = 0

    async def buried() -> bool:
        nonlocal deaths
        if not node.alive:
            assert node.process.returncode == 9
            deaths += 1
            node.start()
        state = await truth.fetch("SELECT state FROM gnomon.task WHERE id = $1", poison)
        return [row["state"] for row in state] == [State.DEAD]

    await eventually(buried, timeout=200)
    await eventually(lambda: truth.completed(harmless))
    assert deaths == 1, "from then on it ran in quarantine"
    tries = await truth.fetch(
        "SELECT outcome, error FROM gnomon.execution WHERE task_id = $1 ORDER BY fence", poison
    )
    assert {row["outcome"] for row in tries} == {OutcomeKind.LOST}
    assert tries[0]["error"] == "its node died while it ran"
    alone = "it killed the process that it ran in, alone: exit code 9"
    assert [row["error"] for row in tries].count(alone) == 3
    assert tries[-1]["error"] == alone
    assert node.alive


async def test_a_node_that_is_asked_to_stop_finishes_what_runs_and_gives_back_the_rest(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    receiver.hold()
    node = new_node("node", node_slots=100, node_prefetch=100, node_drain_seconds=20)
    await node.started()
    ids = await submitter.submit(receiver.url, 300)

    async def busy() -> bool:
        claimed = await truth.value("SELECT count(*) FROM gnomon.task WHERE state = 1")
        return claimed == 200 and len(receiver.calls) == 100

    await eventually(busy)
    node.terminate()

    async def given_back() -> bool:
        return bool(await truth.value("SELECT count(*) = 200 FROM gnomon.task WHERE state = 0"))

    await eventually(given_back)
    assert node.alive
    receiver.answer()
    assert await node.code(timeout=20) == 0

    running = {call.webhook_id for call in receiver.calls}
    assert len(running) == len(receiver.calls) == 100
    assert await truth.completed(running)
    left = await truth.fetch("SELECT id, state, attempt, losses, node FROM gnomon.task")
    assert {row["id"] for row in left} == set(ids) - running
    assert {tuple(row)[1:] for row in left} == {(State.WAITING, 0, 0, None)}
    assert await truth.living() == {}
    assert await truth.value("SELECT count(*) FROM gnomon.execution") == 0


async def test_a_drain_ends_at_its_deadline(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    receiver.hold()
    node = new_node("node", node_slots=50, node_drain_seconds=1)
    await node.started()
    ids = await submitter.submit(receiver.url, 50)

    async def busy() -> bool:
        return len(receiver.calls) == 50

    await eventually(busy)
    node.terminate()
    assert await node.code(timeout=10) == 0
    left = await truth.fetch("SELECT id, state, losses FROM gnomon.task")
    assert {tuple(row) for row in left} == {(task, State.WAITING, 0) for task in ids}

    receiver.answer()
    node.start()
    await eventually(lambda: truth.completed(ids))


async def test_two_nodes_share_the_work_of_a_third_that_was_killed(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    receiver.hold()
    nodes: list[Process] = [new_node(f"node-{n}", node_slots=200) for n in range(3)]
    for node in nodes:
        await node.started()

    async def three() -> bool:
        return len(await truth.living()) == 3

    await eventually(three)
    ids = await submitter.submit(receiver.url, 300)

    async def all_running() -> bool:
        return len(receiver.calls) == 300

    await eventually(all_running)
    # A node that is slow for a second may have been left with nothing, so kill the busiest.
    (busiest,) = await truth.fetch(
        "SELECT n.name FROM gnomon.task AS t JOIN gnomon.node AS n ON n.incarnation = t.node "
        "WHERE t.state = 1 GROUP BY n.name ORDER BY count(*) DESC LIMIT 1"
    )
    killed = busiest["name"]
    nodes[int(killed.removeprefix("node-"))].kill()
    receiver.answer()
    await eventually(lambda: truth.completed(ids))
    verdict = await judge(truth, ids, receiver)
    assert verdict._replace(duplicated=set()) == (set(), set(), set(), set(), set())
    lost = await truth.fetch(
        "SELECT task_id, worker FROM gnomon.execution WHERE outcome = $1", OutcomeKind.LOST
    )
    assert {row["worker"] for row in lost} == {killed}
    assert {row["task_id"] for row in lost} >= verdict.duplicated
    workers = await truth.fetch("SELECT DISTINCT worker FROM gnomon.task_archive")
    assert {row["worker"] for row in workers} <= {"node-0", "node-1", "node-2"} - {killed}


async def test_what_a_leaving_node_gives_back_is_found_at_once(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    """A rolling deployment: the new node has read its shards before the old one gives back what
    it had claimed of them."""
    receiver.hold()
    old = new_node("old", node_slots=100, node_prefetch=300)
    await old.started()
    ids = await submitter.submit(receiver.url, 400)

    async def all_claimed() -> bool:
        claimed = await truth.value("SELECT count(*) FROM gnomon.task WHERE state = 1")
        return claimed == 400 and len(receiver.calls) == 100

    await eventually(all_claimed)
    new = new_node("new", node_slots=400)
    await new.started()

    async def shared() -> bool:
        looks = old.said("serving shards")
        return bool(looks) and looks[-1]["nodes"] == 2

    await eventually(shared)
    old.terminate()
    receiver.answer()
    assert await old.code(timeout=20) == 0
    left_at = time.monotonic()
    # The rare pass over everything would find them, too, but later than this.
    await eventually(lambda: truth.completed(ids), timeout=20)
    print(f"done {time.monotonic() - left_at:.1f} s after the old node left")
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
    assert await truth.value("SELECT count(*) FROM gnomon.execution") == 0


async def test_nodes_that_are_stopped_under_load_leave_nothing_running(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    ids = await submitter.submit(receiver.url, 2500)
    node = new_node("node", node_slots=100, node_prefetch=100, node_batch=50)
    for count in (500, 1500):

        async def enough(count: int = count) -> bool:
            return len(receiver.calls) >= count

        await eventually(enough)
        node.terminate()
        assert await node.code(timeout=20) == 0
        assert await truth.value("SELECT count(*) FROM gnomon.task WHERE state = 1") == 0
        assert await truth.living() == {}
        node.start()
    await eventually(lambda: truth.completed(ids))
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
    assert await truth.value("SELECT count(*) FROM gnomon.execution") == 0
