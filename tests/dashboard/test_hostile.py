"""Text of others on every page: shown as it is, whatever it would like to be."""

import json
from collections.abc import AsyncIterator
from itertools import product
from typing import NamedTuple
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.conftest import PostgresServer, connected, fresh_database, opened, serving
from tests.dashboard.browsing import NARROW, Browsing, Tab, axe, sign_in, tab
from tests.dashboard.page_routes import PAGES, about
from tests.dashboard.seeding import APP, DEAD, JOBS, WORKFLOWS, python, reaches
from tests.dashboard.test_every_page import OVERFLOW
from tests.integration.api_calls import TASKS, call
from tests.integration.bulk_calls import BULK
from tests.integration.identity import make_key, make_operator
from tests.integration.nodes import running_node
from yarl import URL

from gnomon.clock import SystemClock, new_id

Api = aiohttp.ClientSession

OWNED = "window.owned = true"
MARKUP = f"<script>{OWNED}</script>"
HANDLER = f"<img src=x onerror='{OWNED}'>"
BREAKOUT = f"\"'></time></title></textarea>{MARKUP}"
TEMPLATE = "{{ 7000001 * 191 }}{% raw %}${7000001 * 191}"  # no part of a time is as long
TURNED = "abc\u202egnp.exe\u200b\u2066"
SLASHES = "../../a/b?c=d#e%2f"
LONG = "W" * 180
# What a text is on a page: all of it, with the characters that hide shown by their numbers.
HOSTILE = f"{MARKUP}{HANDLER}{TURNED}{SLASHES}"
SHOWN = f"{MARKUP}{HANDLER}abc⟨U+202E⟩gnp.exe⟨U+200B⟩⟨U+2066⟩{SLASHES}"
TYPE = "<script>a/b?c#d%2f ü/../"
JOB = f"{MARKUP.replace('/', '')} &amp; ü?#%2f"  # names of jobs have no slash
_HIDDEN = "\u202e\u200b\u2066"
_TEXT = """document.body.innerText +
  [...document.querySelectorAll("input, textarea")].map((each) => each.value).join(" ")"""
_SHOWN = """document.body.innerText + [...document.querySelectorAll("[title], [aria-label]")]
  .map((each) => each.title + each.ariaLabel).join(" ")"""
# Pages that have nothing of others to show.
_OWN = {
    "/nodes", "/usage", "/keys", "/webhook-secrets", "/tenants", "/tenants/{tenant_id}", "/plans",
    "/operator-keys", "/fair-share", "/cron/new", "/events", "/installation/events", "/workflows",
    "/workflow-runs",
}  # fmt: skip
_EVENT = """
INSERT INTO gnomon.event (tenant_id, id, kind, at, cron_job_id, task_id, detail)
VALUES ($4, $1::text::uuid, $2, now(), $1::text::uuid, $1::text::uuid, $3)
"""


class Hostile(NamedTuple):
    """An API with hostile data, and the hostile one of each thing in it."""

    api: Api
    things: dict[str, str]
    tab: Tab


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hostile(postgres: PostgresServer, browser: Browser) -> AsyncIterator[Hostile]:
    async with (
        fresh_database(postgres) as dsn,
        serving(dsn) as api,
        tab(browser, api) as found,
    ):
        yield Hostile(api, await _filled(dsn, api), found)


@pytest_asyncio.fixture(loop_scope="session")
async def page(hostile: Hostile) -> AsyncIterator[Page]:
    async with hostile.tab.used(NARROW) as found:
        yield found


async def _filled(dsn: str, api: Api) -> dict[str, str]:
    target = {"type": "python", "function": "fail_as_told"}
    error = f"{HOSTILE}{BREAKOUT}{TEMPLATE}{LONG}"
    fields = {"name": HOSTILE[:200], "tags": [HOSTILE[:100], LONG[:100]], "queue": HOSTILE[:100]}
    task = python("fail_as_told", {"error": error, HOSTILE: [BREAKOUT, 2**63, {TEMPLATE: TURNED}]},
                  **fields, task_type=TYPE, retry_policy={"max_retries": 0})  # fmt: skip
    dead, resolved = [(await call(api, "POST", TASKS, 202, task))["task_id"] for _ in range(2)]
    job = {"name": JOB, "task_type": TYPE, "target": target, "interval_seconds": 3600,
           "payload_template": {HOSTILE: 2**63}, "tags": fields["tags"]}  # fmt: skip
    ref = (await call(api, "POST", JOBS, 201, job))["cron_job_id"]
    await call(api, "POST", f"{JOBS}/{ref}/pause", 200, {"reason": HOSTILE})
    await call(api, "PUT", "/api/v1/limiters/x", 201, {"concurrency": 1, "task_type": TYPE})
    resolved = (await call(api, "POST", TASKS, 202, task))["task_id"]
    async with running_node(dsn, node_app=APP, node_drain_seconds=0.05):
        await reaches(api, dead, "DEAD_LETTERED")
        await reaches(api, resolved, "DEAD_LETTERED")
    await call(api, "POST", f"{DEAD}/{resolved}/archive", 200, {"note": HOSTILE})
    groups = (await call(api, "GET", f"{DEAD}/groups", 200))["groups"]
    connection = await connected(dsn)
    detail = json.dumps({HOSTILE: HOSTILE, "job": JOB})
    for kind, log in product(("cron.sla_missed", MARKUP), ("default", "*")):
        event = str(new_id(SystemClock().now()))
        await connection.execute(_EVENT, event, kind, detail, log)
    await connection.close()
    for number in range(2):
        await call(api, "POST", TASKS, 202, task | {"delay_seconds": 3600 + number})
    nodes = {"a": task | {"task_type": TYPE, "payload": {"literal": HOSTILE}}}
    await call(api, "POST", WORKFLOWS, 201, {"name": "hostile", "nodes": nodes})
    given = {"input": {HOSTILE: [BREAKOUT, TEMPLATE]}}
    run = await call(api, "POST", f"{WORKFLOWS}/hostile/runs", 202, given)
    batch = await call(api, "POST", "/api/v1/batches", 201, {"name": HOSTILE[:200]})
    schema = {"description": HOSTILE, "enum": [BREAKOUT, TEMPLATE]}
    body = {"schema": schema, "defaults": {"queue": HOSTILE[:100], "tags": [MARKUP]}}
    types = URL(f"/api/v1/task-types/{quote(TYPE, safe='')}", encoded=True)
    await call(api, "PUT", types, 201, body)
    await call(api, "POST", "/api/v1/tenants", 201, {"tenant_id": "acme"})
    told = {"channel": {"type": "webhook", "url": "https://example.com/<script>"},
            "task_types": [HOSTILE[:200]], "tags": [BREAKOUT], "cron_jobs": [TEMPLATE]}  # fmt: skip
    for kind in ("subscriptions", "installation/subscriptions"):
        named = URL(f"/api/v1/{kind}/{quote(JOB, safe='')}", encoded=True)
        await call(api, "PUT", named, 201, told)
    quoted = quote(f'tag:"{HOSTILE[:100]}"')
    asked = {"action": "cancel", "filter": {"tag": HOSTILE[:100], "error": HOSTILE}}
    operation = (await call(api, "POST", BULK, 202, asked))["operation_id"]
    return {
        "task_id": dead,
        "ref": ref,
        "fingerprint": groups[0]["fingerprint"],
        "operation_id": operation,
        "limits/name": "x",
        "task-types/name": TYPE,
        "subscriptions/name": JOB,
        "operator-subscriptions/name": JOB,
        "workflows/name": "hostile",
        "run_id": run["run_id"],
        "batch_id": batch["batch_id"],
        "tenant_id": "acme",
        "/tasks/new": f"/tasks/new?from={dead}",
        "/tasks": f"/tasks?q={quoted}",
        "/bulk-operations/new": f"/bulk-operations/new?action=cancel&q={quoted}",
    }


@pytest.mark.parametrize("path", PAGES)
async def test_hostile_text_is_shown_literally(page: Page, hostile: Hostile, path: str) -> None:
    await page.goto(about(path, hostile.things))
    assert await page.evaluate("window.owned") is None
    assert await page.locator("img[src=x]").count() == 0
    html = await page.content()
    # Fields hold what was typed, as it was: it is sent again.
    assert not set(_HIDDEN) & set(await page.evaluate(_SHOWN))
    assert str(7000001 * 191) not in html.replace(hostile.things["task_id"], "")
    text = await page.evaluate(_TEXT)
    assert "<script>" in text or path in _OWN
    assert await page.evaluate(OVERFLOW) == []


async def test_all_of_a_task_is_shown(browsing: Browsing, hostile: Hostile) -> None:
    page = await browsing.open(hostile.api, f"/tasks/{hostile.things['task_id']}")
    await page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    text = await page.evaluate("document.querySelector('main').innerText")
    for part in (SHOWN, str(2**63), TYPE, f"{TEMPLATE}{LONG}", json.dumps(BREAKOUT)):
        assert part in text


async def test_a_payload_of_256_kb_is_shown(browsing: Browsing, hostile: Hostile) -> None:
    large = {f"field {number}": "x" * 1000 for number in range(240)} | {"rows": list(range(2000))}
    task = python("fail_as_told", large, delay_seconds=3600)
    made = await call(hostile.api, "POST", TASKS, 202, task)
    page = await browsing.open(hostile.api, f"/tasks/{made['task_id']}", width=NARROW)
    assert await page.get_by_text("field 7").count() > 0
    assert await page.get_by_text("Only a part is shown").count() == 1
    assert await page.evaluate(OVERFLOW) == []


async def test_names_with_slashes_lead_to_their_pages(browsing: Browsing, hostile: Hostile) -> None:
    page = await browsing.open(hostile.api, "/cron")
    await page.get_by_role("link", name=JOB).click()
    await page.wait_for_url("**/cron/*")
    assert await page.get_by_role("heading", level=1, name=JOB).count() == 1
    await page.goto(f"/tasks/{hostile.things['task_id']}")
    await page.get_by_role("link", name="<script>").first.click()  # its tag: a filter
    await page.wait_for_url("**/tasks?q=*")
    assert await page.locator("tbody tr").count() == 6  # with that of the workflow
    await page.goto("/task-types")
    await page.get_by_role("link", name=TYPE).click()
    await page.wait_for_url(f"**/task-types/{quote(TYPE, safe='')}")
    assert await page.get_by_role("heading", level=1, name=TYPE).count() == 1
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_url("**?done=type_changed")
    assert await page.get_by_role("heading", level=1, name=TYPE).count() == 1


async def test_the_names_of_keys_are_shown_literally(
    browsing: Browsing, postgres: PostgresServer
) -> None:
    async with (
        fresh_database(postgres) as dsn,
        opened(dsn) as database,
        serving(dsn, auth_enabled=True) as api,
    ):
        _, key = await make_key(database, name=HOSTILE[:100])
        _, operator = await make_operator(database, name=HOSTILE[:100])
        for credentials, path in (
            (key, "/keys"),
            (key, "/webhook-secrets"),
            (operator, "/operator-keys"),
        ):
            if path in PAGES:
                page = await browsing.open(api)
                await sign_in(page, credentials)
                for width in (NARROW, 1280):
                    await page.set_viewport_size({"width": width, "height": 900})
                    await page.goto(path)
                    assert await axe(page) == []
                    assert await page.evaluate(OVERFLOW) == []
                    assert await page.evaluate("window.owned") is None
                    assert "<script>" in await page.evaluate(_SHOWN)
                    assert not set(_HIDDEN) & set(await page.evaluate(_SHOWN))


async def test_forms_and_errors_have_no_fault_either(
    browsing: Browsing, postgres: PostgresServer
) -> None:
    browsing.allow("status of 40[14]")
    async with fresh_database(postgres) as dsn, serving(dsn, auth_enabled=True) as api:
        page = await browsing.open(api, "/sign-in?next=/tasks", width=NARROW)
        assert await axe(page) == []
        await page.get_by_label("Key").fill(MARKUP)
        await page.keyboard.press("Enter")
        await page.get_by_role("alert").wait_for()
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            assert await axe(page) == []
        assert await page.evaluate(OVERFLOW) == []
    async with fresh_database(postgres) as dsn, serving(dsn) as api:
        page = await browsing.open(api, f"/tasks/{quote(HANDLER, safe='')}", width=NARROW)
        assert await axe(page) == []
        assert await page.evaluate(OVERFLOW) == []
        assert await page.evaluate("window.owned") is None
