"""A node that stands still beyond its lease, and comes back when others have done its work."""

import time

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Receiver, Submitter, Truth, eventually, judge

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

pytestmark = pytest.mark.system

TASKS = 300
ARCHIVE = "SELECT * FROM gnomon.task_archive WHERE id = ANY($1) ORDER BY id"


async def test_a_node_that_was_presumed_dead_can_change_nothing(
    new_node: NewProcess,
    submitter: Submitter,
    receiver: Receiver,
    truth: Truth,
    database: Database,
) -> None:
    receiver.hold()
    first = new_node("first", node_slots=TASKS)
    await first.started()
    ((old_life, _),) = (await truth.living()).items()
    ids = await submitter.submit(receiver.url, TASKS)

    async def all_run() -> bool:
        return len(receiver.calls) == TASKS

    await eventually(all_run)
    first.pause()
    paused_at = time.monotonic()
    second = new_node("second", node_slots=TASKS)
    # The answers to the paused node's calls reach its sockets, and wait there.
    receiver.answer()
    await eventually(lambda: truth.completed(ids))
    print(f"taken over {time.monotonic() - paused_at:.1f} s after the pause")
    before = await truth.fetch(ARCHIVE, ids)
    tries_before = await truth.value("SELECT count(*) FROM gnomon.execution")
    assert {(row["worker"], row["fence"], row["attempt"]) for row in before} == {("second", 3, 2)}

    # It learns of its death by its next renewal, and would drop its outcomes there and then. So
    # renewals have to wait until it has tried to write them.
    async def refused() -> bool:
        return bool(first.said("settlements were refused as stale"))

    async with database.transaction() as connection:
        await connection.execute("LOCK TABLE gnomon.node IN SHARE ROW EXCLUSIVE MODE")
        first.go_on()
        await eventually(refused)
    assert await truth.fetch(ARCHIVE, ids) == before
    resumed_at = time.monotonic()

    async def born_again() -> bool:
        return sorted((await truth.living()).values()) == ["first", "second"]

    await eventually(born_again)
    print(f"back with a new life after {time.monotonic() - resumed_at:.1f} s")
    assert old_life not in await truth.living()
    assert len(first.said("this node was declared dead")) == 1
    assert not second.said("settlements were refused as stale")

    # Both work, and what is written stays.
    async def sharing() -> bool:
        looks = second.said("serving shards")
        return bool(looks) and looks[-1]["nodes"] == 2

    await eventually(sharing)
    receiver.hold()
    more = await submitter.submit(receiver.url, TASKS)

    async def more_run() -> bool:
        return len(receiver.calls_of(more)) == TASKS

    await eventually(more_run)
    receiver.answer()
    await eventually(lambda: truth.completed(more))
    workers = await truth.fetch(
        "SELECT DISTINCT worker FROM gnomon.task_archive WHERE id = ANY($1)", more
    )
    assert {row["worker"] for row in workers} == {"first", "second"}
    assert await truth.fetch(ARCHIVE, ids) == before
    assert await truth.value("SELECT count(*) FROM gnomon.execution") == tries_before
    lost = await truth.fetch("SELECT task_id, outcome, worker FROM gnomon.execution")
    assert {row["task_id"] for row in lost} == set(ids)
    assert {(row["outcome"], row["worker"]) for row in lost} == {(OutcomeKind.LOST, "first")}
    verdict = await judge(truth, [*ids, *more], receiver)
    assert verdict == (set(), set(ids), set(), set(), set())
    assert first.alive
    assert second.alive


async def test_a_stale_write_is_refused_while_the_task_runs_elsewhere(
    new_node: NewProcess,
    submitter: Submitter,
    receiver: Receiver,
    truth: Truth,
    database: Database,
) -> None:
    """The same as above at the moment that matters most: the second try is still under way."""
    receiver.hold()
    first = new_node("first", node_slots=10)
    await first.started()
    ((old_life, _),) = (await truth.living()).items()
    (task,) = await submitter.submit(receiver.url, 1)

    async def tried() -> bool:
        return len(receiver.calls) == 1

    async def tried_twice() -> bool:
        return len(receiver.calls) == 2

    await eventually(tried)
    first.pause()
    new_node("second", node_slots=10)
    await eventually(tried_twice)

    stale = Settlement(
        key=TaskKey(DEFAULT_TENANT, task),
        fence=receiver.calls[0].fence,
        incarnation=old_life,
        verdict=COMPLETE,
        outcome=OutcomeKind.SUCCEEDED,
        worker="first",
    )
    assert await PostgresDispatch(database, 10.0).settle([stale]) == []
    row = await truth.fetch("SELECT state, fence FROM gnomon.task WHERE id = $1", task)
    assert [tuple(r) for r in row] == [(State.RUNNING, receiver.calls[1].fence)]
    first.go_on()
    receiver.answer()
    await eventually(lambda: truth.completed([task]))
    worker = "SELECT worker FROM gnomon.task_archive WHERE id = $1"
    assert await truth.value(worker, task) == "second"
