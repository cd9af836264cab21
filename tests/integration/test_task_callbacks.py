"""Callbacks of plain tasks: workflows of one edge."""

from typing import Any
from uuid import UUID

import pytest
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


async def run_of(api: Api, task_id: str) -> Any:
    task = await call(api, "GET", f"{TASKS}/{task_id}", 200)
    return {"run_id": task["workflow_run_id"]}


async def test_each_task_of_many_is_followed_by_its_own(api: Api, database_dsn: str) -> None:
    good = plain(payload={"returns": 7}) | {
        "on_success": plain(payload={"of": "{{nodes.task.result}}"}), "on_failure": plain(),
        "idempotency_key": "good",
    }  # fmt: skip
    bad = {each: value for each, value in failing().items() if each != "after"}
    bad |= {"on_success": plain(), "on_failure": plain(payload={"run": "{{run.id}}"})}
    body = {"tasks": [good, plain(), bad, good]}
    made = (await call(api, "POST", f"{TASKS}/batch", 202, body))["tasks"]
    assert made[3]["task_id"] == made[0]["task_id"]
    again = (await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [good]}))["tasks"]
    alone = await call(api, "POST", TASKS, 202, good)
    assert again[0]["task_id"] == alone["task_id"] == made[0]["task_id"]
    runs = (await call(api, "GET", RUNS, 200))["runs"]
    assert len(runs) == 2, "one for each task with callbacks, however often it is submitted"
    async with running_node(database_dsn):
        done = await once(api, await run_of(api, made[0]["task_id"]), "SUCCEEDED")
        assert statuses(done)["on_failure"] == "SKIPPED"
        held = await run_of(api, made[2]["task_id"])

        async def told() -> Any:
            found = statuses(await call(api, "GET", f"{RUNS}/{held['run_id']}", 200))
            return found["on_failure"] == "COMPLETED" and found

        assert (await eventually(told))["on_success"] == "BLOCKED"
        assert (await call(api, "GET", f"{TASKS}/{made[1]['task_id']}", 200))[
            "workflow_run_id"
        ] is None
    ids = {each["node"]: UUID(each["task_id"]) for each in done["nodes"]}
    assert (await call(api, "GET", f"{TASKS}/{ids['on_success']}", 200))["payload"]["of"] == 7


async def test_callbacks_count_among_the_tasks_of_a_batch(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.usecases.tasks.submit_batch.MOST_TASKS_A_BATCH", 3)
    one = plain() | {"on_success": plain()}
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": [one, one]})
    assert problem["errors"][0]["pointer"] == "/tasks/1"
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [one, plain()]})
    wrong = plain() | {"on_failure": plain() | {"delay_seconds": 1}}
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": [plain(), wrong]})
    assert problem["errors"][0]["pointer"] == "/tasks/1/on_failure/delay_seconds"


async def test_callbacks_that_make_no_sense_are_refused(api: Api) -> None:
    body = plain() | {"on_success": plain() | {"delay_seconds": 1}}
    problem = await call(api, "POST", TASKS, 422, body)
    assert problem["errors"][0]["pointer"] == "/on_success/delay_seconds"
