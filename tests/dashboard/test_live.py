"""Live pages in a real browser: they follow what happens, and leave the reader alone."""

from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Page, expect
from tests.conftest import serving
from tests.dashboard.browsing import Browsing, axe, sign_in
from tests.integration.api_calls import LATER, submitted
from tests.integration.identity import make_key, make_operator
from tests.integration.support import Connection
from tests.integration.test_event_acknowledgements import KINDS, entered
from tests.system.harness import Process

from gnomon.model.insight.event_kinds import INSTALLATION, NODE_LOST, SLA_MISSED
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.api_keys import PostgresKeys

Api = aiohttp.ClientSession

ROWS = "#live-part tbody tr"


async def shows(page: Page, number: int) -> None:
    """Waits until the list shows so many tasks."""
    await expect(page.locator(ROWS)).to_have_count(number, timeout=20_000)


async def test_a_page_follows_what_happens(page: Page, api: Api) -> None:
    await page.goto("/tasks")
    for number in range(1, 4):
        await submitted(api, LATER)
        await shows(page, number)
    await expect(page.locator("#live-note")).to_be_empty()


async def test_nothing_moves_while_the_reader_is_busy_with_it(page: Page, api: Api) -> None:
    await submitted(api, LATER)
    await page.goto("/tasks")
    held, row = page.locator("#live-note"), page.locator(ROWS).first
    await row.locator("a").first.hover()
    await submitted(api, LATER)
    await expect(held).to_contain_text("the pointer is on it", timeout=20_000)
    await shows(page, 1)
    await page.mouse.move(1, 1)
    await shows(page, 2)
    await row.evaluate("(row) => document.getSelection().selectAllChildren(row)")
    await submitted(api, LATER)
    await expect(held).to_contain_text("text is selected", timeout=20_000)
    await page.evaluate("document.getSelection().removeAllRanges()")
    await shows(page, 3)
    box = row.locator("input[type=checkbox]")
    await box.check()
    await page.locator("#live").focus()
    await page.mouse.move(1, 1)
    await submitted(api, LATER)
    await expect(held).to_contain_text("something is chosen", timeout=20_000)
    await shows(page, 3)
    await box.uncheck()
    await page.locator("#live").focus()
    await page.mouse.move(1, 1)
    await shows(page, 4)
    await expect(held).to_be_empty()


async def test_a_paused_page_stays_as_it_is_until_it_goes_on(page: Page, api: Api) -> None:
    await page.goto("/tasks")
    await submitted(api, LATER)
    await shows(page, 1)
    button = page.locator("#live")
    await button.focus()
    await page.keyboard.press("Enter")
    await expect(button).to_have_text("Paused")
    await page.reload()
    await expect(button).to_have_text("Paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await submitted(api, LATER)
    await button.focus()
    await page.keyboard.press("Space")
    await expect(button).to_have_text("Live")
    await shows(page, 2)
    assert any("/live?" in url for url in asked), "it watches again"


@pytest.mark.timeout(180)
async def test_the_focus_stays_in_the_filter_through_ten_refreshes(page: Page, api: Api) -> None:
    await page.goto("/tasks")
    await page.locator("main").press("/")
    await page.keyboard.type("tag:")
    for number in range(1, 11):
        await submitted(api, LATER | {"name": f"task {number}"})
        await expect(page.locator("#live-part")).to_contain_text(f"task {number}", timeout=20_000)
        await page.keyboard.type(str(number % 10))
    field = page.get_by_role("combobox", name="Filter of tasks")
    await expect(field).to_be_focused()
    assert await field.input_value() == "tag:1234567890"


async def test_a_page_says_that_its_session_has_ended(
    browsing: Browsing, guarded: Api, database: Database
) -> None:
    browsing.allow("status of 401|htmx:")
    key_id, key = await make_key(database)
    page = await browsing.open(guarded)
    await sign_in(page, key)
    await page.goto("/tasks?q=tag:a")
    await PostgresKeys(database).revoke("default", key_id)
    link = page.get_by_role("link", name="Sign in again")
    await expect(link).to_be_visible(timeout=40_000)
    assert await link.get_attribute("href") == "/sign-in?next=%2Ftasks%3Fq%3Dtag%3Aa"


async def test_events_are_acknowledged_and_leave_the_badge(
    page: Page, api: Api, connection: Connection
) -> None:
    await page.goto("/events")
    badge = page.locator("#open-events")
    await expect(badge).to_be_hidden()
    await entered(connection, *KINDS)
    await expect(badge).to_have_text("3 to acknowledge", timeout=20_000)
    await expect(page.locator(".events > li")).to_have_count(4, timeout=20_000)
    assert await axe(page) == []
    await page.get_by_text("Acknowledge all 4 shown…").click()
    await page.locator("#note-all").fill("the bank")
    await page.get_by_role("button", name="Acknowledge 4 events").click()
    await expect(page.locator(".notice")).to_contain_text("acknowledged")
    await expect(badge).to_be_hidden()
    await page.goto("/events?state=acknowledged")
    await expect(page.locator(".events > li").first).to_contain_text("the bank")


async def test_operators_are_told_of_the_installation(
    browsing: Browsing, guarded: Api, database: Database, connection: Connection
) -> None:
    _, key = await make_operator(database)
    page = await browsing.open(guarded)
    await sign_in(page, key)
    await page.goto("/installation/events")
    badge = page.locator("#open-installation-events")
    await expect(badge).to_be_hidden()
    await entered(connection, SLA_MISSED)
    await entered(connection, NODE_LOST, tenant=INSTALLATION)
    await expect(badge).to_have_text("1 to acknowledge", timeout=20_000)
    await expect(page.locator(".events > li")).to_have_count(1, timeout=20_000)
    await page.get_by_text("Acknowledge…").click()
    await page.get_by_role("button", name="Acknowledge this event").click()
    await expect(page.locator(".notice")).to_contain_text("acknowledged")
    await expect(badge).to_be_hidden()


@pytest.mark.timeout(120)
async def test_a_page_finds_the_api_again_after_a_restart(
    browsing: Browsing, database_dsn: str, tmp_path: Path
) -> None:
    browsing.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|Failed to fetch|htmx:|ERR_EMPTY")
    process = Process(database_dsn, tmp_path, "api", "api", "--port", "0")
    process.start()
    try:
        url = (await process.started()).rstrip("/")
        page = await browsing.open(url, "/tasks")
        async with aiohttp.ClientSession(url) as api:
            await submitted(api, LATER)
        await shows(page, 1)
        process.terminate()
        assert await process.code(20) == 0
        await expect(page.locator("#live-note")).to_contain_text("Reconnecting", timeout=20_000)
        async with serving(database_dsn, api_port=int(url.rpartition(":")[2])) as again:
            await submitted(again, LATER)
            await shows(page, 2)
            await expect(page.locator("#live-note")).to_be_empty()
            await browsing.close()
    finally:
        process.close()
