"""Cron jobs whose target is a workflow: one run for each fire, and overlap rules look at it."""

from datetime import datetime
from typing import Any

import asyncpg
from tests.integration.api_calls import Api, call
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, failing, node, once, statuses
from tests.waiting import eventually

WORKFLOWS, JOBS = "/api/v1/workflows", "/api/v1/cron-jobs"


async def define(api: Api, name: str, nodes: dict[str, Any]) -> None:
    await call(api, "POST", WORKFLOWS, 201, {"name": name, "nodes": nodes})


async def job(api: Api, name: str, workflow: str, **fields: Any) -> Any:
    body = {
        "name": name,
        "task_type": workflow,
        "target": {"type": "workflow", "workflow": workflow},
        "cron_expression": "0 0 1 1 *",
        "payload_template": {"day": "{{fire_time | %Y}}"},
        **fields,
    }
    return await call(api, "POST", JOBS, 201, body)


async def fire(api: Api, name: str) -> str:
    return str((await call(api, "POST", f"{JOBS}/{name}/trigger", 202))["run_id"])


async def run_of(api: Api, run_id: str) -> Any:
    async def look() -> Any:
        found = await call(api, "GET", RUNS, 200)
        return [each for each in found["runs"] if each["run_id"] == run_id]

    return (await eventually(look))[0]


async def test_a_fire_starts_one_run_and_ends_with_it(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    await define(api, "etl", {"a": node("a", payload={"day": "{{run.input.day}}"})})
    await job(api, "nightly", "etl")
    async with running_node(database_dsn):
        run_id = await fire(api, "nightly")
        run = await run_of(api, run_id)
        assert (run["workflow"], run["version"]) == ("etl", 1)
        done = await once(api, run, "SUCCEEDED")
        assert len(done["input"]["day"]) == 4

        async def completed() -> Any:
            found = (await call(api, "GET", f"{JOBS}/nightly/runs", 200))["runs"]
            return found[0] if found[0]["status"] == "COMPLETED" else None

        found = await eventually(completed)
    assert found["run_id"] == run_id
    assert await connection.fetchval("SELECT count(*) FROM gnomon.workflow_run") == 1


async def test_overlap_rules_look_at_the_run(api: Api, database_dsn: str) -> None:
    waits = node("a") | {"task_type": "wait_at_the_gate", "payload": {"who": "recurring"}}
    await define(api, "slow", {"a": waits, "b": node("b", "a")})
    await job(api, "cancels", "slow", overlap_policy="cancel_running")
    async with running_node(database_dsn):
        first = await run_of(api, await fire(api, "cancels"))

        async def runs(name: str, status: str) -> Any:
            found = await call(api, "GET", f"{RUNS}/{first['run_id']}", 200)
            return statuses(found)[name] == status

        await eventually(lambda: runs("a", "RUNNING"))
        second = await fire(api, "cancels")
        done = await once(api, first, "CANCELLED")
        assert done["reason"] == "the next run of its cron job came"
        await run_of(api, second)
        # A run that is cancelled by hand ends the run of the job, as cancelled.
        await call(api, "POST", f"{RUNS}/{second}/cancel", 200, {"interrupt": True})

        async def cancelled() -> Any:
            found = (await call(api, "GET", f"{JOBS}/cancels/runs", 200))["runs"]
            return {each["status"] for each in found} == {"CANCELLED"}

        await eventually(cancelled)


async def test_a_run_that_fails_makes_a_dead_letter_of_the_fire(
    api: Api, database_dsn: str
) -> None:
    await define(api, "fails", {"a": failing("a", on_failure="fail")})
    await job(api, "bad", "fails")
    await job(api, "absent", "nobody")
    async with running_node(database_dsn):
        absent = await fire(api, "absent")

        async def dead() -> Any:
            found = await call(api, "GET", f"/api/v1/tasks/{absent}", 200)
            return found if found["status"] == "DEAD_LETTERED" else None

        assert "nobody" in (await eventually(dead))["last_error"]
        run = await run_of(api, await fire(api, "bad"))
        held = await once(api, run, "FAILED")
        letter = held["nodes"][0]["task_id"]
        await call(api, "POST", f"/api/v1/dead-letters/{letter}/discard", 200)

        async def failed() -> Any:
            found = (await call(api, "GET", f"{JOBS}/bad/runs", 200))["runs"]
            return found[0]["status"] == "DEAD_LETTERED"

        await eventually(failed)


async def test_missed_fires_make_runs_by_policy(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    await define(api, "etl", {"a": node("a"), "b": node("b", "a")})
    expected = {"skip": 0, "fire_once": 1, "backfill": 3}
    now: datetime = await connection.fetchval("SELECT gnomon.now()")
    hourly = f"{(now.minute + 30) % 60} * * * *"
    for policy in expected:
        limit = {"backfill_limit": 10} if policy == "backfill" else {}
        await job(
            api, policy, "etl", cron_expression=hourly, missed_run_policy=policy,
            overlap_policy="allow", **limit,
        )  # fmt: skip
    # Nobody was there for the last three of them, the latest of which was half an hour ago.
    await connection.execute(
        """UPDATE gnomon.cron_job
        SET next_fire_at = date_trunc('minute', $1::timestamptz) - interval '150 minutes'""",
        now,
    )
    async with running_node(database_dsn):

        async def ended() -> Any:
            rows = await connection.fetch(
                """SELECT j.name, count(r.id) FILTER (WHERE r.state = 10) AS runs
                FROM gnomon.cron_job AS j
                LEFT JOIN gnomon.workflow_run AS r ON r.cron_job_id = j.id GROUP BY j.name"""
            )
            return {row["name"]: row["runs"] for row in rows} == expected

        await eventually(ended)


async def test_a_fire_whose_node_dies_has_one_run(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    await define(api, "etl", {"a": node("a"), "b": node("b", "a"), "c": node("c", "b")})
    await job(api, "nightly", "etl")
    async with running_node(database_dsn) as first:
        run = await run_of(api, await fire(api, "nightly"))
        await first.kill()
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")

        async def completed() -> Any:
            found = (await call(api, "GET", f"{JOBS}/nightly/runs", 200))["runs"]
            return [each["status"] for each in found] == ["COMPLETED"]

        await eventually(completed)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.workflow_run") == 1


async def test_only_cron_jobs_have_workflows_as_targets(api: Api) -> None:
    target = {"type": "workflow", "workflow": "etl"}
    body = {"task_type": "x", "target": target}
    problem = await call(api, "POST", "/api/v1/tasks", 422, body)
    assert problem["errors"][0]["pointer"] == "/target"
