"""Administration in a real browser: nodes that die, keys that are shown once, menus by keyboard."""

import re
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
from playwright.async_api import Page, expect
from tests.conftest import serving
from tests.dashboard.browsing import NARROW, Browsing, axe, sign_in
from tests.dashboard.test_every_page import OVERFLOW
from tests.integration.identity import make_key
from tests.system.harness import Process

from gnomon.access.principal import Role
from gnomon.dashboard.navigation import GROUPS
from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession

# Who serves each shard, as the map tells who points at it.
_SERVERS = """() => [...document.querySelectorAll("svg.shards title")]
  .map((each) => each.textContent.split(": ")[1])"""


async def serve(page: Page, *nodes: str) -> None:
    """Waits until exactly these nodes serve all shards on the open page."""
    names = "|".join(nodes)
    await expect(page.locator("svg.shards")).to_have_attribute(
        "aria-label", "256 of 256 shards are served", timeout=30_000
    )
    for name in nodes:
        await expect(
            page.locator("svg.shards title", has_text=re.compile(f": {name}$")).first
        ).to_be_attached(timeout=30_000)
    await expect(
        page.locator("svg.shards title", has_text=re.compile(f": ({names})$"))
    ).to_have_count(256, timeout=30_000)


@pytest.mark.timeout(120)
async def test_the_shards_of_a_killed_node_are_seen_to_move(
    page: Page, database_dsn: str, tmp_path: Path
) -> None:
    north, south = (Process(database_dsn, tmp_path, n, "scheduler") for n in ("north", "south"))
    try:
        for node in (north, south):
            node.start()
        for node in (north, south):
            await node.started()
        await page.goto("/nodes")
        await serve(page, "north", "south")
        before = await page.evaluate(_SERVERS)
        await page.evaluate("window.opened = true")
        north.kill()
        await serve(page, "south")
        after = await page.evaluate(_SERVERS)
        assert all(now == "south" for now in after)
        assert all(now == was for was, now in zip(before, after, strict=True) if was == "south")
        await expect(page.locator("section", has_text="Dead").last).to_contain_text("north")
        assert await page.evaluate("window.opened"), "the page was not loaded again"
    finally:
        for node in (north, south):
            node.close()


@pytest.mark.parametrize("clipboard", [True, False], ids=["clipboard", "no-clipboard"])
async def test_a_new_key_is_copied_and_gone(
    browsing: Browsing, database: Database, database_dsn: str, clipboard: bool
) -> None:
    _, owner = await make_key(database, roles=[Role.ADMIN])
    async with serving(database_dsn, auth_enabled=True) as api:
        page = await browsing.open(api, permissions=["clipboard-read", "clipboard-write"])
        if not clipboard:  # as on a page that came without HTTPS
            await page.add_init_script(
                "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
            )
        await sign_in(page, owner)
        await page.goto("/keys")
        await page.get_by_role("link", name="New key").click()
        await page.get_by_label("Name").fill("billing")
        await page.get_by_role("checkbox", name="read").check()
        await page.get_by_role("button", name="Create key").click()
        key = await page.locator("#secret").inner_text()
        assert re.fullmatch(r"gn_[0-9A-Za-z]{38}", key)
        await page.get_by_role("button", name="Copy").click()
        await expect(page.locator("#told")).to_have_text(re.compile("Copied|selected"))
        if clipboard:
            assert await page.evaluate("navigator.clipboard.readText()") == key
        else:
            assert await page.evaluate("document.getSelection().toString()") == key
        assert key not in page.url
        await page.reload()
        await expect(page.get_by_role("heading", name="billing")).to_be_visible()
        assert key not in await page.content()
        await page.set_viewport_size({"width": NARROW, "height": 900})
        for question in await page.locator("details.sure > summary").all():
            await question.click()
        assert await page.evaluate(OVERFLOW) == []
        assert await axe(page) == []
        async with api.get("/api/v1/tasks", headers={"Authorization": f"Bearer {key}"}) as answer:
            assert answer.status == 200
        await page.close()  # before the API, which it would ask in vain


async def test_a_menu_by_keyboard(page: Page) -> None:
    await page.goto("/tasks")
    menu = page.locator("details.menu", has_text="Installation")
    await menu.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(menu.get_by_role("link", name="Tenants")).to_be_visible()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Escape")
    await expect(menu.get_by_role("link", name="Tenants")).to_be_hidden()
    assert await page.evaluate("document.activeElement.tagName") == "SUMMARY"
    await page.keyboard.press("Enter")
    for _ in range(3):  # nodes, events of the installation, tenants
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/tenants")
    await expect(page.locator("summary.here")).to_contain_text("Tenants")


async def test_a_menu_without_scripts(browsing: Browsing, api: Api) -> None:
    page = await browsing.open(api, "/tasks", width=320, java_script_enabled=False)
    await page.locator("summary", has_text="Settings").click()
    await page.get_by_role("link", name="Limits").click()
    await page.wait_for_url("**/limits")
    await page.get_by_role("link", name="New limit").click()
    await page.get_by_label("Name").fill("mail")
    await page.get_by_label("At most at once").fill("3")
    await page.get_by_role("button", name="Create limit").click()
    await page.wait_for_url("**/limits/mail?done=limit_created")
    await page.locator("summary", has_text="Remove limit").click()
    await page.get_by_role("button", name="Remove limit").click()
    await page.wait_for_url("**/limits?done=limit_deleted")


async def test_the_bar_is_one_line_and_has_the_badge_on_every_page(
    page: Page, connection: "asyncpg.Connection[Any]"
) -> None:
    await connection.execute(
        "INSERT INTO gnomon.event (tenant_id, id, kind, at, detail) VALUES ('default', "
        "gen_random_uuid(), 'sla_missed', gnomon.now(), '{}')"
    )
    await page.set_viewport_size({"width": 1280, "height": 800})
    for link in (link for group in GROUPS for link in group.links):
        await page.goto(link.path)
        await expect(page.locator("#open-events")).to_be_visible()
        height = await page.locator(".bar").evaluate("bar => bar.offsetHeight")
        assert height < 70, f"{link.path} has a bar of {height} px"
