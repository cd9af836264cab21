"""Quotas as a client of one API sees them."""

import asyncio
from typing import Any

import msgspec
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.bulk_calls import Stepper
from tests.integration.quota_calls import (
    TENANT,
    ended,
    give,
    live,
    over,
    stop_the_clock,
    turn,
)
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.store.postgres.database import Database

JOBS = "/api/v1/cron-jobs"
JOB: dict[str, Any] = {
    "task_type": "report",
    "callback_url": "http://127.0.0.1:9/hook",
    "cron_expression": "0 9 * * *",
}


async def test_scheduled_tasks_are_bounded_and_ends_make_room(
    api: Api, connection: Connection
) -> None:
    await give(connection, api, scheduled_tasks=5)
    tasks = [await submitted(api) for _ in range(5)]
    assert (await call(api, "GET", TENANT, 200))["use"]["scheduled_tasks"] == 5
    over(await call(api, "POST", TASKS, 429, LATER), "scheduled_tasks", 5, 5)
    batch = {"tasks": [LATER, LATER]}
    over(await call(api, "POST", f"{TASKS}/batch", 429, batch), "scheduled_tasks", 5, 5)
    # A run of a cron job takes no room, and neither does a dead letter.
    await call(api, "POST", JOBS, 201, JOB | {"name": "report", "overlap_policy": "allow"})
    await call(api, "POST", f"{JOBS}/report/trigger", 202)
    await put(connection, tasks[0]["task_id"], "state = 4")
    assert await live(connection) == 4

    async def fits(body: dict[str, Any], path: str = TASKS) -> bool:
        async with api.post(path, json=body) as answer:
            return answer.status == 202

    # The refusal is remembered for a moment.
    await eventually(lambda: fits(LATER))
    assert not await fits(LATER)
    dead = f"/api/v1/dead-letters/{tasks[0]['task_id']}/retry"
    over(await call(api, "POST", dead, 429), "scheduled_tasks", 5, 5)
    await call(api, "POST", f"{TASKS}/{tasks[1]['task_id']}/cancel", 200)
    await eventually(lambda: fits({}, dead))
    assert await live(connection) == 5


async def test_a_batch_is_stored_as_a_whole_or_not_at_all(api: Api, connection: Connection) -> None:
    await give(connection, api, scheduled_tasks=5)
    await submitted(api)
    problem = await call(api, "POST", f"{TASKS}/batch", 429, {"tasks": [LATER] * 5})
    over(problem, "scheduled_tasks", 5, 1)
    assert await live(connection) == 1
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [LATER] * 4})
    assert await live(connection) == 5


async def test_dead_letters_are_driven_again_as_far_as_there_is_room(
    api: Api, connection: Connection, database: Database
) -> None:
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [LATER] * 7})
    await connection.execute("UPDATE gnomon.task SET state = 4, due_at = gnomon.now()")
    await give(connection, api, scheduled_tasks=5)
    await submitted(api)
    found = await Stepper(database, scheduled_tasks=5).done(api, {"action": "retry"})
    assert (found["changed"], found["refused"]) == (4, 3)
    assert found["refusals"] == [{"reason": "the quota scheduled_tasks is used up", "count": 3}]
    assert await live(connection) == 5


async def test_a_full_quota_holds_up_only_dead_letters_that_count(
    api: Api, connection: Connection, database: Database
) -> None:
    tasks = [LATER | {"task_type": kind} for kind in ("run", "run", "mail", "mail")]
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": tasks})
    await connection.execute("UPDATE gnomon.task SET state = 4, due_at = gnomon.now()")
    await connection.execute(
        "UPDATE gnomon.task SET cron_job_id = gen_random_uuid() WHERE task_type = 'run'"
    )
    await give(connection, api, scheduled_tasks=1)
    await submitted(api)
    # The runs of cron jobs, which are older here, and not the others.
    found = await Stepper(database, scheduled_tasks=1).done(api, {"action": "retry"})
    assert (found["changed"], found["refused"]) == (2, 2)
    assert await live(connection) == 1  # the runs do not count


async def test_a_replay_takes_no_room_and_a_refusal_keeps_no_key(
    api: Api, connection: Connection
) -> None:
    await give(connection, api, scheduled_tasks=1, submissions_per_second=100)
    first = {"headers": {"Idempotency-Key": "first"}}
    second = {"headers": {"Idempotency-Key": "second"}}
    task = await call(api, "POST", TASKS, 202, LATER, **first)
    refused = await asyncio.gather(
        *(call(api, "POST", TASKS, 429, LATER, **second) for _ in range(3))
    )
    for problem in refused:
        over(problem, "scheduled_tasks", 1, 1)
    assert await call(api, "POST", TASKS, 202, LATER, **first) == task
    keyed = {"tasks": [LATER | {"idempotency_key": "first"}]}
    answer = await call(api, "POST", f"{TASKS}/batch", 202, keyed)
    assert answer["tasks"][0]["task_id"] == task["task_id"]
    keyed["tasks"].append(LATER | {"idempotency_key": "second"})
    over(await call(api, "POST", f"{TASKS}/batch", 429, keyed), "scheduled_tasks", 1, 1)
    await ended(connection, 1)

    async def fits() -> bool:
        async with api.post(TASKS, json=LATER, headers=second["headers"]) as answer:
            return answer.status == 202 and "Idempotency-Replayed" not in answer.headers

    await eventually(fits)


async def test_submissions_of_a_second_are_bounded_and_told(
    api: Api, connection: Connection
) -> None:
    await give(connection, api, submissions_per_second=3)
    await stop_the_clock(connection)
    for left in (2, 1, 0):
        async with api.post(TASKS, json=LATER) as answer:
            assert answer.status == 202
            assert answer.headers["RateLimit-Policy"] == '"submissions";q=3;w=1'
            assert answer.headers["RateLimit"] == f'"submissions";r={left};t=1'
    async with api.post(TASKS, json=LATER) as answer:
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["RateLimit"] == '"submissions";r=0;t=1'
        over(await answer.json(content_type=None), "submissions_per_second", 3, 3)
    problem = await call(api, "POST", f"{TASKS}/batch", 429, {"tasks": [LATER] * 4})
    assert "at most 3 at once" in problem["detail"]
    await turn(connection, 0.999)
    await call(api, "POST", TASKS, 429, LATER)
    await turn(connection, 0.001)
    async with api.post(f"{TASKS}/batch", json={"tasks": [LATER] * 2}) as answer:
        assert answer.status == 202
        assert answer.headers["RateLimit"] == '"submissions";r=1;t=1'
    use = (await call(api, "GET", TENANT, 200))["use"]
    assert {name: value for name, value in use.items() if value is not None} == {
        "submissions_per_second": 2
    }
    assert await live(connection) == 5
    await give(connection, api)
    async with api.post(TASKS, json=LATER) as answer:
        assert "RateLimit" not in answer.headers


async def test_payloads_are_bounded_by_the_quota_too(api: Api, connection: Connection) -> None:
    await give(connection, api, payload_bytes=20)
    fits, large = {"payload": "x" * 18}, {"payload": "x" * 19}
    task = await submitted(api, LATER | fits)
    path = f"{TASKS}/{task['task_id']}"
    for method, where, body in (
        ("POST", TASKS, LATER | large),
        ("POST", f"{TASKS}/batch", {"tasks": [LATER | fits, LATER | large]}),
        ("PATCH", path, large),
        ("POST", JOBS, JOB | {"name": "a", "payload_template": "x" * 19}),
        ("PUT", f"{JOBS}/a", JOB | {"payload_template": "x" * 19}),
    ):
        problem = await call(api, method, where, 413, body)
        over(problem, "payload_bytes", 20, 21)
        pointer = problem["errors"][0]["pointer"]
        assert pointer.endswith(("/payload", "/payload_template"))
    await call(api, "PATCH", path, 200, fits)
    await call(api, "PUT", f"{JOBS}/a", 201, JOB | {"payload_template": "x" * 18})
    template = {"payload_template": "x" * 19}
    over(await call(api, "PATCH", f"{JOBS}/a", 413, template), "payload_bytes", 20, 21)


async def test_cron_jobs_are_bounded_in_number_and_in_rhythm(
    api: Api, connection: Connection
) -> None:
    await give(connection, api, cron_jobs=3, cron_interval_seconds=60)

    async def create(number: int) -> int:
        if number % 2:
            request = api.post(JOBS, json=JOB | {"name": f"job {number}"})
        else:
            request = api.put(f"{JOBS}/job {number}", json=JOB)
        async with request as answer:
            if answer.status == 429:
                over(await answer.json(content_type=None), "cron_jobs", 3, 3)
            return answer.status

    statuses = await asyncio.gather(*(create(number) for number in range(20)))
    assert sorted(statuses) == [201] * 3 + [429] * 17
    assert (await call(api, "GET", TENANT, 200))["use"]["cron_jobs"] == 3
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 3
    page = await call(api, "GET", JOBS, 200)
    name = page["cron_jobs"][0]["name"]
    await call(api, "PUT", f"{JOBS}/{name}", 200, JOB | {"task_type": "other"})
    often = {"cron_expression": "*/30 * * * * *"}
    for method, where, body in (
        ("PUT", f"{JOBS}/{name}", JOB | often),
        ("PUT", f"{JOBS}/{name}?dry_run=true", JOB | often),
        ("PATCH", f"{JOBS}/{name}", often),
        ("POST", JOBS, JOB | often | {"name": "another"}),
    ):
        problem = await call(api, method, where, 422, body)
        over(problem, "cron_interval_seconds", 60, 30)
        assert problem["errors"][0]["pointer"] == "/cron_expression"
    problem = await call(api, "PATCH", f"{JOBS}/{name}", 422, {"interval_seconds": 59})
    assert problem["errors"][0]["pointer"] == "/interval_seconds"
    await call(api, "PATCH", f"{JOBS}/{name}", 200, {"interval_seconds": 60})
    await call(api, "DELETE", f"{JOBS}/{name}", 204)
    assert await create(1) in (201, 409)


async def test_a_quota_that_changes_holds_at_once(api: Api, connection: Connection) -> None:
    await give(connection, api, scheduled_tasks=10)
    for _ in range(8):
        await submitted(api)
    # Lifted, nothing is asked for; back again, what came meanwhile is counted.
    await give(connection, api)
    for _ in range(4):
        await submitted(api)
    await give(connection, api, scheduled_tasks=10)
    over(await call(api, "POST", TASKS, 429, LATER), "scheduled_tasks", 10, 12)
    await give(connection, api, scheduled_tasks=4)
    over(await call(api, "POST", TASKS, 429, LATER), "scheduled_tasks", 4, 12)
    await give(connection, api, scheduled_tasks=13)
    await submitted(api)
    over(await call(api, "POST", TASKS, 429, LATER), "scheduled_tasks", 13, 13)
    await connection.execute(
        "UPDATE gnomon.tenant SET plan = 'nonsense', quotas = $1", msgspec.json.encode({}).decode()
    )

    async def standard() -> bool:
        found = await call(api, "GET", TENANT, 200)
        return bool(found["quotas"]["scheduled_tasks"] == 10_000)

    await eventually(standard)
    await submitted(api)
