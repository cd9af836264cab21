"""Callbacks of plain tasks: workflows of one edge."""

from typing import Any

from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, failing, node, once, statuses
from tests.waiting import eventually


def plain(**fields: Any) -> dict[str, Any]:
    return {each: value for each, value in node(**fields).items() if each != "after"}


async def test_what_follows_a_task_runs_after_it(api: Api, database_dsn: str) -> None:
    told = plain(payload={"of": "{{nodes.task.result.n}}"})
    body = plain(payload={"returns": {"n": 5}, "literal": "{{kept}}"}) | {
        "on_success": told, "on_failure": plain(), "delay_seconds": 0.01, "idempotency_key": "k",
    }  # fmt: skip
    task = await call(api, "POST", TASKS, 202, body)
    again = await call(api, "POST", TASKS, 202, body)
    assert again["task_id"] == task["task_id"]
    run = {"run_id": task["workflow_run_id"]}
    async with running_node(database_dsn):
        done = await once(api, run, "SUCCEEDED")
    assert statuses(done) == {
        "task": "COMPLETED",
        "on_success": "COMPLETED",
        "on_failure": "SKIPPED",
    }
    ids = {each["node"]: each["task_id"] for each in done["nodes"]}
    assert ids["task"] == task["task_id"]
    assert (await call(api, "GET", f"{TASKS}/{ids['task']}", 200))["payload"][
        "literal"
    ] == "{{kept}}"
    assert (await call(api, "GET", f"{TASKS}/{ids['on_success']}", 200))["payload"]["of"] == 5
    assert len((await call(api, "GET", RUNS, 200))["runs"]) == 1


async def test_a_failure_is_followed_at_once(api: Api, database_dsn: str) -> None:
    hook = {each: value for each, value in failing().items() if each != "after"}
    task = await call(api, "POST", TASKS, 202, hook | {"on_failure": plain()})
    async with running_node(database_dsn):
        held = await once(api, {"run_id": task["workflow_run_id"]}, "FAILED")
        assert statuses(held)["task"] == "DEAD_LETTERED"

        async def told() -> Any:
            found = await call(api, "GET", f"{RUNS}/{task['workflow_run_id']}", 200)
            return statuses(found)["on_failure"] == "COMPLETED"

        await eventually(told)


async def test_callbacks_that_make_no_sense_are_refused(api: Api) -> None:
    body = plain() | {"on_success": plain() | {"delay_seconds": 1}}
    problem = await call(api, "POST", TASKS, 422, body)
    assert problem["errors"][0]["pointer"] == "/on_success/delay_seconds"
