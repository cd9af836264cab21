"""Every page with data, in both themes, at 320 px and by keyboard.

Pages are found from the routes, so that none is left out.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.conftest import PostgresServer, fresh_database, serving
from tests.dashboard.browsing import NARROW, Tab, axe, origin, tab
from tests.dashboard.page_routes import PAGES, about
from tests.dashboard.screenshots import MOST_BYTES, PICTURES, take
from tests.dashboard.seeding import seeded

OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  return document.documentElement.scrollWidth <= width ? [] :
    [...document.querySelectorAll("body *")]
      .filter((each) => each.getBoundingClientRect().right > width + 1 && !each.closest(".scroll"))
      .map((each) => each.outerHTML.slice(0, 200));
}"""

# What the Tab key has to reach. Of radio buttons it reaches one of a group.
_CONTROLS = """() => {
  const all = [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")];
  const there = all.filter((each) => each.type !== "radio" && !each.disabled &&
    each.tabIndex >= 0 && each.checkVisibility({visibilityProperty: true}));
  window.wanted = new Map(there.map((each, place) => [each, place]));
  return there.map((each) => each.outerHTML.slice(0, 160));
}"""
_FOCUSED = """() => {
  const here = document.activeElement;
  if (here === document.body) return null;
  const style = getComputedStyle(here);
  return {place: window.wanted.get(here) ?? -1, html: here.outerHTML.slice(0, 160),
    seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2};
}"""
_MOST_TABS = 600
_ID = re.compile(r"[0-9a-f-]{16,}|\d+")
_ALIKE = 3  # addresses that differ in ids and numbers alone
_LINK = re.compile(r'<a [^>]*href="(/[^"#]*)')


class World(NamedTuple):
    """An API with data, and one of each thing in it."""

    api: aiohttp.ClientSession
    things: dict[str, str]
    tab: Tab


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(postgres: PostgresServer, browser: Browser) -> AsyncIterator[World]:
    async with (
        fresh_database(postgres) as dsn,
        serving(dsn) as api,
        seeded(dsn, api) as things,
        tab(browser, api) as opened,
    ):
        yield World(api, things, opened)


@pytest_asyncio.fixture(loop_scope="session")
async def page(world: World) -> AsyncIterator[Page]:
    async with world.tab.used() as found:
        yield found


async def test_every_link_leads_somewhere(world: World, api: aiohttp.ClientSession) -> None:
    """Also those that are only offered while there is nothing to show."""
    for client, things in ((world.api, world.things), (api, {})):
        addresses = {about(path, things) for path in PAGES if things or "{" not in path}
        asked: set[str] = set()
        alike: Counter[str] = Counter()
        while addresses - asked:
            address = (addresses - asked).pop()
            asked.add(address)
            alike[shape := _ID.sub("*", address)] += 1
            if alike[shape] > _ALIKE:
                continue
            async with client.get(address) as answer:
                assert answer.status == 200 or "{" in address, address
                text = await answer.text()
            if len(asked) < 2 * len(PAGES):
                addresses |= {unescape(each) for each in _LINK.findall(text)}


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_has_no_fault(page: Page, world: World, path: str) -> None:
    answer = await page.goto(about(path, world.things))
    assert answer is not None
    assert answer.status == 200
    assert await axe(page) == []
    await page.emulate_media(color_scheme="dark")
    assert await axe(page, colours=True) == []
    await page.set_viewport_size({"width": NARROW, "height": 900})
    assert await axe(page) == []
    assert await page.evaluate(OVERFLOW) == []


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_used_by_keyboard(page: Page, world: World, path: str) -> None:
    await page.goto(about(path, world.things))
    await page.evaluate("document.activeElement.blur()")
    controls = await page.evaluate(_CONTROLS)
    reached: set[int] = set()
    for number in range(_MOST_TABS):
        await page.keyboard.press("Tab")
        focused = await page.evaluate(_FOCUSED)
        if focused is None:
            break
        assert focused["seen"], f"no focus to be seen: {focused['html']}"
        if number == 0:
            assert "Skip to" in focused["html"]
        reached.add(focused["place"])
    missed = [html for place, html in enumerate(controls) if place not in reached]
    assert missed == []


async def test_the_first_link_skips_to_the_content(page: Page) -> None:
    await page.goto("/tasks")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.closest('main') !== null")


async def test_the_pictures_of_the_docs_can_be_taken(
    world: World, browser: Browser, tmp_path: Path
) -> None:
    await take(browser, origin(world.api), world.things, tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {picture.file for picture in PICTURES}
    assert max(sizes.values()) < MOST_BYTES
