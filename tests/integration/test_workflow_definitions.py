"""Workflows that are kept under a name, over the API."""

from typing import Any

from tests.conftest import serving
from tests.integration.api_calls import Api, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.nodes import running_node
from tests.integration.workflow_calls import RUNS, node, once

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

WORKFLOWS = "/api/v1/workflows"


def defined(**nodes: Any) -> dict[str, Any]:
    return {"name": "etl", "nodes": nodes or {"a": node()}}


async def test_a_definition_has_versions(api: Api) -> None:
    first = await call(api, "POST", WORKFLOWS, 201, defined())
    assert (first["name"], first["version"]) == ("etl", 1)
    again = await call(api, "POST", WORKFLOWS, 200, dict(reversed(defined().items())))
    assert (again["version"], again["created_at"]) == (1, first["created_at"])
    second = await call(api, "POST", WORKFLOWS, 201, defined(a=node(), b=node("x", "a")))
    assert second["version"] == 2
    assert await call(api, "GET", f"{WORKFLOWS}/etl", 200) == second
    assert await call(api, "GET", f"{WORKFLOWS}/etl?version=1", 200) == first
    listed = (await call(api, "GET", WORKFLOWS, 200))["workflows"]
    assert [(each["name"], each["version"]) for each in listed] == [("etl", 2)]
    await call(api, "GET", f"{WORKFLOWS}/etl?version=3", 404)
    await call(api, "DELETE", f"{WORKFLOWS}/etl", 204)
    await call(api, "GET", f"{WORKFLOWS}/etl", 404)
    await call(api, "DELETE", f"{WORKFLOWS}/etl", 404)


async def test_a_run_has_its_version_and_its_outputs(api: Api, database_dsn: str) -> None:
    nodes = {"a": node(payload={"returns": "{{run.input.n}}"}), "b": node("x", "a")}
    await call(api, "POST", WORKFLOWS, 201, defined(**nodes))
    run = await call(api, "POST", f"{WORKFLOWS}/etl/runs", 202, {"input": {"n": [1, 2]}})
    assert (run["workflow"], run["version"]) == ("etl", 1)
    await call(api, "GET", f"{RUNS}/{run['run_id']}/outputs/a", 404)
    async with running_node(database_dsn):
        await once(api, run, "SUCCEEDED")
    found = await call(api, "GET", f"{RUNS}/{run['run_id']}/outputs/a", 200)
    assert (found["became"], found["result"], found["too_large"]) == ("succeeded", [1, 2], False)
    listed = await call(api, "GET", RUNS, 200, params={"workflow": "etl"})
    assert [each["run_id"] for each in listed["runs"]] == [run["run_id"]]
    problem = await call(api, "POST", f"{WORKFLOWS}/etl/runs", 422, {})
    assert problem["errors"][0]["pointer"] == "/definition/nodes/a/payload"
    await call(api, "POST", f"{WORKFLOWS}/nope/runs", 404, {})
    await call(api, "POST", f"{WORKFLOWS}/etl/runs", 404, {"version": 7})


async def test_the_same_key_starts_one_run(api: Api) -> None:
    await call(api, "POST", WORKFLOWS, 201, defined())
    headers, path = {"Idempotency-Key": "k1"}, f"{WORKFLOWS}/etl/runs"
    first, again = [
        await call(api, "POST", path, 202, {"input": 1}, headers=headers) for _ in range(2)
    ]
    assert first == again
    assert len((await call(api, "GET", RUNS, 200))["runs"]) == 1


async def test_secrets_of_webhooks_are_not_shown(api: Api) -> None:
    target = {
        "type": "http", "url": "https://x.test/?token=abc",
        "headers": {"Authorization": "Bearer secret"},
    }  # fmt: skip
    body = defined(a={"task_type": "hook", "target": target})
    assert "secret" not in str(await call(api, "POST", WORKFLOWS, 201, body))
    assert "abc" not in str(await call(api, "GET", f"{WORKFLOWS}/etl", 200))


async def test_tenants_see_only_their_own(database_dsn: str, database: Database) -> None:
    headers = []
    for tenant in ("one", "two"):
        await make_tenant(database, tenant)
        headers.append(bearer((await make_key(database, tenant))[1]))
    one, two = headers
    async with serving(database_dsn, auth_enabled=True) as api:
        body = defined(a={"task_type": "echo"})
        await call(api, "POST", WORKFLOWS, 201, body, headers=one)
        run = await call(api, "POST", f"{WORKFLOWS}/etl/runs", 202, {}, headers=one)
        path = f"{RUNS}/{run['run_id']}"
        await call(api, "GET", path, 200, headers=one)
        assert (await call(api, "GET", WORKFLOWS, 200, headers=two)) == {"workflows": []}
        assert (await call(api, "GET", RUNS, 200, headers=two))["runs"] == []
        for method, where in (
            ("GET", f"{WORKFLOWS}/etl"), ("DELETE", f"{WORKFLOWS}/etl"), ("GET", path),
            ("GET", f"{path}/outputs/a"),
        ):  # fmt: skip
            await call(api, method, where, 404, headers=two)
        for action in ("cancel", "pause", "resume"):
            await call(api, "POST", f"{path}/{action}", 404, {}, headers=two)
        await call(api, "POST", f"{WORKFLOWS}/etl/runs", 404, {}, headers=two)
        _, secret = await make_key(database, "one", name="submits", roles=[Role.SUBMIT])
        key = bearer(secret)
        ad_hoc = {"definition": {"nodes": {"a": {"task_type": "echo"}}}}
        receipt = await call(api, "POST", RUNS, 202, ad_hoc, headers=key)
        assert set(receipt) == {"run_id", "status"}
