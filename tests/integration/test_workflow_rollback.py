"""Compensations: what undoes completed nodes, in reverse, and when that begins."""

from typing import Any

import asyncpg
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, failing, node, once, read, start, statuses
from tests.waiting import eventually


def undo(who: str, **payload: Any) -> dict[str, Any]:
    return {
        "task_type": "echo",
        "payload": {"who": who, **payload},
        "retry_policy": {"max_retries": 0},
    }


def broken(who: str) -> dict[str, Any]:
    return {**undo(who), "task_type": "hook", "callback_url": "http://127.0.0.1:9/nobody"}


ORDER: dict[str, Any] = {
    "reserve": node(
        "reserve",
        payload={"returns": {"id": 7}},
        compensate=undo("release", what="{{nodes.reserve.result}}"),
    ),
    "charge": node("charge", "reserve", compensate=undo("refund")),
    "ship": failing("ship", "charge", compensate=undo("fetch back")),
    "tell": node("tell", "charge"),
}


def spans(run: Any) -> dict[str, Any]:
    return {each["node"]: each for each in run["nodes"]}


async def test_fail_fast_undoes_what_has_completed_the_last_first(
    api: Api, database_dsn: str
) -> None:
    run = await start(api, ORDER, fail_fast=True)
    async with running_node(database_dsn):
        done = await once(api, run, "ROLLED_BACK")
    assert "fail_fast" in done["reason"]
    found = statuses(done)
    assert found["compensate:reserve"] == found["compensate:charge"] == "COMPLETED"
    assert "compensate:ship" not in found  # it has not completed
    assert "compensate:tell" not in found  # nothing undoes it
    ends = spans(done)
    assert ends["compensate:charge"]["finished_at"] <= ends["compensate:reserve"]["started_at"]
    assert ends["compensate:reserve"]["compensates"] == "reserve"
    assert ends["compensate:reserve"]["after"] == ["compensate:charge"]
    task = await call(api, "GET", f"{TASKS}/{ends['compensate:reserve']['task_id']}", 200)
    assert task["payload"]["what"] == {"id": 7}  # the node's own result
    # What is being undone is not done again.
    dead = ends["ship"]["task_id"]
    problem = await call(api, "POST", f"/api/v1/dead-letters/{dead}/retry", 409)
    assert "ROLLED_BACK" in problem["detail"]


async def test_a_failed_compensation_holds_the_rest_up_and_can_be_retried(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    nodes = {
        "a": node("a", compensate=undo("a")),
        "b": node("b", "a", compensate=broken("b")),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")
        asked = await call(api, "POST", f"{RUNS}/{run['run_id']}/rollback", 200, {})
        assert asked["status"] == "ROLLING_BACK"

        async def dead() -> Any:
            found = await read(api, run)
            return found if statuses(found).get("compensate:b") == "DEAD_LETTERED" else None

        found = await eventually(dead)
        assert statuses(found)["compensate:a"] == "BLOCKED"
        ids = {each["node"]: each["task_id"] for each in found["nodes"]}
        told = await call(api, "GET", f"{TASKS}/{ids['compensate:a']}/explain", 200)
        assert "compensate:b" in told["summary"]
        await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 409, {})
        await connection.execute(
            """UPDATE gnomon.task SET target = '{"type": "python", "function": "echo"}'
            WHERE id = $1::text::uuid""",
            ids["compensate:b"],
        )
        await call(api, "POST", f"/api/v1/dead-letters/{ids['compensate:b']}/retry", 202)
        done = await once(api, run, "ROLLED_BACK")
    assert statuses(done)["compensate:a"] == "COMPLETED"
    again = await call(api, "POST", f"{RUNS}/{run['run_id']}/rollback", 200, {})
    assert again["status"] == "ROLLED_BACK"
    assert len(again["nodes"]) == 4


async def test_a_discarded_compensation_lets_the_others_go_on(api: Api, database_dsn: str) -> None:
    nodes = {"a": node("a", compensate=undo("a")), "b": node("b", "a", compensate=broken("b"))}
    run = await start(api, nodes)
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")
        await call(api, "POST", f"{RUNS}/{run['run_id']}/rollback", 200, {})

        async def dead() -> Any:
            found = spans(await read(api, run)).get("compensate:b")
            return found if found and found["status"] == "DEAD_LETTERED" else None

        found = await eventually(dead)
        await call(api, "POST", f"/api/v1/dead-letters/{found['task_id']}/discard", 200)
        done = await once(api, run, "ROLLED_BACK")
    assert statuses(done)["compensate:a"] == "COMPLETED"


async def test_cancelling_rolls_back_only_if_asked(api: Api, database_dsn: str) -> None:
    nodes = {
        "a": node("a", compensate=undo("a")),
        "b": node("b", "a") | {"task_type": "nobody_has_this"},
    }
    plain, back = await start(api, nodes), await start(api, nodes)
    async with running_node(database_dsn):
        for run in (plain, back):

            async def ready(run: Any = run) -> bool:
                return statuses(await read(api, run))["a"] == "COMPLETED"

            await eventually(ready)
        await call(api, "POST", f"{RUNS}/{plain['run_id']}/cancel", 200, {})
        done = await once(api, plain, "CANCELLED")
        assert statuses(done)["a"] == "COMPLETED"
        assert "compensate:a" not in statuses(done)
        await call(api, "POST", f"{RUNS}/{back['run_id']}/cancel", 200, {"rollback": True})
        done = await once(api, back, "ROLLED_BACK")
        assert statuses(done)["compensate:a"] == "COMPLETED"
        # Who changes their mind may still undo a cancelled run.
        await call(api, "POST", f"{RUNS}/{plain['run_id']}/rollback", 200, {})
        assert statuses(await once(api, plain, "ROLLED_BACK"))["compensate:a"] == "COMPLETED"


async def test_a_deadline_rolls_back(api: Api, database_dsn: str) -> None:
    nodes = {
        "a": node("a", compensate=undo("a")),
        "b": node("b", "a") | {"task_type": "nobody_has_this"},
    }
    run = await start(api, nodes, deadline_seconds=0.5)
    async with running_node(database_dsn):
        done = await once(api, run, "ROLLED_BACK")
    assert "deadline" in done["reason"]


async def test_a_run_without_compensations_is_rolled_back_at_once(
    api: Api, database_dsn: str
) -> None:
    run = await start(api, {"a": node()})
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")
        await call(api, "POST", f"{RUNS}/{run['run_id']}/rollback", 200, {})
        done = await once(api, run, "ROLLED_BACK")
    assert done["finished_at"] is not None


async def test_compensations_that_make_no_sense_are_refused(api: Api) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({**undo("x"), "delay_seconds": 1}, "/compensate/delay_seconds"),
        (undo("x", of="{{nodes.b.result}}"), "/compensate/after"),
        (undo("x", of="{{nodes.z.result}}"), "/compensate/payload"),
    ]
    for compensate, pointer in cases:
        problem = await start(api, {"a": node(compensate=compensate), "b": node("x", "a")}, 422)
        assert problem["errors"][0]["pointer"] == f"/definition/nodes/a{pointer}"
