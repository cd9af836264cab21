"""Operators: they manage the installation, and have no access to anything of a tenant."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import asyncpg
import pytest
from structlog.testing import capture_logs
from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, call
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.model.errors import StatementRefused
from gnomon.store.postgres.database import Database

API = "/api/v1"
TENANTS = f"{API}/tenants"
KEYS = f"{API}/operator-keys"
PLANS = {"pro": {"cron_jobs": 7, "payload_bytes": 10}}

Api = aiohttp.ClientSession
Headers = dict[str, str]


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[Api]:
    """A client of an API with authentication."""
    async with serving(database_dsn, auth_enabled=True, sharing_plans=PLANS) as client:
        yield client


@pytest.fixture
async def operator(database: Database) -> Headers:
    return bearer((await make_operator(database))[1])


async def test_a_tenant_from_its_creation_to_its_end(api: Api, operator: Headers) -> None:
    body = {"tenant_id": "acme", "quotas": {"scheduled_tasks": 500}, "hosts": ["API.Example.com"]}
    made = await call(api, "POST", TENANTS, 201, body, headers=operator)
    assert (made["plan"], made["weight"], made["hosts"]) == ("standard", 1.0, ["api.example.com"])
    assert (made["quotas"]["scheduled_tasks"], made["quotas"]["cron_jobs"]) == (500, 1000)
    assert made["own_quotas"] == {"scheduled_tasks": 500}
    problem = await call(api, "POST", TENANTS, 409, body, headers=operator)
    assert "acme" in problem["detail"]

    path = f"{TENANTS}/acme"
    changes = {
        "plan": "pro", "weight": 2.5, "hosts": None, "targets_allow": ["10.1.0.0/16"],
        "quotas": {"cron_jobs": None, "scheduled_tasks": "plan", "cron_interval_seconds": 1.5},
    }  # fmt: skip
    changed = await call(api, "PATCH", path, 200, changes, headers=operator)
    assert (changed["plan"], changed["weight"], changed["hosts"]) == ("pro", 2.5, None)
    assert changed["targets_allow"] == ["10.1.0.0/16"]
    assert changed["own_quotas"] == {"cron_jobs": None, "cron_interval_seconds": 1.5}
    assert changed["quotas"]["payload_bytes"] == 10
    assert await call(api, "PATCH", path, 200, {}, headers=operator) == changed
    read = await call(api, "GET", path, 200, headers=operator)
    assert read.pop("use").keys() == {
        "cron_jobs", "scheduled_tasks", "stored_bytes", "submissions_per_second"
    }  # fmt: skip
    assert read == changed

    await call(api, "DELETE", path, 204, headers=operator)
    for method, sent in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        for name in ("acme", "No%20Body", "%00"):
            await call(api, method, f"{TENANTS}/{name}", 404, sent, headers=operator)


async def test_the_log_tells_who_has_changed_a_tenant(api: Api, database: Database) -> None:
    key_id, key = await make_operator(database, "carol")
    with capture_logs() as entries:
        await call(api, "POST", TENANTS, 201, {"tenant_id": "acme"}, headers=bearer(key))
        await call(api, "PATCH", f"{TENANTS}/acme", 200, {"weight": 2}, headers=bearer(key))
        await call(api, "DELETE", f"{TENANTS}/acme", 204, headers=bearer(key))
    told = [entry for entry in entries if entry.get("tenant") == "acme"]
    assert [entry["event"] for entry in told] == [
        "tenant created", "tenant changed", "tenant removed",
    ]  # fmt: skip
    assert {(entry["by"], entry["key_id"]) for entry in told} == {("carol", str(key_id))}


async def test_tenants_are_listed_in_pages(api: Api, operator: Headers, database: Database) -> None:
    for name in ("b", "a", "c-2", "c_1"):
        await make_tenant(database, name)
    first = await call(api, "GET", f"{TENANTS}?limit=3", 200, headers=operator)
    after = f"{TENANTS}?limit=3&cursor={first['next_cursor']}"
    rest = await call(api, "GET", after, 200, headers=operator)
    names = [tenant["tenant_id"] for tenant in first["tenants"] + rest["tenants"]]
    assert names == ["a", "b", "c-2", "c_1", "default"]
    assert rest["next_cursor"] is None
    await call(api, "GET", f"{TENANTS}?cursor=No", 422, headers=operator)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"tenant_id": "Acme"}, "/tenant_id"),
        ({"tenant_id": "x" * 64}, "/tenant_id"),
        ({"plan": "gold"}, "/plan"),
        ({"weight": 0}, "/weight"),
        ({"quotas": {"tasks": 1}}, "/quotas/tasks"),
        ({"quotas": {"cron_jobs": -1}}, "/quotas/cron_jobs"),
        ({"quotas": {"cron_jobs": 1.5}}, "/quotas/cron_jobs"),
        ({"targets_allow": ["everywhere"]}, "/targets_allow/0"),
        ({"functions": ["*"]}, "/functions/0"),
        ({"suspended": True}, "/suspended"),
    ],
)
async def test_a_tenant_that_makes_no_sense_is_refused(
    api: Api, operator: Headers, wrong: dict[str, Any], pointer: str
) -> None:
    body = {"tenant_id": "acme"} | wrong
    problem = await call(api, "POST", TENANTS, 422, body, headers=operator)
    assert problem["errors"][0]["pointer"] == pointer
    if "tenant_id" not in wrong:
        problem = await call(api, "PATCH", f"{TENANTS}/default", 422, wrong, headers=operator)
        assert problem["errors"][0]["pointer"] == pointer


async def test_a_tenant_with_work_stays_and_so_does_the_default_one(
    api: Api, operator: Headers, database: Database
) -> None:
    await make_tenant(database, "busy")
    _, key = await make_key(database, "busy")
    task = await call(api, "POST", TASKS, 202, {**LATER, "callback_url": "http://93.184.216.34/"},
                      headers=bearer(key))  # fmt: skip
    problem = await call(api, "DELETE", f"{TENANTS}/busy", 409, headers=operator)
    assert "tasks" in problem["detail"]
    await call(api, "DELETE", f"{TASKS}/{task['task_id']}", 204, headers=bearer(key))
    await call(api, "DELETE", f"{TENANTS}/busy", 204, headers=operator)
    problem = await call(api, "DELETE", f"{TENANTS}/default", 409, headers=operator)
    assert "default" in problem["detail"]


async def test_plans_and_nodes(api: Api, operator: Headers, connection: Any) -> None:
    plans = (await call(api, "GET", f"{API}/plans", 200, headers=operator))["plans"]
    assert [plan["name"] for plan in plans] == ["pro", "standard", "unlimited"]
    assert plans[0]["quotas"]["cron_jobs"] == 7
    assert (await call(api, "GET", f"{API}/nodes", 200, headers=operator))["nodes"] == []
    await connection.execute(
        """
        INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
        VALUES (gen_random_uuid(), 'n', '1.2', 5, gnomon.now(), gnomon.now() + interval '1 hour')
        """
    )
    found = await call(api, "GET", f"{API}/nodes", 200, headers=operator)
    (node,) = found["nodes"]
    assert (node["name"], node["version"], node["state"]) == ("n", "1.2", "alive")
    assert (node["slots"], node["shards"], node["serves"]) == (5, 256, {})
    assert found["due"] == {"tasks": 0, "at_least": False, "lag_seconds": None}


async def test_an_operator_is_told_plainly_that_a_tenants_things_are_not_theirs(
    api: Api, operator: Headers, database: Database
) -> None:
    _, key = await make_key(database)
    task = await call(api, "POST", TASKS, 202, {**LATER, "callback_url": "http://93.184.216.34/"},
                      headers=bearer(key))  # fmt: skip
    for method, path, body in (
        ("GET", TASKS, None),
        ("GET", f"{TASKS}/{task['task_id']}", None),
        ("POST", TASKS, BODY),
        ("POST", f"{TASKS}/{task['task_id']}/cancel", None),
        ("GET", f"{API}/tenant", None),
        ("GET", f"{API}/keys", None),
        ("GET", f"{API}/webhook-secrets", None),
        ("GET", f"{API}/usage", None),
    ):
        problem = await call(api, method, path, 403, body, headers=operator)
        assert "operator" in problem["detail"]
        assert "of a tenant, with the role '" in problem["detail"]


async def test_a_tenant_sees_nothing_of_the_installation(
    api: Api, operator: Headers, database: Database
) -> None:
    key_id, _ = await make_operator(database, "other")
    _, key = await make_key(database, roles=[Role.ADMIN])
    admin = bearer(key)
    for method, path, body in (
        ("GET", TENANTS, None),
        ("POST", TENANTS, {"tenant_id": "acme"}),
        ("GET", f"{TENANTS}/default", None),
        ("PATCH", f"{TENANTS}/default", {"plan": "unlimited"}),
        ("DELETE", f"{TENANTS}/default", None),
        ("GET", f"{API}/plans", None),
        ("GET", f"{API}/nodes", None),
        ("GET", KEYS, None),
        ("POST", KEYS, {"name": "mine"}),
        ("POST", f"{KEYS}/{key_id}/rotate", None),
        ("DELETE", f"{KEYS}/{key_id}", None),
    ):
        problem = await call(api, method, path, 403, body, headers=admin)
        assert "--operator" in problem["detail"], path
    # Nor by the way of their own keys.
    assert "other" not in str(await call(api, "GET", f"{API}/keys", 200, headers=admin))
    await call(api, "POST", f"{API}/keys/{key_id}/rotate", 404, headers=admin)
    await call(api, "DELETE", f"{API}/keys/{key_id}", 404, headers=admin)
    asked = {"name": "x", "roles": ["read", "operator"]}
    problem = await call(api, "POST", f"{API}/keys", 422, asked, headers=admin)
    assert problem["errors"][0]["pointer"] == "/roles/1"
    await call(api, "GET", TENANTS, 200, headers=operator)


async def test_operators_manage_their_own_keys(
    api: Api, operator: Headers, database: Database
) -> None:
    made = await call(api, "POST", KEYS, 201, {"name": "second"}, headers=operator)
    second = bearer(made.pop("key"))
    assert (made["tenant_id"], made["roles"], made["created_by"]) == (None, ["operator"], "ops")
    third = await call(api, "POST", KEYS, 201, {"name": "third"}, headers=second)
    listed = (await call(api, "GET", KEYS, 200, headers=operator))["keys"]
    assert [key["name"] for key in listed] == ["third", "second", "ops"]
    assert third["made_by"] == made["key_id"]
    for key in listed:
        assert key["tenant_id"] is None

    rotate = f"{KEYS}/{third['key_id']}/rotate"
    new = await call(api, "POST", rotate, 201, {"overlap_seconds": 0}, headers=operator)
    await call(api, "GET", TENANTS, 200, headers=bearer(new["key"]))
    path = f"{KEYS}/{made['key_id']}?cascade=true"
    await call(api, "DELETE", path, 204, headers=operator)

    async def refused(key: str) -> bool:
        async with api.get(TENANTS, headers=bearer(key)) as answer:
            return answer.status == 401

    # It was made with the first, so it outlives the cascade of the second.
    assert await eventually(lambda: refused(third["key"]))
    await call(api, "GET", TENANTS, 200, headers=bearer(new["key"]))
    wrong: list[dict[str, Any]] = [{"name": " x"}, {"name": "x", "roles": ["admin"]}, {}]
    for body in wrong:
        await call(api, "POST", KEYS, 422, body, headers=operator)

    async def noted() -> Any:
        page = await call(api, "GET", KEYS, 200, headers=operator)
        return next(key["last_used_at"] for key in page["keys"] if key["name"] == "ops")

    assert await eventually(noted)


async def test_the_local_requester_is_both_where_authentication_is_off(database_dsn: str) -> None:
    async with serving(database_dsn) as api:
        await call(api, "POST", TENANTS, 201, {"tenant_id": "acme"})
        assert len((await call(api, "GET", TENANTS, 200))["tenants"]) == 2
        await call(api, "GET", TASKS, 200)
        await call(api, "GET", f"{API}/nodes", 200)
        # Keys would still be good once it is on.
        problem = await call(api, "POST", KEYS, 403, {"name": "x"})
        assert "gnomon keys create" in problem["detail"]


async def test_the_database_keeps_operators_apart_from_tenants(database: Database) -> None:
    key_id, _ = await make_operator(database)
    async with database.scoped("default") as scoped:
        assert await scoped.fetchval("SELECT count(*) FROM gnomon.api_key") == 0
        ended = await scoped.execute("UPDATE gnomon.api_key SET revoked_at = now()")
        assert ended == "UPDATE 0"
    with pytest.raises(StatementRefused, match="row-level security"):
        async with database.scoped("default") as scoped:
            await scoped.execute(
                """
                INSERT INTO gnomon.api_key (id, tenant_id, name, hash, hint, roles)
                VALUES (gen_random_uuid(), NULL, 'x', 'x', 'x', '{operator}')
                """
            )
    for tenant, roles in (
        ("default", ["operator"]),
        (None, ["admin"]),
        (None, ["operator", "read"]),
    ):
        async with database.connection() as connection:
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(
                    "UPDATE gnomon.api_key SET tenant_id = $2, roles = $3 WHERE id = $1",
                    key_id, tenant, roles,
                )  # fmt: skip
