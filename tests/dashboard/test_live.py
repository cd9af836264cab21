"""Live pages in a real browser: they follow what happens, and leave the reader alone."""

from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Page, expect
from tests.dashboard.browsing import Browsing
from tests.integration.api_calls import LATER, submitted
from tests.system.harness import Process

Api = aiohttp.ClientSession

SCHEDULED = '.tiles a[href="/tasks?q=status:SCHEDULED"] strong'


async def scheduled(page: Page, number: int) -> None:
    """Waits until the overview shows so many scheduled tasks."""
    await expect(page.locator(SCHEDULED)).to_have_text(str(number), timeout=20_000)


async def test_a_page_follows_what_happens(page: Page, api: Api) -> None:
    await page.goto("/")
    for number in range(1, 4):
        await submitted(api, LATER)
        await scheduled(page, number)
    await expect(page.locator("#live-note")).to_be_empty()


async def test_nothing_moves_under_the_pointer_or_a_selection(page: Page, api: Api) -> None:
    await page.goto("/")
    held = page.locator("#live-note")
    await page.locator(SCHEDULED).hover()
    await submitted(api, LATER)
    await expect(held).to_contain_text("the pointer is on it", timeout=20_000)
    assert await page.locator(SCHEDULED).inner_text() == "0"
    await page.mouse.move(1, 1)
    await scheduled(page, 1)
    await page.locator(SCHEDULED).select_text()
    await submitted(api, LATER)
    await expect(held).to_contain_text("text is selected", timeout=20_000)
    await page.evaluate("document.getSelection().removeAllRanges()")
    await scheduled(page, 2)
    await expect(held).to_be_empty()


async def test_a_paused_page_stays_as_it_is_until_it_goes_on(page: Page, api: Api) -> None:
    await page.goto("/")
    await submitted(api, LATER)
    await scheduled(page, 1)
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
    await scheduled(page, 2)
    assert any("/live?" in url for url in asked), "it watches again"


@pytest.mark.timeout(120)
async def test_a_page_finds_the_api_again_after_a_restart(
    browsing: Browsing, database_dsn: str, tmp_path: Path
) -> None:
    browsing.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|Failed to fetch|htmx:|ERR_EMPTY")
    process = Process(database_dsn, tmp_path, "api", "api", "--port", "0")
    process.start()
    try:
        url = (await process.started()).rstrip("/")
        page = await browsing.open(url, "/")
        async with aiohttp.ClientSession(url) as api:
            await submitted(api, LATER)
        await scheduled(page, 1)
        process.terminate()
        assert await process.code(20) == 0
        await expect(page.locator("#live-note")).to_contain_text("Reconnecting", timeout=20_000)
        port = url.rpartition(":")[2]
        again = Process(database_dsn, tmp_path, "again", "api", "--port", port)
        again.start()
        try:
            await again.started()
            async with aiohttp.ClientSession(url) as api:
                await submitted(api, LATER)
            await scheduled(page, 2)
            await expect(page.locator("#live-note")).to_be_empty()
        finally:
            again.close()
    finally:
        process.close()
