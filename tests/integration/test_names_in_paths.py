"""Things are found by their names, whatever characters the names have: over the API, by both
clients, on the command line, on pages, and through a proxy."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import httpx
import pytest
from tests.commands import api_running, gnomon_here
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, Api, call
from tests.integration.clients import KINDS, client_at
from tests.reverse_proxy import X_FORWARDED_FOR, proxied, require
from yarl import URL

from gnomon import InvalidRequest, NotFound, TypeDefaultsSpec
from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.clock import SystemClock
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.settings import Settings
from gnomon.wiring.api import direct_api

TYPES = "/api/v1/task-types"
NAMES = [
    "billing/invoice", "/", "//a//", "a/delete", "../../b", "100%", "%2F", "a%2Fb", "%25", "a?b=c",
    "a#b", "a b", " a ", "ü/✓", "\U0001f600", "a+b&c", "a;b", "<script>", "...", "a\\b", "a:b@c",
]  # fmt: skip
DOTS = [".", ".."]
ENTRY = {"defaults": {"queue": "bank"}}


def _at(name: str) -> URL:
    return URL(f"{TYPES}/{quote(name, safe='')}", encoded=True)


async def _is_found(api: Api, name: str) -> None:
    made = await call(api, "PUT", _at(name), 201, ENTRY)
    assert (made["name"], made["defaults"]) == (name, ENTRY["defaults"])
    assert await call(api, "GET", _at(name), 200) == made
    listed = (await call(api, "GET", TYPES, 200))["task_types"]
    assert [each["name"] for each in listed] == [name]
    task = await call(api, "POST", TASKS, 202, {**BODY, "task_type": name, "delay_seconds": 60})
    assert (await call(api, "GET", f"{TASKS}/{task['task_id']}", 200))["queue"] == "bank"
    await call(api, "DELETE", f"{TASKS}/{task['task_id']}", 204)
    await call(api, "DELETE", _at(name), 204)
    await call(api, "GET", _at(name), 404)


@pytest.mark.parametrize("name", NAMES)
async def test_the_api_finds_a_type_by_its_name(shared_api: Api, name: str) -> None:
    await _is_found(shared_api, name)


@pytest.mark.parametrize("name", DOTS)
async def test_a_name_that_no_address_can_have_is_refused(shared_api: Api, name: str) -> None:
    url = URL(f"{TYPES}/{name.replace('.', '%2E')}", encoded=True)
    refused = await call(shared_api, "PUT", url, 422, ENTRY)
    assert "must not be . or .." in refused["errors"][0]["detail"]


async def test_a_slash_in_a_name_is_not_one_between_names(api: Api) -> None:
    await call(api, "PUT", _at("a/b"), 201, ENTRY)
    await call(api, "GET", URL(f"{TYPES}/a/b"), 404)
    await call(api, "GET", URL(f"{TYPES}/a%252Fb", encoded=True), 404)
    await call(api, "GET", URL(f"{TYPES}/a%2fb", encoded=True), 200)  # either case
    # A part of a path that is no name is not the same with a slash in it.
    await call(api, "GET", URL("/api%2Fv1/task-types", encoded=True), 404)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
async def test_clients_find_a_type_by_its_name(shared_api: Api, kind: str, name: str) -> None:
    async with client_at(kind, shared_api._base_url) as client:
        made = await client.ask("put_task_type", name, defaults=TypeDefaultsSpec(queue="bank"))
        assert made.name == name
        assert (await client.ask("get_task_type", name)).defaults.queue == "bank"
        await client.ask("delete_task_type", name)
        with pytest.raises(NotFound):
            await client.ask("get_task_type", name)


@pytest.mark.parametrize("name", DOTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_clients_are_told_which_names_are_refused(
    shared_api: Api, kind: str, name: str
) -> None:
    async with client_at(kind, shared_api._base_url) as client:
        with pytest.raises(InvalidRequest, match=r"must not be \. or \.\."):
            await client.ask("put_task_type", name, schema=True)


async def test_nothing_is_lost_on_the_way_through_a_proxy(
    database_dsn: str, tmp_path: Path
) -> None:
    require()
    async with serving(database_dsn) as api:
        with proxied(urlsplit(str(api._base_url)).netloc, X_FORWARDED_FOR, tmp_path) as url:
            async with aiohttp.ClientSession(base_url=url) as through:
                for name in NAMES:
                    await _is_found(through, name)


async def test_a_process_that_submits_for_itself_finds_them_too(database_dsn: str) -> None:
    by = Principal(tenant_id=DEFAULT_TENANT, name=None, roles=TENANT_ROLES)
    async with direct_api(Settings(), database_dsn, SystemClock(), by) as app:
        served: Any = app
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for name in NAMES:
                made = await client.put(f"{TYPES}/{quote(name, safe='')}", json=ENTRY)
                assert (made.status_code, made.json()["name"]) == (201, name)


def test_commands_find_a_type_by_its_name(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        for name in ("billing/invoice", "100% a?b#c", "../x", "ü/✓"):
            assert gnomon_here("types", "set", name, "--queue", "bank").code == 0
            assert gnomon_here("types", "show", name).json["defaults"] == {"queue": "bank"}
            assert gnomon_here("types", "rm", name).code == 0
            assert gnomon_here("types", "show", name).code == 1


@pytest.mark.parametrize("name", NAMES)
async def test_pages_find_a_type_by_its_name(shared_api: Api, name: str) -> None:
    await call(shared_api, "PUT", _at(name), 201, ENTRY)
    here = f"/task-types/{quote(name, safe='')}"
    async with shared_api.get("/task-types") as answer:
        assert f'href="{here}"' in await answer.text()
    for path, status in ((here, 303), (f"{here}/delete", 303), (here, 404)):
        form = {"schema": "", "defaults": '{"queue": "mail"}'}
        async with shared_api.post(
            URL(path, encoded=True), data=form, allow_redirects=False
        ) as answer:
            assert answer.status == status, await answer.text()
            if path == here and status == 303:
                assert answer.headers["location"] == f"{here}?done=type_changed"


async def test_a_type_with_a_slash_is_made_on_its_page(api: Api) -> None:
    form = {"name": "billing/invoice", "schema": "", "defaults": ""}
    async with api.post("/task-types", data=form, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
    await call(api, "GET", _at("billing/invoice"), 200)
    for name in DOTS:
        form = {"name": name, "schema": "", "defaults": ""}
        async with api.post("/task-types", data=form, allow_redirects=False) as answer:
            assert (answer.status, "must not be . or .." in await answer.text()) == (422, True)
