"""Templates and conditions of nodes, with nodes that run their tasks."""

import json
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, node, once, read, start, statuses
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.limits.limiter import Limiter
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.model.workflow_errors import SpawnRefused
from gnomon.store.guards import Guards
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows.node_limits import TenantLimits
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.rules import TenantRules
from gnomon.usecases.workflows.spawns import WorkflowSpawns

ALWAYS = {"left": 1, "op": "==", "right": 1}


async def test_results_and_input_reach_those_below(api: Api, database_dsn: str) -> None:
    returns = {"files": [{"path": "/a"}], "total": 3}
    nodes = {
        "list": node(payload={"returns": returns, "for": "{{run.input.who}}"}),
        "load": node(
            "x", "list",
            payload={
                "returns": "{{nodes.list.result.files.0}}",
                "text": "{{nodes.list.result.total}} of {{run.input.who}}, {{{{",
            },
        ),
        "last": node("x", "load", payload={"path": "{{nodes.load.result.path}}"}),
    }  # fmt: skip
    body = {"definition": {"nodes": nodes}, "input": {"who": "Ada"}}
    run = await call(api, "POST", RUNS, 202, body)
    assert run["input"] == {"who": "Ada"}
    async with running_node(database_dsn):
        done = await once(api, run, "SUCCEEDED")
    ids = {each["node"]: each["task_id"] for each in done["nodes"]}
    payloads = {
        name: (await call(api, "GET", f"{TASKS}/{task_id}", 200))["payload"]
        for name, task_id in ids.items()
    }
    assert payloads["list"]["for"] == "Ada"
    assert payloads["load"]["returns"] == {"path": "/a"}
    assert payloads["load"]["text"] == "3 of Ada, {{"
    assert payloads["last"]["path"] == "/a"


async def test_a_condition_skips_a_node_and_what_is_below_it(api: Api, database_dsn: str) -> None:
    more = {"left": "{{nodes.a.result}}", "op": ">", "right": 2}
    less = {"all": [more, {"left": "x", "op": "in", "right": ["y"]}]}
    nodes = {
        "a": node(payload={"returns": 3}),
        "yes": node("x", "a", **{"if": more}),
        "no": node("x", "a", **{"if": less}),
        "below": node("x", "no"),
        "end": node("x", "yes", "below", when="any_succeeded"),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):
        done = await once(api, run, "SUCCEEDED")
    assert statuses(done) == {
        "a": "COMPLETED", "yes": "COMPLETED", "no": "SKIPPED", "below": "SKIPPED",
        "end": "COMPLETED",
    }  # fmt: skip


async def test_a_template_that_does_not_fit_makes_a_dead_letter_that_can_be_retried(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    nodes = {
        "a": node(payload={"returns": {"n": 1}}),
        "b": node("x", "a", payload={"got": "{{nodes.a.result.m}}"}),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):
        found = await once(api, run, "FAILED")
        (_, b) = found["nodes"]
        assert "nodes.a.result has no 'm'" in b["error"]
        assert b["attempt"] == 0
        await connection.execute("UPDATE gnomon.workflow_result SET output = '{\"m\": 2}'")
        await call(api, "POST", f"{TASKS}/{b['task_id']}/retry", 202)
        await once(api, run, "SUCCEEDED")
    task = await call(api, "GET", f"{TASKS}/{b['task_id']}", 200)
    assert task["payload"]["got"] == 2


async def test_a_dead_letter_that_is_retried_after_its_run_has_ended_runs(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    """Its template did not fit, it has counted, and the run has gone on to its end without it."""
    nodes = {
        "a": node(payload={"returns": {"n": 1}}),
        "b": node("x", "a", payload={"got": "{{nodes.a.result.m}}"}, on_failure="continue"),
    }
    run = await start(api, nodes)
    async with running_node(database_dsn):
        (_, b) = (await once(api, run, "SUCCEEDED"))["nodes"]
        assert b["status"] == "DEAD_LETTERED"
        # What a retry needs outlives retention.
        await connection.execute(query("remove_runs"), datetime(2100, 1, 1, tzinfo=UTC), 1000)
        await connection.execute("UPDATE gnomon.workflow_result SET output = '{\"m\": 2}'")
        await call(api, "POST", f"{TASKS}/{b['task_id']}/retry", 202)

        async def completed() -> Any:
            found = await call(api, "GET", f"{TASKS}/{b['task_id']}", 200)
            return found if found["status"] == "COMPLETED" else None

        assert (await eventually(completed))["payload"]["got"] == 2


async def test_payloads_that_a_run_makes_are_as_the_schemas_of_their_types_want_them(
    api: Api, database: Database, database_dsn: str, clock: SystemClock
) -> None:
    schema = {"properties": {"got": {"type": "integer"}}}
    body = {"schema": schema, "defaults": {"priority": "HIGH"}}
    await call(api, "PUT", "/api/v1/task-types/echo", 201, body)
    first = node(payload={"returns": "text"})
    nodes = {"a": first, "b": node("x", "a", payload={"got": "{{nodes.a.result}}"})}
    run = await start(api, nodes)
    each = {"map": [1, "two"], "payload": {"who": "x", "got": "{{item}}"}}
    listed = await start(api, {"each": node() | each})
    good = await start(api, {"each": node() | each | {"map": [1, 2]}})
    async with running_node(database_dsn):
        b = (await once(api, run, "FAILED"))["nodes"][1]
        assert "its turn came, and /payload/got" in b["error"]
        (held,) = (await once(api, listed, "FAILED"))["nodes"]
        assert "its turn came, and /map/1/payload/got" in held["error"]
        await once(api, good, "SUCCEEDED")
    directory = TenantCache(PostgresTenantReader(database), clock, {})
    await directory.load()
    spawns = WorkflowSpawns(TenantRules(clock, directory, Guards(directory, ()), 1 << 20))
    (task,) = await spawns.accept(DEFAULT_TENANT, '[{"task_type": "echo"}]', None)
    assert task.priority is Lane.HIGH
    wrong = '[{"task_type": "echo"}, {"task_type": "echo", "payload": {"got": "x"}}]'
    with pytest.raises(SpawnRefused, match="/1/payload/got: "):
        await spawns.accept(DEFAULT_TENANT, wrong, None)


async def test_keyed_limits_go_by_the_payload_that_a_template_makes(
    api: Api, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    limiter = Limiter(
        tenant_id="default", name="by-user", task_type="echo", concurrency=1, key="/user/id"
    )
    limits = TenantLimits(limiters_of=lambda _: [limiter])
    nodes = {
        "a": node(payload={"user": {"id": "{{run.id}}"}}),
        "b": node("x", payload={"user": {"id": "{{run.input.user}}"}}) | {"if": ALWAYS},
    }
    body = {"definition": {"nodes": nodes}, "input": {"user": "u-7"}}
    await call(api, "POST", RUNS, 202, body)
    await PostgresWorkflowSteps(database, limits).take()
    found = "SELECT state, limit_keys FROM gnomon.task WHERE workflow_node = 'b'"
    (row,) = await connection.fetch(found)
    assert (row["state"], json.loads(row["limit_keys"])) == (0, {"by-user": "u-7"})


async def test_what_fails_for_one_node_keeps_no_other_back(
    api: Api, database_dsn: str, connection: "asyncpg.Connection[Any]"
) -> None:
    await connection.execute(
        """CREATE FUNCTION gnomon.test_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = 'check_violation'; END $$;
        CREATE TRIGGER test_refuse BEFORE UPDATE ON gnomon.task FOR EACH ROW
        WHEN (OLD.workflow_node LIKE 'bad%') EXECUTE FUNCTION gnomon.test_refuse()"""
    )
    first = node(payload={"returns": 1})
    filled = {"payload": {"got": "{{nodes.a.result}}"}}
    nodes = {"a": first} | {
        f"{kind}{number}": node("x", "a", **filled) for kind in ("bad", "good") for number in (1, 2)
    }
    nodes["bad_wait"] = {"wait_for": {"seconds": 0.001}, "after": ["a"], "on_failure": "skip"}
    run = await start(api, nodes)
    async with running_node(database_dsn):

        async def some() -> Any:
            found = statuses(await read(api, run))
            return found if {found["good1"], found["good2"]} == {"COMPLETED"} else None

        assert (await eventually(some))["bad1"] == "BLOCKED"
        bad = next(each for each in (await read(api, run))["nodes"] if each["node"] == "bad1")

        async def told() -> Any:
            why = await call(api, "GET", f"{TASKS}/{bad['task_id']}/explain", 200)
            return "'workflow-steps' fails" in json.dumps(why)

        await eventually(told)
        await connection.execute("DROP TRIGGER test_refuse ON gnomon.task")
        await once(api, run, "SUCCEEDED")


async def test_templates_that_make_no_sense_are_refused(api: Api) -> None:
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"a": node(payload={"x": "{{nodes.b.result}}"})}, "/payload", "no node 'b'"),
        ({"a": node(), "b": node(payload={"x": "{{nodes.a.result}}"})}, "/after", "wait for it"),
        ({"a": node(payload={"x": ["{{nope}}"]})}, "/payload/x/0", "not a placeholder"),
        ({"a": node(payload={"x": "{{run.input.z}}"})}, "/payload", "is null"),
        ({"a": node() | {"if": {"left": 1}}}, "/if", "must be"),
        ({"a": node() | {"if": {"left": 1, "op": "~", "right": 2}}}, "/if/op", "one of"),
    ]
    for nodes, pointer, text in cases:
        problem = await start(api, nodes, 422)
        (error,) = problem["errors"]
        name = list(nodes)[-1]
        assert error["pointer"] == f"/definition/nodes/{name}{pointer}"
        assert text in error["detail"]
    hook = {"callback_url": "https://{{run.input.host}}/x", "task_type": "hook"}
    problem = await start(api, {"a": node() | hook}, 422)
    assert problem["status"] == 422
