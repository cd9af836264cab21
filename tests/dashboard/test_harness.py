"""The browser of these tests sees each kind of fault on a page that has it."""

import aiohttp
import pytest
from playwright.async_api import Browser
from tests.browser import PageServer
from tests.dashboard.browsing import Browsing, axe, tab
from tests.integration.api_calls import LATER, submitted

Api = aiohttp.ClientSession

_POLICY = "<meta http-equiv='content-security-policy' content=\"script-src 'nonce-a'\">"
_BAD = {
    "error in a script": "<script>throw new Error('no')</script>",
    "error of the console": "<script>console.error('no')</script>",
    "policy: script-src": f"{_POLICY}<p onclick='a()'></p><script>a()</script>",
    "request to another origin": "<img src='http://localhost:9/x' alt=''>",
}


@pytest.mark.parametrize("kind", _BAD)
async def test_what_a_page_does_wrong_is_seen(browser: Browser, kind: str) -> None:
    found = Browsing(browser)
    async with PageServer(f"<!doctype html><title>a</title>{_BAD[kind]}").serving() as server:
        await found.open(f"http://127.0.0.1:{server.port}", "/")
        await found.close()
    assert any(kind in each for each in found.problems), found.problems
    found.allow("")
    assert found.problems == []


async def test_axe_finds_what_is_wrong_on_a_page(browsing: Browsing) -> None:
    html = """<!doctype html><html lang="en"><title>a</title><main><h1>a</h1>
        <p style="color:#999">pale</p><input>
        <button style="all:unset;width:9px;height:9px;outline:1px solid">a</button
        ><button style="all:unset;width:9px;height:9px;outline:1px solid">b</button></main>"""
    async with PageServer(html).serving() as server:
        page = await browsing.open(f"http://127.0.0.1:{server.port}", "/")
        found = {each.partition(":")[0] for each in await axe(page)}
    assert found == {"color-contrast", "label", "target-size"}


async def test_a_page_works_under_its_policy(browsing: Browsing, api: Api) -> None:
    page = await browsing.open(api, "/", theme="dark")
    assert await axe(page) == []
    assert await page.get_by_role("link", name="Overview").get_attribute("aria-current") == "page"


async def test_markup_in_data_stays_text(browsing: Browsing, api: Api) -> None:
    hostile = "<img src=x onerror=document.title='owned'>"
    task = await submitted(api, LATER | {"name": hostile, "payload": {hostile: hostile}})
    page = await browsing.open(api, f"/tasks/{task['task_id']}")
    assert await page.title() != "owned"
    assert await page.locator("img[src=x]").count() == 0
    assert await page.get_by_role("heading", name=hostile).count() == 1


async def test_what_goes_wrong_in_a_tab_fails_who_used_it(
    browser: Browser, api: aiohttp.ClientSession
) -> None:
    async with tab(browser, api) as kept:
        with pytest.raises(AssertionError, match="oh no"):
            async with kept.used() as page:
                await page.evaluate("console.error('oh no')")
        async with kept.used() as page:
            await page.goto("/healthz")
