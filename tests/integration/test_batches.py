"""Batches over the API."""

from typing import Any
from uuid import uuid4

from tests.integration.api_calls import TASKS, Api, call
from tests.integration.batch_calls import (
    BATCHES,
    change,
    counts,
    failing_task,
    once,
    open_batch,
    put,
    read,
    task,
    task_once,
)
from tests.integration.nodes import running_node


async def test_callbacks_follow_when_it_is_closed_and_all_have_ended(
    api: Api, database_dsn: str
) -> None:
    untold = await open_batch(api, on_complete={"task_type": "echo"})
    found = await call(api, "GET", f"{TASKS}/{untold['on_complete']}", 200)
    assert found["payload"] == {"batch_id": untold["batch_id"]}
    batch = await open_batch(api, name="import", on_success=task(), on_complete=task())
    assert (batch["status"], counts(batch)) == ("OPEN", (0, 0, 0, 0, 0))
    await put(api, batch, task(), task())
    single = task() | {"batch_id": batch["batch_id"], "idempotency_key": "once"}
    first = await call(api, "POST", TASKS, 202, single)
    again = await call(api, "POST", TASKS, 202, single)
    assert first["task_id"] == again["task_id"]
    assert first["batch_id"] == batch["batch_id"]
    assert counts(await read(api, batch)) == (3, 0, 0, 0, 3)
    blocked = await call(api, "GET", f"{TASKS}/{batch['on_success']}", 200)
    assert (blocked["status"], blocked["node"]) == ("BLOCKED", "on_success")
    told = await call(api, "GET", f"{TASKS}/{batch['on_success']}/explain", 200)
    assert batch["batch_id"] in str(told), "explain names the batch"
    async with running_node(database_dsn):
        await task_once(api, first["task_id"], "COMPLETED")
        assert (await read(api, batch))["status"] == "OPEN"
        await change(api, batch, "close")
        done = await once(api, batch, "SUCCEEDED")
        for callback in ("on_success", "on_complete"):
            await task_once(api, batch[callback], "COMPLETED")
        empty = await open_batch(api, on_success=task(), on_complete=task())
        assert (await change(api, empty, "close"))["status"] == "SUCCEEDED"
        for callback in ("on_success", "on_complete"):
            await task_once(api, empty[callback], "COMPLETED")
    assert counts(done) == (3, 3, 0, 0, 0)
    listed = await call(api, "GET", f"{TASKS}?batch_id={batch['batch_id']}&task_type=echo", 200)
    assert len(listed["tasks"]) == 5, "members and callbacks"
    waited = await call(api, "GET", f"{BATCHES}/{batch['batch_id']}?wait=5", 200)
    assert waited["status"] == "SUCCEEDED"
    page = await call(api, "GET", f"{BATCHES}?status=SUCCEEDED&limit=1", 200)
    assert page["batches"][0]["batch_id"] == empty["batch_id"]
    page = await call(api, "GET", f"{BATCHES}?cursor={page['next_cursor']}", 200)
    assert [each["batch_id"] for each in page["batches"]] == [
        batch["batch_id"],
        untold["batch_id"],
    ]


async def test_a_dead_letter_that_is_repaired_lets_it_succeed(api: Api, database_dsn: str) -> None:
    batch = await open_batch(api, on_success=task(), on_complete=task())
    await put(api, batch, task(), failing_task())
    await change(api, batch, "close")
    async with running_node(database_dsn):
        failed = await once(api, batch, "FAILED")
        assert counts(failed) == (2, 1, 1, 0, 0)
        completed = await task_once(api, batch["on_complete"], "COMPLETED")
        waiting = await call(api, "GET", f"{TASKS}/{batch['on_success']}", 200)
        assert waiting["status"] == "BLOCKED"
        dead = (await call(api, "GET", f"{TASKS}?batch_id={batch['batch_id']}&status=DEAD_LETTERED",
                           200))["tasks"]  # fmt: skip
        assert len(dead) == 1
        letters = await call(api, "GET", f"/api/v1/dead-letters?batch_id={batch['batch_id']}", 200)
        assert len(letters["dead_letters"]) == 1
        # A new dead letter cannot be made to succeed over this target; discarding it ends all hope.
        await call(api, "POST", f"/api/v1/dead-letters/{dead[0]['task_id']}/discard", 200, {})
        lost = await task_once(api, batch["on_success"], "CANCELLED")
        assert "cannot succeed" in lost["last_error"]
    assert counts(await read(api, batch)) == (2, 1, 1, 0, 0)
    again = await call(api, "GET", f"{TASKS}/{batch['on_complete']}", 200)
    assert again["finished_at"] == completed["finished_at"], "it has run once"


async def test_cancelling_ends_members_and_callbacks(api: Api, database_dsn: str) -> None:
    batch = await open_batch(api, on_success=task(), on_complete=task())
    await put(api, batch, *(task(delay_seconds=3600) for _ in range(3)))
    found = await change(api, batch, "cancel")
    assert (found["status"], found["reason"]) == ("CANCELLING", "cancelled")
    refused = await put(api, batch, task(), status=409)
    assert "is CANCELLED and cannot be added to" in refused["detail"]
    async with running_node(database_dsn):
        done = await once(api, batch, "CANCELLED")
        assert counts(done) == (3, 0, 0, 3, 0)
        for callback in ("on_success", "on_complete"):
            ended = await task_once(api, batch[callback], "CANCELLED")
            assert ended["last_error"] == "its batch: cancelled"
    await change(api, batch, "close", 409)
    assert (await change(api, batch, "cancel"))["status"] == "CANCELLED"


async def test_one_that_is_never_closed_expires(
    api: Api, database_dsn: str, connection: Any
) -> None:
    batch = await open_batch(api, on_complete=task(), close_within_seconds=60)
    await put(api, batch, task(), task(delay_seconds=3600))
    await connection.execute("UPDATE gnomon.batch SET deadline = gnomon.now()")
    refused = await put(api, batch, task(), status=409)
    assert "is EXPIRED" in refused["detail"]
    async with running_node(database_dsn):
        expired = await once(api, batch, "EXPIRED")
        assert "not closed by its deadline" in expired["reason"]
        await task_once(api, batch["on_complete"], "CANCELLED")
    assert counts(await read(api, batch))[0] == 2, "members go on"
    assert counts(await read(api, batch))[3] == 0
    await change(api, batch, "close", 409)


async def test_what_makes_no_sense_is_refused(api: Api) -> None:
    async def refused(body: Any, pointer: str) -> None:
        problem = await call(api, "POST", BATCHES, 422, body)
        assert problem["errors"][0]["pointer"] == pointer

    await refused({"on_success": task(delay_seconds=1)}, "/on_success/delay_seconds")
    await refused({"on_complete": task(batch_id=str(uuid4()))}, "/on_complete/batch_id")
    await refused(
        {"on_complete": task(target={"type": "http", "url": "x"})}, "/on_complete/target/url"
    )
    await refused({"on_success": task(retry_of=str(uuid4()))}, "/on_success/retry_of")
    await refused({"close_within_seconds": 0}, "/close_within_seconds")
    await refused({"close_within_seconds": 1e9}, "/close_within_seconds")
    await refused({"name": "a\nb"}, "/name")
    await refused({"tasks": []}, "/tasks")
    unknown = {"batch_id": str(uuid4())}
    for path in ("", "/close", "/cancel"):
        method = "POST" if path else "GET"
        await call(api, method, f"{BATCHES}/{unknown['batch_id']}{path}", 404)
        await call(api, method, f"{BATCHES}/none{path}", 404)
    assert "not found" in (await put(api, unknown, task(), status=404))["detail"]
    await call(api, "POST", TASKS, 404, task() | unknown)
    both = task() | unknown | {"on_success": task()}
    assert (await call(api, "POST", TASKS, 422, both))["errors"][0]["pointer"] == "/batch_id"
    batch = await open_batch(api)
    await change(api, batch, "close")
    assert (await change(api, batch, "close"))["status"] == "SUCCEEDED", "once and again"
    problem = await call(api, "POST", TASKS, 409, task() | {"batch_id": batch["batch_id"]})
    assert "is CLOSED and cannot be added to: tasks are put in before" in problem["detail"]
    await change(api, batch, "cancel", 409)
