"""Allow-lists over HTTP: every way to name, change or start a target is held to them."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import TASKS, call, put
from tests.integration.identity import bearer, make_key
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.model.fleet.tenant import Tenant
from gnomon.model.targets.allow_list import AllowList
from gnomon.store.ports.tenancy.tenants import TenantChange
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenants import PostgresTenants

KEYS, DEAD, CRON = "/api/v1/keys", "/api/v1/dead-letters", "/api/v1/cron-jobs"
OWN = {"task_type": "t", "callback_url": "https://api.acme.example/", "delay_seconds": 3600}
OTHER = {**OWN, "callback_url": "https://evil.example/"}
FULL = {**OWN, "target": {"type": "http", "url": "https://evil.example/"}}
FULL.pop("callback_url")
MINE = {**FULL, "target": {"type": "python", "function": "billing.charge"}}
FUNCTION = {**FULL, "target": {"type": "python", "function": "admin.drop"}}
BY_TYPE = {"task_type": "admin.drop", "delay_seconds": 3600}
HOUR = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
ALLOW = AllowList(("billing.*",), ("*.acme.example",))

Api = aiohttp.ClientSession


@pytest.fixture
async def secured(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, auth_enabled=True) as client:
        yield client


def job(name: str, task: dict[str, Any] = OWN) -> dict[str, Any]:
    rest = {field: value for field, value in task.items() if field != "delay_seconds"}
    return {"name": name, "interval_seconds": 3600, **rest}


async def limit_tenant(api: Api, database: Database, headers: dict[str, str]) -> None:
    """Hold the tenant `default` to ALLOW, and wait until the API knows."""
    await PostgresTenants(database).change("default", TenantChange(allow=ALLOW))

    async def known() -> bool:
        tenant = await call(api, "GET", "/api/v1/tenant", 200, headers=headers)
        return bool(tenant["hosts"] == ["*.acme.example"])

    await eventually(known)


@pytest.mark.parametrize("whose", ["key", "tenant"])
async def test_every_way_to_name_a_target_is_held_to_the_list(
    secured: Api, database: Database, whose: str
) -> None:
    allow = ALLOW if whose == "key" else AllowList()
    _, key = await make_key(database, allow=allow)
    headers = bearer(key)
    if whose == "tenant":
        await limit_tenant(secured, database, headers)
    task = await call(secured, "POST", TASKS, 202, OWN, headers=headers)
    await call(secured, "POST", TASKS, 202, MINE, headers=headers)
    await call(secured, "POST", TASKS, 202, BY_TYPE | {"task_type": "billing.x"}, headers=headers)
    await call(secured, "POST", CRON, 201, job("j"), headers=headers)
    path, target = f"{TASKS}/{task['task_id']}", FULL["target"]
    for method, where, body, pointer in (
        ("POST", TASKS, OTHER, "/callback_url"),
        ("POST", TASKS, FULL, "/target/url"),
        ("POST", TASKS, FUNCTION, "/target/function"),
        ("POST", f"{TASKS}/batch", {"tasks": [OWN, OTHER]}, "/tasks/1/callback_url"),
        ("POST", f"{TASKS}/batch", {"tasks": [FUNCTION]}, "/tasks/0/target/function"),
        ("POST", TASKS, BY_TYPE, "/task_type"),
        ("POST", f"{TASKS}/batch", {"tasks": [OWN, BY_TYPE]}, "/tasks/1/task_type"),
        ("POST", CRON, job("k", BY_TYPE), "/task_type"),
        ("PUT", f"{CRON}/k", job("k", BY_TYPE), "/task_type"),
        ("PATCH", path, {"callback_url": OTHER["callback_url"]}, "/callback_url"),
        ("PATCH", path, {"target": target}, "/target/url"),
        ("PATCH", path, {"target": FUNCTION["target"]}, "/target/function"),
        ("POST", CRON, job("k", OTHER), "/callback_url"),
        ("POST", CRON, job("k", FUNCTION), "/target/function"),
        ("PUT", f"{CRON}/k", job("k", OTHER), "/callback_url"),
        ("PUT", f"{CRON}/j", job("j", FULL), "/target/url"),
        ("PUT", f"{CRON}/j?dry_run=true", job("j", FULL), "/target/url"),
        ("PATCH", f"{CRON}/j", {"target": target}, "/target/url"),
        ("PATCH", f"{CRON}/j", {"callback_url": OTHER["callback_url"]}, "/callback_url"),
    ):
        problem = await call(secured, method, where, 403, body, headers=headers)
        assert problem["errors"][0]["pointer"] == pointer, (method, where, body)
        is_function = "function" in pointer or "task_type" in pointer
        assert ("billing.*" if is_function else "*.acme.example") in problem["detail"]
        assert ("your key" if whose == "key" else "the tenant") in problem["detail"]
    stored = await call(secured, "GET", TASKS, 200, headers=headers)
    assert len(stored["tasks"]) == 3
    await call(secured, "PATCH", path, 200, {"payload": 1}, headers=headers)
    await call(secured, "PATCH", f"{CRON}/j", 200, {"tags": ["x"]}, headers=headers)


async def test_a_key_neither_changes_nor_starts_what_it_may_not_call(
    secured: Api, database: Database, connection: Any
) -> None:
    _, all_targets = await make_key(database, name="all")
    _, some = await make_key(database, name="some", allow=ALLOW)
    full, headers = bearer(all_targets), bearer(some)
    task = await call(secured, "POST", TASKS, 202, OTHER, headers=full)
    await call(secured, "POST", CRON, 201, job("theirs", FUNCTION), headers=full)
    path, theirs = f"{TASKS}/{task['task_id']}", f"{CRON}/theirs"
    for method, where, body in (
        ("PATCH", path, {"payload": "forged"}),
        ("PATCH", path, {"callback_url": OWN["callback_url"]}),
        ("POST", f"{path}/cancel", None),
        ("POST", f"{path}/pause", None),
        ("POST", f"{path}/resume", None),
        ("POST", f"{path}/retry", None),
        ("DELETE", path, None),
        ("PATCH", theirs, {"payload_template": "forged"}),
        ("PATCH", theirs, {"callback_url": OWN["callback_url"]}),
        ("PUT", theirs, job("theirs")),
        ("PUT", f"{theirs}?dry_run=true", job("theirs")),
        ("POST", f"{theirs}/trigger", None),
        ("POST", f"{theirs}/pause", None),
        ("POST", f"{theirs}/resume", None),
        ("POST", f"{theirs}/backfill", HOUR),
        ("POST", f"{theirs}/backfill", HOUR | {"dry_run": True}),
        ("DELETE", theirs, None),
        *(("POST", f"{DEAD}/{task['task_id']}/{verb}", None)
          for verb in ("retry", "archive", "discard")),
    ):  # fmt: skip
        await call(secured, method, where, 403, body, headers=headers)
    await put(connection, task["task_id"], "state = 4")
    await call(secured, "POST", f"{DEAD}/{task['task_id']}/retry", 403, headers=headers)
    await call(secured, "POST", f"{path}/retry", 403, headers=headers)
    await call(secured, "GET", path, 200, headers=headers)  # reading is not calling


async def test_what_the_tenant_may_not_call_any_more_can_be_ended_but_not_started(
    secured: Api, database: Database, connection: Any
) -> None:
    _, key = await make_key(database)
    headers = bearer(key)
    tasks = [await call(secured, "POST", TASKS, 202, OTHER, headers=headers) for _ in range(4)]
    waiting, finished, dead, failed = (f"{TASKS}/{task['task_id']}" for task in tasks)
    await call(secured, "POST", CRON, 201, job("old", OTHER), headers=headers)
    await call(secured, "POST", f"{finished}/cancel", 200, headers=headers)
    await put(connection, tasks[2]["task_id"], "state = 4")
    await put(connection, tasks[3]["task_id"], "attempt = 1")
    await limit_tenant(secured, database, headers)
    for path in (f"{finished}/retry", f"{dead}/retry", f"{failed}/retry",
                 f"{DEAD}/{tasks[2]['task_id']}/retry", f"{CRON}/old/trigger"):  # fmt: skip
        problem = await call(secured, "POST", path, 403, headers=headers)
        assert "the tenant is only for the hosts: *.acme.example" in problem["detail"], path
    await call(secured, "POST", f"{CRON}/old/backfill", 403, HOUR, headers=headers)
    await call(secured, "PATCH", f"{CRON}/old", 200, {"paused": True}, headers=headers)
    await call(secured, "POST", f"{CRON}/old/pause", 200, headers=headers)
    await call(secured, "PATCH", waiting, 200, {"priority": "LOW"}, headers=headers)
    await call(secured, "POST", f"{waiting}/cancel", 200, headers=headers)
    await call(secured, "PATCH", f"{CRON}/old", 200, {"callback_url": OWN["callback_url"]},
               headers=headers)  # fmt: skip
    await call(secured, "POST", f"{CRON}/old/trigger", 202, headers=headers)
    await call(secured, "DELETE", f"{CRON}/old", 204, headers=headers)


async def test_an_answer_is_given_again_only_to_those_who_may_have_asked(
    secured: Api, database: Database
) -> None:
    _, all_targets = await make_key(database, name="all")
    _, some = await make_key(database, name="some", allow=ALLOW)
    body = OTHER | {"idempotency_key": "k"}
    batch = {"tasks": [body]}
    first = await call(secured, "POST", TASKS, 202, body, headers=bearer(all_targets))
    await call(secured, "POST", TASKS, 403, body, headers=bearer(some))
    await call(secured, "POST", f"{TASKS}/batch", 403, batch, headers=bearer(some))
    # A rule of the tenant that came later does not take back what was promised.
    await limit_tenant(secured, database, bearer(all_targets))
    again = await call(secured, "POST", TASKS, 202, body, headers=bearer(all_targets))
    assert again == first
    await call(secured, "POST", TASKS, 403, body, headers=bearer(some))
    again = await call(secured, "POST", f"{TASKS}/batch", 202, batch, headers=bearer(all_targets))
    assert again["tasks"][0]["task_id"] == first["task_id"]
    await call(secured, "POST", f"{TASKS}/batch", 403, batch, headers=bearer(some))


async def test_a_key_is_made_and_shown_with_its_lists(secured: Api, database: Database) -> None:
    _, admin = await make_key(database, name="boss", roles=[Role.ADMIN])
    asked = {"name": "n", "roles": ["submit"], "functions": [],
             "hosts": ["API.Example.com.", "*.bücher.example:443", "api.example.com"]}  # fmt: skip
    made = await call(secured, "POST", KEYS, 201, asked, headers=bearer(admin))
    assert made["functions"] == []
    assert made["hosts"] == ["api.example.com", "*.xn--bcher-kva.example:443"]
    listed = await call(secured, "GET", KEYS, 200, headers=bearer(admin))
    assert listed["keys"][0]["hosts"] == made["hosts"]
    headers = bearer(made["key"])
    problem = await call(secured, "POST", TASKS, 403, FUNCTION, headers=headers)
    assert "your key is only for the functions: none" in problem["detail"]
    await call(secured, "POST", TASKS, 202, OWN | {"callback_url": "http://api\u3002example.com/"},
               headers=headers)  # fmt: skip
    renewed = await call(secured, "POST", f"{KEYS}/{made['key_id']}/rotate", 201,
                         headers=bearer(admin))  # fmt: skip
    assert (renewed["functions"], renewed["hosts"]) == ([], made["hosts"])
    for wrong, pointer in (
        ({"hosts": ["http://x"]}, "/hosts/0"),
        ({"hosts": ["a.example", "*"]}, "/hosts/1"),
        ({"functions": ["a*b"]}, "/functions/0"),
        ({"functions": ["x"] * 101}, "/functions"),
        ({"hosts": ["x" * 261]}, "/hosts/0"),
    ):
        problem = await call(secured, "POST", KEYS, 422, asked | wrong, headers=bearer(admin))
        assert problem["errors"][0]["pointer"] == pointer


async def test_a_tenant_that_was_made_a_moment_ago_is_held_to_its_lists(
    database_dsn: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.wiring.api.LOOK_SECONDS", 3600.0)
    async with serving(database_dsn, auth_enabled=True) as api:
        tenant = Tenant(id="acme", plan="standard", allow=ALLOW)
        await PostgresTenants(database).create(tenant)
        _, key = await make_key(database, "acme")
        await call(api, "POST", TASKS, 403, json=OTHER, headers=bearer(key))
        await call(api, "POST", TASKS, 202, json=OWN, headers=bearer(key))
