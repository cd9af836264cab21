"""Retrying a run from some nodes: a new run, to which the others lend their outputs."""

from typing import Any

from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, failing, node, once, read, start, statuses
from tests.waiting import eventually

NODES: dict[str, Any] = {
    "extract": node("extract", payload={"returns": {"file": "a.csv"}}),
    "load": node("load", "extract", payload={"file": "{{nodes.extract.result.file}}"}),
    "report": node("report", "load", payload={"file": "{{nodes.extract.result.file}}"}),
    "other": node("other", "extract"),
    "last": node("last", "report", "other"),
}


async def test_a_retry_borrows_what_is_not_below(api: Api, database_dsn: str) -> None:
    run = await start(api, NODES)
    async with running_node(database_dsn):
        await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 409, {})  # it has not ended
        done = await once(api, run, "SUCCEEDED")
        problem = await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 422, {})
        assert problem["errors"][0]["pointer"] == "/from"
        problem = await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 422, {"from": ["z"]})
        assert "no node 'z'" in problem["errors"][0]["detail"]
        again = await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 202, {"from": ["load"]})
        assert again["retry_of"] == run["run_id"]
        assert {each["node"] for each in again["nodes"] if each["borrowed"]} == {"extract", "other"}
        second = await once(api, again, "SUCCEEDED")
    first = {each["node"]: each["task_id"] for each in done["nodes"]}
    ids = {each["node"]: each["task_id"] for each in second["nodes"]}
    assert {name for name in ids if ids[name] == first[name]} == {"extract", "other"}
    assert set(statuses(second).values()) == {"COMPLETED"}
    task = await call(api, "GET", f"{TASKS}/{ids['report']}", 200)
    assert task["payload"]["file"] == "a.csv"
    output = await call(api, "GET", f"{RUNS}/{again['run_id']}/outputs/extract", 200)
    assert output["result"] == {"file": "a.csv"}
    assert await read(api, run) == done  # history is not rewritten


async def test_without_from_a_retry_begins_at_what_did_not_go_well(
    api: Api, database_dsn: str
) -> None:
    nodes = {
        "a": node("a"),
        "b": failing("b", "a"),
        "c": node("c", "b"),
        "tidy": node("tidy", "b", when="any_failed"),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):
        found = await once(api, run, "FAILED")
        dead = found["nodes"][1]["task_id"]
        await call(api, "POST", f"/api/v1/dead-letters/{dead}/discard", 200)

        async def ended() -> Any:
            again = await read(api, run)
            return again["finished_at"]

        await eventually(ended)
        again = await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 202, {})
        borrowed = {each["node"] for each in again["nodes"] if each["borrowed"]}
        assert borrowed == {"a"}
        await once(api, again, "FAILED")
        # Its rule over what is borrowed: b has failed, so c could not start, and tidy can.
        problem = await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 422, {"from": ["c"]})
        assert "b was failed" in problem["errors"][0]["detail"]
        third = await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 202, {"from": ["tidy"]})

        async def tidied() -> Any:
            return statuses(await read(api, third))["tidy"] == "COMPLETED"

        await eventually(tidied)


async def test_a_run_that_was_rolled_back_is_not_retried(api: Api, database_dsn: str) -> None:
    run = await start(api, {"a": node("a")})
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")
        await call(api, "POST", f"{RUNS}/{run['run_id']}/rollback", 200, {})
        await once(api, run, "ROLLED_BACK")
    await call(api, "POST", f"{RUNS}/{run['run_id']}/retry", 409, {"from": ["a"]})
