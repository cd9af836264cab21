"""What the API without authentication answers to requests that a web page could make."""

import asyncio
import json

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, call
from tests.integration.identity import bearer, make_key

from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession
KEYS = "/api/v1/keys"
FOREIGN = [
    {"Host": "rebound.example:8080"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_foreign_page_may_neither_read_nor_write(
    shared_api: Api, headers: dict[str, str]
) -> None:
    problem = await call(shared_api, "GET", TASKS, 403, headers=headers)
    assert "authentication" in problem["detail"]
    await call(shared_api, "POST", TASKS, 403, BODY, headers=headers)
    assert (await call(shared_api, "GET", TASKS, 200))["tasks"] == []


async def test_the_own_page_may(api: Api) -> None:
    own = {"Sec-Fetch-Site": "same-origin"}
    await call(api, "POST", TASKS, 202, BODY, headers=own)
    async with api.get("/api/v1/docs", headers={"Sec-Fetch-Site": "none"}) as page:
        assert page.status == 200


async def test_a_probe_that_names_no_host_is_answered(api: Api) -> None:
    """As HTTP/1.0 allows. A page that a browser shows cannot make such a request."""
    async with api.get("/healthz") as answer:
        url = answer.url
    for version, status in (("1.0", 200), ("1.1", 403)):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            writer.write(f"GET /healthz HTTP/{version}\r\n\r\n".encode())
            assert f" {status} " in (await reader.readline()).decode()
        finally:
            writer.close()


async def test_a_body_says_that_it_is_json(api: Api) -> None:
    body = json.dumps(BODY).encode()
    async with api.post(TASKS, data=body, skip_auto_headers=["Content-Type"]) as answer:
        assert (answer.status, (await answer.json())["detail"]) == (
            415,
            "the header Content-Type is missing; send application/json",
        )


async def test_keys_are_not_managed_without_authentication(
    api: Api, database_dsn: str, database: Database
) -> None:
    """A key that is made while nobody is asked would work when everybody is."""
    problem = await call(api, "POST", KEYS, 403, {"name": "mine", "roles": ["admin"]})
    assert "`gnomon keys create`" in problem["detail"]
    await call(api, "GET", KEYS, 403)
    _, key = await make_key(database)
    async with serving(database_dsn, auth_enabled=True) as secured:
        await call(secured, "GET", KEYS, 200, headers=bearer(key))


async def test_with_authentication_the_key_decides(database_dsn: str, database: Database) -> None:
    _, key = await make_key(database)
    async with serving(database_dsn, auth_enabled=True) as secured:
        for headers in FOREIGN:
            await call(secured, "GET", TASKS, 200, headers=headers | bearer(key))
