"""Runs of workflows over the API, with nodes that run their tasks."""

from typing import Any

import asyncpg
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.test_workflow_waits import steps
from tests.integration.workflow_calls import RUNS, failing, node, once, read, start, statuses
from tests.waiting import eventually

from gnomon.model.fleet.retention import RowKind
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.retention.expired_rows import ExpiredRows


async def test_a_diamond_runs_in_its_order(api: Api, database_dsn: str) -> None:
    run = await start(
        api, {"a": node(), "b": node("x", "a"), "c": node("x", "a"), "d": node("x", "b", "c")}
    )
    assert run["status"] == "RUNNING"
    assert statuses(run) == {"a": "READY", "b": "BLOCKED", "c": "BLOCKED", "d": "BLOCKED"}
    assert run["nodes"][3]["waits_for"] == ["b", "c"]
    async with running_node(database_dsn):
        done = await once(api, run, "SUCCEEDED")
    assert set(statuses(done).values()) == {"COMPLETED"}
    assert done["finished_at"] is not None
    ends = {each["node"]: each for each in done["nodes"]}
    assert ends["a"]["finished_at"] <= ends["b"]["started_at"]
    assert max(ends[n]["finished_at"] for n in "bc") <= ends["d"]["started_at"]
    assert all(each["waits_for"] == [] for each in done["nodes"])
    task = await call(api, "GET", f"{TASKS}/{ends['d']['task_id']}", 200)
    assert (task["workflow_run_id"], task["node"]) == (run["run_id"], "d")


async def test_a_run_is_read_once_it_has_ended(api: Api, database_dsn: str) -> None:
    run = await start(api, {"a": node(), "b": node("x", "a")})
    path = f"{RUNS}/{run['run_id']}"
    assert (await call(api, "GET", f"{path}?wait=0.01", 200))["status"] == "RUNNING"
    async with running_node(database_dsn):
        assert (await call(api, "GET", f"{path}?wait=30", 200))["status"] == "SUCCEEDED"
        held = await start(api, {"a": failing()})
        found = await call(api, "GET", f"{RUNS}/{held['run_id']}?wait=30", 200)
    assert (found["status"], found["finished_at"]) == ("FAILED", None)


async def test_runs_past_retention_are_removed_with_all_that_is_theirs(
    api: Api, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    waits = {"wait_for": {"signal": "go"}}
    old = await start(api, {"a": waits, "b": waits | {"after": ["a"]}})
    kept = await start(api, {"a": waits})
    path = f"{RUNS}/{old['run_id']}"
    await call(api, "POST", f"{path}/signals/go", 200, {"data": 1})
    await steps(database)
    assert (await read(api, old))["status"] == "SUCCEEDED"
    rows = ExpiredRows(database)
    assert (await rows.remove(RowKind.RUNS, 1000, 1.0)).removed == 0
    while (await rows.remove(RowKind.RUNS, 2, -1.0)).more:
        pass
    await call(api, "GET", path, 404)
    assert (await read(api, kept))["status"] == "RUNNING"
    for table in ("node", "result", "signal"):
        left = f"SELECT count(*) FROM gnomon.workflow_{table} WHERE run_id = $1::text::uuid"
        assert await connection.fetchval(left, old["run_id"]) == 0, table


async def test_a_blocked_task_says_what_it_waits_for(api: Api) -> None:
    run = await start(api, {"a": node(), "b": node(), "c": node("x", "a", "b")})
    ids = {each["node"]: each["task_id"] for each in run["nodes"]}
    found = await call(api, "GET", f"{TASKS}/{ids['c']}/explain", 200)
    assert "a, b" in found["summary"]
    held = {each["name"] for each in found["held_by"] if each["kind"] == "task"}
    assert held == {ids["a"], ids["b"]}


async def test_a_dead_letter_holds_the_run_up_until_it_is_retried(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    run = await start(api, {"a": failing(), "b": node("x", "a")})
    async with running_node(database_dsn):
        found = await once(api, run, "FAILED")
        assert statuses(found) == {"a": "DEAD_LETTERED", "b": "BLOCKED"}
        assert found["finished_at"] is None
        task_id = found["nodes"][0]["task_id"]
        await connection.execute(
            """UPDATE gnomon.task SET target = '{"type": "python", "function": "echo"}'
            WHERE id = $1::text::uuid""",
            task_id,
        )
        await call(api, "POST", f"{TASKS}/{task_id}/retry", 202)
        done = await once(api, run, "SUCCEEDED")
    assert statuses(done) == {"a": "COMPLETED", "b": "COMPLETED"}


async def test_a_discarded_node_skips_those_below_it(api: Api, database_dsn: str) -> None:
    nodes = {
        "a": failing(), "b": node("x", "a"), "c": node("x", "b"),
        "tidy": node("x", "c", when="all_done"),
    }  # fmt: skip
    run = await start(api, nodes)
    async with running_node(database_dsn):
        found = await once(api, run, "FAILED")
        task_id = found["nodes"][0]["task_id"]
        await call(api, "POST", f"/api/v1/dead-letters/{task_id}/discard", 200)

        async def ended() -> Any:
            again = await read(api, run)
            return again if again["finished_at"] else None

        done = await eventually(ended)
    assert done["status"] == "FAILED"
    assert statuses(done) == {
        "a": "DEAD_LETTERED", "b": "SKIPPED", "c": "SKIPPED", "tidy": "COMPLETED",
    }  # fmt: skip


async def test_a_run_that_is_cancelled_ends_all_its_tasks(api: Api, database_dsn: str) -> None:
    nodes = {"a": node("x")} | {f"b{n}": node("x", "a") for n in range(20)}
    nodes["a"]["task_type"] = "wait_at_the_gate"
    nodes["a"]["payload"] = {"who": "cancelled run"}
    run = await start(api, nodes)
    async with running_node(database_dsn):
        await eventually(lambda: _status(api, run, "a", "RUNNING"))
        asked = await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200, {"interrupt": True})
        assert asked["status"] == "CANCELLING"
        done = await once(api, run, "CANCELLED")
    assert set(statuses(done).values()) == {"CANCELLED"}
    await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200, {})
    await call(api, "POST", f"{RUNS}/{run['run_id']}/pause", 409, {})


async def _status(api: Api, run: Any, name: str, status: str) -> bool:
    return statuses(await read(api, run))[name] == status


async def test_a_paused_run_starts_nothing(api: Api, database_dsn: str) -> None:
    run = await start(api, {"a": node(), "b": node("x", "a")})
    path = f"{RUNS}/{run['run_id']}"
    assert (await call(api, "POST", f"{path}/pause", 200, {}))["status"] == "PAUSED"
    async with running_node(database_dsn):
        assert await _status(api, run, "a", "PAUSED")
        assert (await call(api, "POST", f"{path}/resume", 200, {}))["status"] == "RUNNING"
        await once(api, run, "SUCCEEDED")


async def test_fail_fast_cancels_the_rest(api: Api, database_dsn: str) -> None:
    nodes = {"a": failing(), "b": node("x", "a"), "c": node("x", "b")}
    run = await start(api, nodes, fail_fast=True)
    async with running_node(database_dsn):
        done = await once(api, run, "CANCELLED")
    assert "fail_fast" in done["reason"]
    assert statuses(done) == {"a": "DEAD_LETTERED", "b": "CANCELLED", "c": "CANCELLED"}


async def test_a_deadline_cancels_the_rest(api: Api, database_dsn: str) -> None:
    nodes = {"a": node() | {"task_type": "nobody_has_this"}, "b": node("x", "a")}
    run = await start(api, nodes, deadline_seconds=0.05)
    async with running_node(database_dsn):
        done = await once(api, run, "CANCELLED")
    assert "deadline" in done["reason"]


async def test_graphs_that_make_no_sense_are_refused(api: Api) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"a": node("x", "b")}, "/definition/nodes/a/after/0", "no node 'b'"),
        ({"a": node("x", "a")}, "/definition/nodes/a/after/0", "a -> a"),
        (
            {"a": node("x", "c"), "b": node("x", "a"), "c": node("x", "b")},
            "/definition/nodes",
            "a -> b -> c -> a",
        ),
        ({"a": node(delay_seconds=1)}, "/definition/nodes/a/delay_seconds", "not for nodes"),
        ({"a": node(idempotency_key="k")}, "/definition/nodes/a/idempotency_key", "not for nodes"),
    ]
    for nodes, pointer, text in cases:
        problem = await start(api, nodes, 422)
        (error,) = problem["errors"]
        assert error["pointer"] == pointer
        assert text in error["detail"]
    problem = await start(api, {"a": node()}, 422, edges=[["a", "z"]])
    assert problem["errors"][0]["pointer"] == "/definition/edges/0/1"
    assert (await call(api, "GET", RUNS, 200))["runs"] == []


async def test_runs_are_listed_newest_first_and_by_status(api: Api) -> None:
    first, second = [await start(api, {"a": node()}) for _ in range(2)]
    found = await call(api, "GET", RUNS, 200, params={"limit": 1})
    assert [each["run_id"] for each in found["runs"]] == [second["run_id"]]
    rest = await call(api, "GET", RUNS, 200, params={"cursor": found["next_cursor"]})
    assert [each["run_id"] for each in rest["runs"]] == [first["run_id"]]
    await call(api, "POST", f"{RUNS}/{first['run_id']}/pause", 200, {})
    for status, expected in (("PAUSED", first), ("RUNNING", second)):
        found = await call(api, "GET", RUNS, 200, params={"status": status})
        assert [each["run_id"] for each in found["runs"]] == [expected["run_id"]]
    await call(api, "GET", f"{RUNS}/nonsense", 404)
