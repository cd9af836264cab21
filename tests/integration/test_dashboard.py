"""The dashboard over HTTP: what it shows, to whom, and what it lets them do."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import unquote

import aiohttp
import pytest
from litestar.routes import HTTPRoute
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, call, submitted
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from yarl import URL

from gnomon.access.principal import TENANT_ROLES, Role
from gnomon.api.http.document.operation import page_of
from gnomon.dashboard import routes
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.api_keys import PostgresKeys

Api = aiohttp.ClientSession
PAGES = ["/", "/tasks", "/dead-letters", "/bulk-operations", "/cron", "/limits", "/nodes"]
HOSTILE = "<script>alert(1)</script> \u202e&amp; 'quoted' \"too\" {{ 7*7 }}"


@pytest.fixture
async def guarded(database_dsn: str) -> AsyncIterator[Api]:
    """An API with authentication."""
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as client:
        yield client


def origin_of(api: Api) -> dict[str, str]:
    return {"Origin": str(api._base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}


@asynccontextmanager
async def signed_in(api: Api, key: str) -> AsyncIterator[Api]:
    """A browser that has signed in."""
    # aiohttp keeps no cookies of addresses unless it is told to.
    async with aiohttp.ClientSession(
        api._base_url, cookie_jar=aiohttp.CookieJar(unsafe=True), headers=origin_of(api)
    ) as browser:
        answer = await posted(browser, "/sign-in", {"credentials": key, "next": "/limits"})
        assert (answer.status, answer.headers["location"]) == (303, "/limits")
        yield browser


async def posted(
    api: Api, path: str, form: dict[str, str] | None = None, **options: Any
) -> aiohttp.ClientResponse:
    options.setdefault("headers", origin_of(api))
    async with api.post(path, data=form or {}, allow_redirects=False, **options) as answer:
        await answer.read()
        return answer


async def shown(api: Api, path: str, status: int = 200) -> str:
    async with api.get(path, allow_redirects=False) as answer:
        text = await answer.text()
        assert answer.status == status, text
        return text


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_shown_empty_under_a_strict_policy(shared_api: Api, path: str) -> None:
    async with shared_api.get(path) as answer:
        text = await answer.text()
        policy = answer.headers["content-security-policy"]
        assert answer.status == 200, text
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.findall(r"""(?:src|href|action)="(?!/|#)[^"]*\"""", text), "another origin"
    for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', text):
        async with shared_api.get(name) as file:
            assert file.status == 200
            assert "immutable" in file.headers["cache-control"]


async def test_no_file_of_another_folder_is_served(api: Api) -> None:
    for path in ("/static/../routes.py", "/static/%2e%2e/routes.py", "/static/vendor/none.js"):
        async with api.get(path) as answer:
            assert answer.status == 404


async def test_hostile_data_is_shown_literally(api: Api) -> None:
    body = LATER | {"name": HOSTILE, "tags": [HOSTILE], "payload": {HOSTILE: [HOSTILE, 2**63]}}
    task = await submitted(api, body)
    job = {"name": "x <script>alert", "interval_seconds": 60, "task_type": HOSTILE}
    made = await call(
        api, "POST", "/api/v1/cron-jobs", 201, job | {"callback_url": LATER["callback_url"]}
    )
    for path in ("/tasks", f"/tasks/{task['task_id']}", "/cron", f"/cron/{made['cron_job_id']}"):
        text = await shown(api, path)
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "49" not in re.findall(r"\{\{.*?\}\}|&#34; (\d+)", text)
        assert "<script>alert(1)</script> ⟨U+202E⟩&amp;" in unescape(text)
    assert str(2**63) in await shown(api, f"/tasks/{task['task_id']}")
    assert "&lt;script&gt;" in await shown(api, "/tasks?q=%3Cscript%3E", 422)


async def test_a_filter_in_the_address_and_pages_by_key(api: Api) -> None:
    for number in range(60):
        await submitted(api, LATER | {"tags": ["even" if number % 2 == 0 else "odd"]})
    first = await shown(api, "/tasks")
    older = re.search(r'href="(/tasks\?cursor=[^"]+)"', first)
    assert older is not None
    second = await shown(api, unescape(older[1]))
    seen = [re.findall(r'href="/tasks/([0-9a-f-]{36})"', text) for text in (first, second)]
    assert [len(each) for each in seen] == [50, 10]
    assert len({*seen[0], *seen[1]}) == 60
    even = await shown(api, "/tasks?q=tag:even")
    assert len(re.findall(r'href="/tasks/[0-9a-f-]{36}"', even)) == 30
    assert "No task matches." in await shown(api, "/tasks?q=status:RUNNING")
    assert "nothing here is called" in await shown(api, "/tasks?q=colour:red", 422)


async def test_actions_of_a_task(api: Api) -> None:
    task_id = (await submitted(api))["task_id"]
    here = f"/tasks/{task_id}"
    for action, status in (("pause", "PAUSED"), ("resume", "SCHEDULED")):
        answer = await posted(api, f"{here}/{action}")
        assert (answer.status, answer.headers["location"]) == (303, f"{here}?done={action}")
        assert (await call(api, "GET", f"{TASKS}/{task_id}", 200))["status"] == status
    assert (await posted(api, f"{here}/reschedule", {"at": "soon"})).status == 422
    answer = await posted(api, f"{here}/reschedule", {"at": "2090-01-31T12:00"})
    assert answer.status == 303
    moved = await call(api, "GET", f"{TASKS}/{task_id}", 200)
    assert moved["execute_at"].startswith("2090-01-31T12:00:00")
    assert (await posted(api, f"{here}/cancel")).status == 303
    assert (await posted(api, f"{here}/pause")).status == 409
    answer = await posted(api, f"{here}/retry")
    again = answer.headers["location"].removesuffix("?done=retry").removeprefix("/tasks/")
    assert (await call(api, "GET", f"{TASKS}/{again}", 200))["retry_of"] == task_id
    assert "It is not due yet" not in await shown(api, here)


async def test_actions_of_a_recurring_job(api: Api) -> None:
    job = {"name": "a b", "interval_seconds": 3600, **LATER}
    del job["delay_seconds"]
    made = await call(api, "POST", "/api/v1/cron-jobs", 201, job)
    here = f"/cron/{made['cron_job_id']}"
    assert (await posted(api, f"{here}/pause", {"reason": "the bank"})).status == 303
    assert "the bank" in await shown(api, here)
    assert (await posted(api, f"{here}/resume")).status == 303
    assert (await posted(api, f"{here}/trigger")).status == 303
    assert "It has not run yet" not in await shown(api, here)


async def test_without_authentication_there_is_no_sign_in_and_no_foreign_page(api: Api) -> None:
    async with api.get("/sign-in", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "Sign out" not in await shown(api, "/")
    task_id = (await submitted(api))["task_id"]
    evil = {"Origin": "http://evil.example"}
    assert (await posted(api, f"/tasks/{task_id}/cancel", headers=evil)).status == 403


async def test_a_session_ends_with_its_key(guarded: Api, database: Database) -> None:
    key_id, key = await make_key(database)
    async with guarded.get("/tasks?q=tag:a", allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["location"] == "/sign-in?next=/tasks%3Fq%3Dtag%3Aa"
    async with signed_in(guarded, key) as browser:
        assert "Sign out" in await shown(browser, "/")
        await PostgresKeys(database).revoke("default", key_id)
        await _refused(browser)


async def _refused(browser: Api) -> None:
    """Waits until a page is refused: within the seconds that a key is trusted for."""
    from tests.waiting import eventually

    async def refused() -> bool:
        async with browser.get("/", allow_redirects=False) as answer:
            return answer.status == 303

    await eventually(refused)


async def test_signing_out_ends_the_session_itself(guarded: Api, database: Database) -> None:
    _, key = await make_key(database)
    async with signed_in(guarded, key) as browser:
        cookies = {each.key: each.value for each in browser.cookie_jar}
        assert key not in str(cookies)
        assert (await posted(browser, "/sign-out")).status == 303
        async with guarded.get("/", cookies=cookies, allow_redirects=False) as answer:
            assert answer.status == 303


async def test_the_cookie_is_for_no_script_and_no_other_site(
    guarded: Api, database: Database
) -> None:
    _, key = await make_key(database)
    answer = await posted(guarded, "/sign-in", {"credentials": key, "next": "//evil.example"})
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    secure = {"Origin": origin_of(guarded)["Origin"].replace("http:", "https:")}
    answer = await posted(guarded, "/sign-in", {"credentials": key}, headers=secure)
    assert answer.headers["set-cookie"].endswith("; Secure")
    assert (await posted(guarded, "/sign-in", {"credentials": "wrong"})).status == 401


async def test_the_table_of_sessions_tells_no_secret(guarded: Api, database: Database) -> None:
    _, key = await make_key(database)
    async with signed_in(guarded, key) as browser:
        (cookie,) = [each.value for each in browser.cookie_jar]
        async with database.connection() as connection:
            (row,) = await connection.fetch("SELECT * FROM gnomon.session")
    for secret in (key.encode(), cookie.encode(), bytes.fromhex(cookie)):
        assert secret not in b"".join([row["name"], row["sealed"]])


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "null"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=str,
)
async def test_under_a_session_only_own_pages_may_act(
    guarded: Api, database: Database, headers: dict[str, str]
) -> None:
    _, key = await make_key(database)
    task_id = (await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(key)))["task_id"]
    answer = await posted(guarded, "/sign-in", {"credentials": key})
    cookies = {"gnomon_session": answer.cookies["gnomon_session"].value}
    refused = await posted(guarded, f"/tasks/{task_id}/cancel", headers=headers, cookies=cookies)
    assert refused.status == 403
    own = origin_of(guarded)
    done = await posted(guarded, f"/tasks/{task_id}/cancel", headers=own, cookies=cookies)
    assert done.status == 303


async def test_a_session_is_of_no_use_for_the_api(guarded: Api, database: Database) -> None:
    _, key = await make_key(database)
    async with signed_in(guarded, key) as browser:
        await call(browser, "GET", TASKS, 401)


async def test_a_key_that_reads_sees_no_action_and_may_do_none(
    guarded: Api, database: Database
) -> None:
    _, all_roles = await make_key(database)
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    task = await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(all_roles))
    here = f"/tasks/{task['task_id']}"
    async with signed_in(guarded, all_roles) as browser:
        assert f'action="{here}/cancel"' in await shown(browser, here)
        assert "/nodes" not in await shown(browser, here)
        await shown(browser, "/nodes", 403)
    async with signed_in(guarded, reads) as browser:
        assert re.findall(r'method="post" action="([^"]+)"', await shown(browser, here)) == [
            "/sign-out"
        ]
        for path in _posts(task["task_id"]):
            assert (await posted(browser, path)).status == 403, path


def _posts(task_id: str) -> list[str]:
    """Every path that changes something, but for the session."""
    found = []
    (router,) = routes.ROUTES
    for route in router.routes:
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            if page_of(handler) is not None and "POST" in handler.http_methods:
                found += [re.sub(r"\{[^}]*\}", task_id, route.path)]
    assert len(found) >= 11
    return found


async def test_another_tenant_s_task_looks_unknown(guarded: Api, database: Database) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    task = await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(mine))
    async with signed_in(guarded, theirs) as browser:
        await shown(browser, f"/tasks/{task['task_id']}", 404)
        assert task["task_id"] not in await shown(browser, "/tasks")
        assert (await posted(browser, f"/tasks/{task['task_id']}/cancel")).status == 404


async def test_an_operator_sees_the_installation_and_no_tenant(
    guarded: Api, database: Database
) -> None:
    _, key = await make_operator(database)
    async with signed_in(guarded, key) as browser:
        async with browser.get("/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"]) == (303, "/nodes")
        assert 'href="/tasks"' not in await shown(browser, "/nodes")
        await shown(browser, "/tasks", 403)


async def test_a_key_that_may_not_read_is_told_so(guarded: Api, database: Database) -> None:
    _, key = await make_key(database, roles=TENANT_ROLES - {Role.READ, Role.ADMIN})
    async with signed_in(guarded, key) as browser:
        text = await shown(browser, "/tasks", 403)
    assert "read" in text
    assert "This key may submit tasks" in text
    assert 'href="/tasks/new"' in text


async def test_a_key_that_may_only_submit_begins_with_the_form(
    guarded: Api, database: Database
) -> None:
    _, key = await make_key(database, roles=[Role.SUBMIT], task_types=["mail", "report"])
    async with signed_in(guarded, key) as browser:
        async with browser.get("/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"]) == (303, "/tasks/new")
        text = await shown(browser, "/tasks/new")
        await shown(browser, "/?fragment=1", 403)
    assert "This key may submit tasks" in text
    assert "It may not read" in text
    assert "mail" in text
    assert 'href="/tasks"' not in text
    _, operates = await make_key(database, name="operator", roles=[Role.OPERATE])
    async with signed_in(guarded, operates) as browser:
        assert "This key may retry" in await shown(browser, "/", 403)


async def test_signing_in_again_ends_the_session_of_before(
    guarded: Api, database: Database
) -> None:
    _, key = await make_key(database)
    async with signed_in(guarded, key) as browser:
        before = {each.key: each.value for each in browser.cookie_jar}
        assert (await posted(browser, "/sign-in", {"credentials": key})).status == 303
        await shown(browser, "/tasks")
        async with guarded.get("/tasks", cookies=before, allow_redirects=False) as answer:
            assert answer.status == 303


async def test_signing_in_comes_back_to_what_was_asked_for(guarded: Api) -> None:
    path = "/task-types/a%3Fb%23c%25d"
    async with guarded.get(URL(path, encoded=True), allow_redirects=False) as answer:
        assert unquote(answer.headers["location"]) == f"/sign-in?next={path}"


async def test_a_stream_is_never_shared_as_fragments_are(api: Api) -> None:
    address = "/live?topics=tasks&fragment=1"
    async with api.get(address) as first, api.get(address) as second:
        assert (first.status, second.status) == (200, 200)
        for each in (first, second):
            assert await each.content.readline() == b": open\n"


async def test_a_refused_form_shows_nothing_to_who_may_not_read(
    guarded: Api, database: Database
) -> None:
    _, all_roles = await make_key(database)
    _, operates = await make_key(database, name="operator", roles=[Role.OPERATE])
    body = LATER | {"task_type": "secret-type", "tags": ["secret-tag"], "payload": "secret-text"}
    task = await call(guarded, "POST", TASKS, 202, body, headers=bearer(all_roles))
    async with signed_in(guarded, operates) as browser:
        for path, form in (
            (f"/tasks/{task['task_id']}/reschedule", {"at": "soon"}),
            ("/tasks/views", {"name": "", "q": "colour:red"}),
        ):
            async with browser.post(path, data=form, allow_redirects=False) as answer:
                assert answer.status == 422
                assert "secret" not in await answer.text()
