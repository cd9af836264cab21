"""Nodes that are mapped over a list."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.test_workflow_waits import steps
from tests.integration.workflow_calls import RUNS, failing, node, once, read, start, statuses
from tests.waiting import eventually

from gnomon.store.postgres.database import Database
from gnomon.store.postgres.workflows import maps
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps


def mapped(items: Any, *after: str, **fields: Any) -> dict[str, Any]:
    return node("x", *after, map=items, **fields)


async def made(connection: "asyncpg.Connection[Any]") -> int:
    """The elements that there are."""
    number: int = await connection.fetchval(
        "SELECT count(DISTINCT payload::text) FROM gnomon.task WHERE workflow_node LIKE '%[%'"
    )
    assert number == await connection.fetchval(
        "SELECT count(*) FROM gnomon.task WHERE workflow_node LIKE '%[%'"
    )
    return number


async def output(api: Api, run: Any, name: str) -> Any:
    return await call(api, "GET", f"{RUNS}/{run['run_id']}/outputs/{name}", 200)


async def test_each_element_is_a_task_and_the_next_node_gets_the_list(
    api: Api, database_dsn: str
) -> None:
    nodes = {
        "list": node(payload={"returns": [{"n": 1}, {"n": 2}, {"n": 3}]}),
        "each": mapped(
            "{{nodes.list.result}}", "list",
            payload={"returns": "{{item.n}}", "text": "{{index}} of {{run.input}}"},
        ),
        "sum": node("x", "each", payload={"returns": "{{nodes.each.result}}"}),
        "none": mapped([], "list"),
        "after": node("x", "none", payload={"returns": "{{nodes.none.result}}"}),
    }  # fmt: skip
    body = {"definition": {"nodes": nodes}, "input": "it"}
    run = await call(api, "POST", RUNS, 202, body)
    async with running_node(database_dsn):
        done = await once(api, run, "SUCCEEDED")
    assert (await output(api, run, "sum"))["result"] == [1, 2, 3]
    assert (await output(api, run, "after"))["result"] == []
    assert (await output(api, run, "each[1]"))["result"] == 2
    each = done["nodes"][1]
    assert (each["node"], each["elements"], each["elements_ended"]) == ("each", 3, 3)
    assert set(statuses(done)) == set(nodes), "elements are not listed"


async def test_a_dead_element_holds_the_node_up_and_is_named(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    nodes = {"each": failing(map=[1, 2]), "next": node("x", "each")}
    run = await start(api, nodes)
    async with running_node(database_dsn):
        found = await once(api, run, "FAILED")
        assert statuses(found) == {"each": "BLOCKED", "next": "BLOCKED"}
        why = await call(api, "GET", f"{TASKS}/{found['nodes'][0]['task_id']}/explain", 200)
        assert "each[0] is a dead letter" in why["summary"]
        rows = await connection.fetch("SELECT id FROM gnomon.task WHERE workflow_node LIKE '%[%'")
        await connection.execute(
            """UPDATE gnomon.task SET target = '{"type": "python", "function": "echo"}'
            WHERE workflow_node LIKE '%[%'"""
        )
        for row in rows:
            await call(api, "POST", f"{TASKS}/{row['id']}/retry", 202)
        await once(api, run, "SUCCEEDED")


@pytest.mark.parametrize(
    ("on_failure", "status", "result"),
    [("skip", "COMPLETED", []), ("continue", "COMPLETED", [None, None])],
)
async def test_failed_elements_count_as_the_node_says(
    api: Api, database_dsn: str, on_failure: str, status: str, result: Any
) -> None:
    run = await start(api, {"each": failing(map=[1, 2], on_failure=on_failure)})
    async with running_node(database_dsn):
        done = await once(api, run, "SUCCEEDED")
    assert statuses(done) == {"each": status}
    assert (await output(api, run, "each"))["result"] == result


async def test_a_discarded_element_fails_the_node(api: Api, database_dsn: str) -> None:
    nodes = {"each": failing(map=[1]), "next": node("x", "each")}
    run = await start(api, nodes)
    async with running_node(database_dsn):
        await once(api, run, "FAILED")
        (dead,) = (await call(api, "GET", "/api/v1/dead-letters", 200))["dead_letters"]
        await call(api, "POST", f"/api/v1/dead-letters/{dead['task_id']}/discard", 200)

        async def ended() -> Any:
            again = await read(api, run)
            return again if again["finished_at"] else None

        done = await eventually(ended)
    assert (done["status"], statuses(done)["next"]) == ("FAILED", "SKIPPED")
    assert done["nodes"][0]["error"] == "1 of its 1 elements failed"


async def test_a_list_is_expanded_in_chunks_by_several_at_once_and_each_element_is_made_once(
    api: Api, database: Database, connection: "asyncpg.Connection[Any]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(maps, "CHUNK", 7)
    run = await start(
        api, {"each": mapped([*range(100)], payload={"n": "{{index}}"}), "next": node("x", "each")}
    )
    await asyncio.gather(steps(database), steps(database), steps(database))
    assert await made(connection) == 100
    (each, _) = (await read(api, run))["nodes"]
    assert (each["status"], each["elements"], each["elements_ended"]) == ("BLOCKED", 100, 0)


async def test_a_chore_that_is_killed_between_chunks_loses_and_doubles_nothing(
    api: Api, database: Database, connection: "asyncpg.Connection[Any]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its connection is cut in the middle of a chunk: what was not committed is gone, and the next
    one goes on after the last chunk that was."""
    monkeypatch.setattr(maps, "CHUNK", 10)
    run = await start(api, {"each": mapped([*range(45)], payload={"n": "{{index}}"})})
    for _ in range(3):
        await PostgresWorkflowSteps(database).take()
        held = await made(connection)
        lock = "LOCK TABLE gnomon.workflow_edge IN EXCLUSIVE MODE"
        async with connection.transaction():
            await connection.execute(lock)
            doomed = asyncio.ensure_future(PostgresWorkflowSteps(database).take())

            async def waits() -> Any:
                return await connection.fetchval(
                    "SELECT pid FROM pg_locks WHERE NOT granted"
                    " AND relation = 'gnomon.workflow_edge'::regclass"
                )

            pid = await eventually(waits)
            await connection.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(Exception, match=r"."):
            await doomed
        after = await made(connection)
        assert after == held
    await steps(database)
    rows = await connection.fetch("SELECT payload FROM gnomon.task WHERE workflow_node LIKE '%[%'")
    assert len(rows) == 45
    assert (await read(api, run))["nodes"][0]["elements"] == 45


async def test_a_cancelled_run_ends_when_its_elements_have(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "CHUNK", 5)
    run = await start(api, {"each": mapped([*range(20)]), "next": node("x", "each")})
    await PostgresWorkflowSteps(database).take()
    await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200)
    await steps(database)
    found = await read(api, run)
    assert found["status"] == "CANCELLED"
    assert found["nodes"][0]["elements"] == 5


async def test_a_mapped_node_whose_turn_came_by_one_parent_waits_for_no_other(
    api: Api, database_dsn: str
) -> None:
    nodes = {
        "a": node(),
        "b": failing(),
        "each": mapped([1, 2], "a", "b", when="any_succeeded"),
        "next": node("x", "each"),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):

        async def through() -> Any:
            found = await read(api, run)
            return statuses(found)["next"] == "COMPLETED" and found["status"] == "FAILED"

        await eventually(through)


async def test_lists_that_make_no_sense_make_a_dead_letter_or_are_refused(
    api: Api, database: Database
) -> None:
    run = await start(api, {"a": mapped({"no": "list"})})
    await steps(database)
    assert "the value is no list" in (await read(api, run))["nodes"][0]["error"]
    run = await start(api, {"a": mapped([1] * 10_001)})
    await steps(database)
    assert "at most 10000 are possible" in (await read(api, run))["nodes"][0]["error"]
    run = await start(api, {"a": mapped([{"n": 1}, {}], payload={"x": "{{item.n}}"})})
    await steps(database)
    assert "item has no 'n'" in (await read(api, run))["nodes"][0]["error"]
    await start(api, {"a": node(payload={"x": "{{item}}"})}, 422)
    await start(api, {"a": {"wait_for": {"seconds": 1}, "map": [1]}}, 422)


async def test_a_mapped_node_that_is_retried_after_its_run_has_ended_is_expanded(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    """Its list was none, it has counted, and the run has gone on to its end without it."""
    nodes = {
        "a": node(payload={"returns": {"n": 1}}),
        "each": mapped(
            "{{nodes.a.result.n}}", "a", on_failure="continue", payload={"returns": "{{item}}"}
        ),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):
        each = (await once(api, run, "SUCCEEDED"))["nodes"][1]
        assert each["status"] == "DEAD_LETTERED"
        await connection.execute("UPDATE gnomon.workflow_result SET output = '{\"n\": [1, 2]}'")
        await call(api, "POST", f"{TASKS}/{each['task_id']}/retry", 202)

        async def completed() -> Any:
            found = await call(api, "GET", f"{TASKS}/{each['task_id']}", 200)
            return found if found["status"] == "COMPLETED" else None

        await eventually(completed)
    assert (await output(api, run, "each"))["result"] == [1, 2]
    again = await read(api, run)
    assert (again["status"], again["nodes"][1]["elements_ended"]) == ("SUCCEEDED", 2)


async def test_results_that_are_too_large_together_are_not_kept(
    api: Api, database_dsn: str
) -> None:
    big = "x" * 60_000
    nodes = {"each": mapped([*range(20)], payload={"returns": big}), "next": node("x", "each")}
    run = await start(api, nodes)
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")
    found = await output(api, run, "each")
    assert (found["too_large"], found["result"]) == (True, None)
    assert len(json.dumps((await output(api, run, "each[19]"))["result"])) == 60_002
