"""Nodes that wait for a signal, or for a time."""

import asyncio
from typing import Any

import asyncpg
import pytest
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, node, once, read, start, statuses
from tests.waiting import eventually

from gnomon.store.postgres.database import Database
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps
from gnomon.workflow.wait import MOST_SIGNAL_BYTES, MOST_SIGNALS


def waiting(*after: str, **fields: Any) -> dict[str, Any]:
    return {"wait_for": fields.pop("wait_for", {"signal": "approved"}), "after": [*after], **fields}


async def signal(
    api: Api, run: Any, data: Any = None, status: int = 200, name: str = "approved"
) -> Any:
    path = f"{RUNS}/{run['run_id']}/signals/{name}"
    return await call(api, "POST", path, status, {"data": data})


async def steps(database: Database) -> None:
    while (await PostgresWorkflowSteps(database).take()).steps:
        pass


async def test_a_node_waits_for_its_signal_and_hands_its_data_on(
    api: Api, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: the chore of workflows is told of the run and of the signal, and does not look."""
    monkeypatch.setattr("gnomon.wiring.node.STEP_SECONDS", 3600.0)
    nodes = {
        "ask": node(),
        "wait": waiting("ask"),
        "tell": node("x", "wait", payload={"by": "{{nodes.wait.result.by}}"}),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):

        async def waits() -> Any:
            found = (await read(api, run))["nodes"][1]
            return found if found["waits_for_signal"] else None

        found = await eventually(waits)
        assert (found["waits_for_signal"], found["status"]) == ("approved", "BLOCKED")
        assert found["waits_until"] is None
        why = await call(api, "GET", f"{TASKS}/{found['task_id']}/explain", 200)
        assert "waits for the signal approved" in why["summary"]
        sent = await signal(api, run, {"by": "Ada"})
        assert (sent["signal"], sent["data"]) == ("approved", {"by": "Ada"})
        done = await once(api, run, "SUCCEEDED")
    tell = await call(api, "GET", f"{TASKS}/{done['nodes'][2]['task_id']}", 200)
    assert tell["payload"]["by"] == "Ada"
    output = await call(api, "GET", f"{RUNS}/{run['run_id']}/outputs/wait", 200)
    assert output["result"] == {"by": "Ada"}


async def test_an_early_signal_is_kept_and_holds(api: Api, database: Database) -> None:
    run = await start(api, {"a": waiting(), "b": waiting("a")})
    first = await signal(api, run, [1.0, "x"])
    assert await signal(api, run, [1.0, "x"]) == first, "the same again changes nothing"
    problem = await signal(api, run, [2], 409)
    assert "with other data: the first one holds" in problem["detail"]
    await steps(database)
    found = await read(api, run)
    assert found["status"] == "SUCCEEDED"
    problem = await signal(api, run, 1, 409, name="late")
    assert "is SUCCEEDED" in problem["detail"]
    assert await signal(api, run, [1.0, "x"]) == first, "a repetition is answered all the same"


async def test_a_signal_that_does_not_come_fails_the_node_or_gives_the_stated_result(
    api: Api, database: Database
) -> None:
    short = {"signal": "never", "timeout_seconds": 0.001}
    nodes = {
        "given": waiting(wait_for=short | {"timeout_result": {"approved": False}}),
        "failed": waiting(wait_for=short),
        "skipped": waiting(wait_for=short, on_failure="skip"),
        "below": waiting("failed", wait_for={"seconds": 0.001}),
    }
    run = await start(api, nodes)

    async def all_over() -> Any:
        await steps(database)
        found = await read(api, run)
        return found if found["nodes"][1]["error"] else None

    found = await eventually(all_over)
    assert found["status"] == "FAILED"
    assert found["nodes"][1]["error"] == "the signal never did not come within 0.001 s"
    output = await call(api, "GET", f"{RUNS}/{run['run_id']}/outputs/given", 200)
    assert output["result"] == {"approved": False}
    # Retried, it waits anew; and the signal has come meanwhile.
    await signal(api, run, "yes", name="never")
    await call(api, "POST", f"{TASKS}/{found['nodes'][1]['task_id']}/retry", 202)

    async def ended() -> Any:
        await steps(database)
        again = await read(api, run)
        return again if again["finished_at"] else None

    done = await eventually(ended)
    assert done["status"] == "SUCCEEDED"
    assert statuses(done)["failed"] == statuses(done)["below"] == "COMPLETED"


async def test_nobody_goes_on_before_the_time(
    api: Api, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    nodes = {
        "hour": waiting(wait_for={"seconds": 3600}),
        "day": waiting(wait_for={"until": "{{run.input.at}}"}),
        "no": waiting(wait_for={"seconds": 1}, **{"if": {"left": 1, "op": ">", "right": 2}}),
    }
    body = {"definition": {"nodes": nodes}, "input": {"at": "2100-01-01T00:00:00Z"}}
    run = await call(api, "POST", RUNS, 202, body)
    await steps(database)
    found = await read(api, run)
    assert statuses(found) == {"hour": "BLOCKED", "day": "BLOCKED", "no": "SKIPPED"}
    assert found["nodes"][1]["waits_until"] == "2100-01-01T00:00:00Z"
    why = await call(api, "GET", f"{TASKS}/{found['nodes'][1]['task_id']}/explain", 200)
    assert "waits until 2100-01-01" in why["summary"]
    await connection.execute(
        "UPDATE gnomon.workflow_node SET due_at = gnomon.now() WHERE step = -1"
    )
    await steps(database)
    assert (await read(api, run))["status"] == "SUCCEEDED"


async def test_a_signal_and_a_node_that_begins_to_wait_do_not_miss_each_other(
    api: Api, database: Database
) -> None:
    for _ in range(20):
        run = await start(api, {"a": waiting(), "b": waiting(), "c": waiting("a", "b")})
        await asyncio.gather(steps(database), steps(database), signal(api, run, 1), steps(database))
        await steps(database)
        found = await read(api, run)
        assert found["status"] == "SUCCEEDED", statuses(found)


async def test_a_run_that_waits_can_be_cancelled_and_paused(api: Api, database: Database) -> None:
    run = await start(api, {"a": waiting(), "b": waiting("a")})
    await steps(database)
    await call(api, "POST", f"{RUNS}/{run['run_id']}/pause", 200)
    await signal(api, run, 1)
    await steps(database)
    assert statuses(await read(api, run)) == {"a": "BLOCKED", "b": "BLOCKED"}
    await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200)
    await steps(database)
    assert (await read(api, run))["status"] == "CANCELLED"


async def test_signals_are_bounded_and_walled(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    run = await start(api, {"a": waiting()})
    problem = await signal(api, run, "x" * MOST_SIGNAL_BYTES, 413)
    assert problem["errors"][0]["pointer"] == "/data"
    await signal(api, run, 1, 422, name="no%20name")
    await connection.execute(
        """
        INSERT INTO gnomon.workflow_signal (tenant_id, run_id, name, sent_at)
        SELECT 'default', $1::text::uuid, 's' || n, gnomon.now() FROM generate_series(1, $2) AS n
        """,
        run["run_id"], MOST_SIGNALS,
    )  # fmt: skip
    problem = await signal(api, run, 1, 409)
    assert "as many as are kept" in problem["detail"]
    await signal(api, {"run_id": "0199f3a2-7c1e-7d43-8000-000000000000"}, 1, 404)


async def test_waits_that_make_no_sense_are_refused(api: Api) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"wait_for": {}}, "/wait_for"),
        ({"wait_for": {"signal": "a", "seconds": 1}}, "/wait_for"),
        ({"wait_for": {"seconds": 1, "timeout_seconds": 1}}, "/wait_for/timeout_seconds"),
        ({"wait_for": {"signal": "a", "timeout_result": 1}}, "/wait_for/timeout_result"),
        ({"wait_for": {"until": "tomorrow"}}, "/wait_for/until"),
        ({"wait_for": {"until": "{{nodes.b.result}}"}}, "/payload"),
        ({"wait_for": {"signal": "a"}, "payload": 1}, "/payload"),
        ({"wait_for": {"signal": "a"}, "retry_policy": {"max_retries": 1}}, "/retry_policy"),
    ]
    for body, pointer in cases:
        problem = await start(api, {"a": body}, 422)
        assert problem["errors"][0]["pointer"] == f"/definition/nodes/a{pointer}", body
