"""Saved views and labels over the API: what is kept, for whom, and how much."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, Api, call, submitted
from tests.integration.identity import bearer, make_key, make_tenant

from gnomon.store.ports.insight.saved_views import MOST_SAVED_VIEWS
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenants import PostgresTenants

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"
VIEWS = "/api/v1/saved-views"


async def names(api: Api, **options: Any) -> list[str]:
    found = (await call(api, "GET", VIEWS, 200, **options))["saved_views"]
    return [each["name"] for each in found]


async def test_a_view_is_kept_replaced_and_removed(api: Api) -> None:
    hostile = quote("<b> \u00fc ?&", safe="")
    body = {"filter": {"status": "FAILED", "tag": "a b"}, "columns": ["status", "due"]}
    made = await call(api, "PUT", f"{VIEWS}/{hostile}", 201, body)
    assert (made["name"], made["filter"], made["columns"]) == (
        "<b> \u00fc ?&", body["filter"], body["columns"]
    )  # fmt: skip
    await call(api, "PUT", f"{VIEWS}/{hostile}", 200, {"filter": {"task_type": "x"}})
    await call(api, "PUT", f"{VIEWS}/all", 201, {})
    first, second = (await call(api, "GET", VIEWS, 200))["saved_views"]
    assert (first["filter"], first["columns"]) == ({"task_type": "x"}, [])
    assert (second["name"], second["filter"]) == ("all", {})
    await call(api, "DELETE", f"{VIEWS}/{hostile}", 204)
    await call(api, "DELETE", f"{VIEWS}/{hostile}", 404)
    assert await names(api) == ["all"]


async def test_what_cannot_be_a_view_is_refused(api: Api) -> None:
    for name, body, pointer in (
        ("a", {"filter": {"status": "LOST"}}, "/filter/status"),
        ("a", {"filter": {"id_prefix": "xyz"}}, "/filter/id_prefix"),
        ("a", {"columns": ["a\nb"]}, "/columns/0"),
        ("a", {"columns": ["a"] * 31}, "/columns"),
        ("%20", {}, "/name"),
        ("x" * 101, {}, "/name"),
        ("a%01b", {}, "/name"),
        ("a%2Fb", {}, "/name"),
    ):
        problem = await call(api, "PUT", f"{VIEWS}/{name}", 422, body)
        assert problem["errors"][0]["pointer"] == pointer, (name, problem)
    assert await names(api) == []


async def test_a_tenant_has_a_bounded_number(api: Api, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO gnomon.saved_view SELECT 'default', 'v' || n, '{}', '{}', NULL, now() "
        "FROM generate_series(1, $1::integer) AS n", MOST_SAVED_VIEWS - 1,
    )  # fmt: skip
    await call(api, "PUT", f"{VIEWS}/last", 201, {})
    problem = await call(api, "PUT", f"{VIEWS}/more", 409, {})
    assert "remove one first" in problem["detail"]
    await call(api, "PUT", f"{VIEWS}/last", 200, {})


@pytest.fixture
async def guarded(database_dsn: str) -> AsyncIterator[Api]:
    allow = ("127.0.0.0/8",)
    async with serving(database_dsn, auth_enabled=True, targets_allow=allow) as client:
        yield client


async def test_views_and_labels_are_of_their_tenant(guarded: Api, database: Database) -> None:
    await make_tenant(database, "other")
    mine = bearer((await make_key(database, name="me"))[1])
    theirs = bearer((await make_key(database, "other"))[1])
    made = await call(guarded, "PUT", f"{VIEWS}/a", 201, {}, headers=mine)
    assert made["created_by"] == "me"
    await call(guarded, "POST", "/api/v1/tasks", 202, LATER | {"tags": ["t"]}, headers=mine)
    assert await names(guarded, headers=theirs) == []
    await call(guarded, "DELETE", f"{VIEWS}/a", 404, headers=theirs)
    labels = await call(guarded, "GET", "/api/v1/tasks/labels", 200, headers=theirs)
    assert labels == {"task_types": [], "tags": [], "queues": []}
    await call(guarded, "PUT", f"{VIEWS}/b", 201, {}, headers=theirs)
    await PostgresTenants(database).remove("other")
    assert await names(guarded, headers=mine) == ["a"]


async def test_labels_of_the_newest_tasks_the_commonest_first(api: Api) -> None:
    for tags in (["a"], ["a", "b"], ["c"], ["a"]):
        await submitted(api, LATER | {"tags": tags, "task_type": "t", "queue": "q"})
    await submitted(api, LATER | {"task_type": "other"})
    labels = await call(api, "GET", "/api/v1/tasks/labels", 200)
    assert labels == {"task_types": ["t", "other"], "tags": ["a", "b", "c"], "queues": ["q"]}
