"""What is kept of payloads once their tasks have ended."""

import secrets
from typing import Any

import pytest
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.cron_support import created, planned
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)

from gnomon.cron.job import Skipped
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT, KeepPayload, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.tasks import reading

SMALL, LARGE = b'"s"', b'"' + b"x" * 9_000 + b'"'
DEAD = Verdict(VerdictKind.DEAD_LETTER)
EXPIRE = Verdict(VerdictKind.EXPIRE)
ALWAYS, FAILED, NEVER = KeepPayload
# What is left of a payload: by what was chosen, and how the task ended.
ENDS: list[tuple[Verdict, OutcomeKind | None, bool, set[KeepPayload]]] = [
    (COMPLETE, OutcomeKind.SUCCEEDED, False, {ALWAYS}),
    (EXPIRE, None, False, {ALWAYS, FAILED}),
    (DEAD, OutcomeKind.FAILED, False, {ALWAYS, FAILED, NEVER}),
    (DEAD, OutcomeKind.FAILED, True, {ALWAYS}),  # somebody has asked to cancel it
]


async def running(
    database: Database, connection: Connection, *payloads: bytes | None
) -> list[tuple[KeepPayload, bytes | None, Delivery]]:
    """A task that runs, of each payload and each choice."""
    node, now = await joined(database), await database_now(connection)
    chosen = [(keep, payload) for keep in KeepPayload for payload in payloads]
    keys = await store(
        database, *(submission(now, keep_payload=keep, payload=p) for keep, p in chosen)
    )
    found = (await PostgresDispatch(database, 5.0).claim(node, keys)).deliveries
    by_key = {delivery.key: delivery for delivery in found}
    return [(*each, by_key[key]) for each, key in zip(chosen, keys, strict=True)]


async def apart(connection: Connection, key: TaskKey) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM gnomon.task_payload WHERE task_id = $1)", key.id
        )
    )


@pytest.mark.parametrize(("verdict", "outcome", "cancelled", "kept"), ENDS)
async def test_a_payload_goes_with_the_end_of_its_task(
    database: Database,
    connection: Connection,
    verdict: Verdict,
    outcome: OutcomeKind | None,
    cancelled: bool,
    kept: set[KeepPayload],
) -> None:
    tasks = await running(database, connection, None, SMALL, LARGE)
    await connection.execute("UPDATE gnomon.task SET cancel_requested = $1", cancelled)
    dispatch = PostgresDispatch(database, 5.0)
    settled = await dispatch.settle([settlement(d, verdict, outcome) for *_, d in tasks])
    assert len(settled) == len(tasks)
    for keep, payload, delivery in tasks:
        task = await reading.get(database, delivery.key)
        assert task.keep_payload is keep
        assert task.payload == (payload if keep in kept else None)
        assert task.payload_kept is (keep in kept or payload is None)
        assert await apart(connection, delivery.key) is (keep in kept and payload is LARGE)


async def test_what_is_settled_too_late_removes_nothing(
    database: Database, connection: Connection
) -> None:
    tasks = await running(database, connection, LARGE)
    await connection.execute("UPDATE gnomon.task SET fence = fence + 1")
    dispatch = PostgresDispatch(database, 5.0)
    assert await dispatch.settle([settlement(d) for *_, d in tasks]) == []
    for *_, delivery in tasks:
        assert await apart(connection, delivery.key)


async def test_a_run_that_a_handler_completes_leaves_as_little(
    database: Database, connection: Connection
) -> None:
    for keep, payload, delivery in await running(database, connection, None, SMALL, LARGE):
        await connection.execute(
            "SELECT gnomon.complete_run($1, $2, $3, $4)",
            delivery.key.tenant_id,
            delivery.key.id,
            delivery.fence,
            delivery.incarnation,
        )
        task = await reading.get(database, delivery.key)
        assert task.payload == (payload if keep is ALWAYS else None)
        assert task.payload_kept is (keep is ALWAYS or payload is None)
        assert await apart(connection, delivery.key) is (keep is ALWAYS and payload is LARGE)


async def test_bytes_that_are_not_kept_are_not_counted(
    database: Database, connection: Connection
) -> None:
    payload = f'"{secrets.token_urlsafe(6_750)}"'.encode()  # nothing of it can be compressed away
    tasks = await running(database, connection, payload)
    level = "SELECT gnomon.stored_bytes($1)"
    before = await connection.fetchval(level, DEFAULT_TENANT)
    dispatch = PostgresDispatch(database, 5.0)
    await dispatch.settle([settlement(d) for *_, d in tasks])
    gone = before - await connection.fetchval(level, DEFAULT_TENANT)
    assert gone == pytest.approx(2 * len(payload), abs=10)


@pytest.mark.parametrize("payload", ["small", "x" * 9_000])
async def test_a_task_says_that_its_payload_was_not_kept_and_is_not_retried(
    api: Api, payload: str
) -> None:
    body = LATER | {"payload": payload, "keep_payload": "never"}
    task = await submitted(api, body)
    assert (task["keep_payload"], task["payload_kept"]) == ("never", True)
    path = f"{TASKS}/{task['task_id']}"
    assert (await call(api, "GET", path, 200))["payload"] == payload
    cancelled = await call(api, "POST", f"{path}/cancel", 200)
    assert (cancelled["payload"], cancelled["payload_kept"]) == (None, False)
    (listed,) = (await call(api, "GET", TASKS, 200))["tasks"]
    assert listed == cancelled
    problem = await call(api, "POST", f"{path}/retry", 409)
    assert "keep_payload" in problem["detail"]
    # What had none can be retried all the same.
    bare = await submitted(api, LATER | {"keep_payload": "never"})
    await call(api, "POST", f"{TASKS}/{bare['task_id']}/cancel", 200)
    again = await call(api, "POST", f"{TASKS}/{bare['task_id']}/retry", 202)
    assert again["keep_payload"] == "never"


async def test_a_dead_letter_can_be_retried_until_it_is_resolved(
    api: Api, connection: Connection
) -> None:
    for keep, left in (("never", None), ("failed", "x" * 9_000)):
        task = await submitted(api, LATER | {"payload": "x" * 9_000, "keep_payload": keep})
        dead = f"/api/v1/dead-letters/{task['task_id']}"
        await put(connection, task["task_id"], "state = 4")
        assert (await call(api, "POST", f"{dead}/retry", 202))["payload"] == "x" * 9_000
        await put(connection, task["task_id"], "state = 4")
        resolved = await call(api, "POST", f"{dead}/archive", 200)
        assert (resolved["payload"], resolved["payload_kept"]) == (left, left is not None)


async def test_the_choice_can_be_changed_while_the_task_waits(api: Api) -> None:
    task = await submitted(api, LATER | {"payload": "x", "keep_payload": "failed"})
    path = f"{TASKS}/{task['task_id']}"
    assert (await call(api, "PATCH", path, 200, {"name": "n"}))["keep_payload"] == "failed"
    assert (await call(api, "PATCH", path, 200, {"keep_payload": "never"}))["payload"] == "x"
    assert (await call(api, "POST", f"{path}/cancel", 200))["payload_kept"] is False
    await call(api, "POST", TASKS, 422, LATER | {"keep_payload": "sometimes"})


async def test_runs_of_a_cron_job_keep_what_it_says(
    api: Api, database: Database, connection: Connection
) -> None:
    body: dict[str, Any] = {
        "name": "report",
        "task_type": "report",
        "callback_url": "http://127.0.0.1:9/hook",
        "cron_expression": "0 9 * * *",
        "payload_template": "x" * 9_000,
        "keep_payload": "failed",
    }
    job = await call(api, "POST", "/api/v1/cron-jobs", 201, body)
    assert job["keep_payload"] == "failed"
    run = await call(api, "POST", "/api/v1/cron-jobs/report/trigger", 202)
    task = await call(api, "POST", f"{TASKS}/{run['run_id']}/cancel", 200)
    assert (task["keep_payload"], task["payload_kept"]) == ("failed", False)
    patched = {"keep_payload": "always"}
    assert (await call(api, "PATCH", "/api/v1/cron-jobs/report", 200, patched))["keep_payload"] == (
        "always"
    )


async def test_a_skipped_run_leaves_no_payload(database: Database, connection: Connection) -> None:
    job = await created(
        database, name="often", payload_template=LARGE, keep_payload=KeepPayload.NEVER
    )
    entries = await planned(database, job)
    rows = await connection.fetch("SELECT id FROM gnomon.task WHERE cron_job_id = $1", job.id)
    ids = [row["id"] for row in rows]
    assert len(ids) >= len(entries)
    await database.fetch(
        "skip_runs",
        [DEFAULT_TENANT] * len(ids),
        ids,
        ["why"] * len(ids),
        [Skipped.OVERLAP] * len(ids),
    )
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task_payload") == 0
    removed = "SELECT count(*) FROM gnomon.task_archive WHERE payload_removed"
    assert await connection.fetchval(removed) == len(ids)


@pytest.mark.parametrize("payload", [None, SMALL, LARGE], ids=["none", "small", "large"])
async def test_a_run_that_made_way_while_it_waited_for_its_retry_says_what_is_gone(
    database: Database, connection: Connection, payload: bytes | None
) -> None:
    now = await database_now(connection)
    [key] = await store(database, submission(now, keep_payload=KeepPayload.NEVER, payload=payload))
    await put(connection, str(key.id), "attempt = 1")
    ended = await database.fetch("end_waiting_run", key.tenant_id, key.id, "the next run came")
    assert [row["id"] for row in ended] == [key.id]
    task = await reading.get(database, key)
    assert (task.payload, task.payload_kept) == (None, payload is None)
    assert not await apart(connection, key)
