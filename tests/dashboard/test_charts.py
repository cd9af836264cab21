"""Charts are drawn from what the page says, follow the theme and new numbers, and have a table."""

from datetime import timedelta

import aiohttp
from playwright.async_api import Page
from tests.dashboard.browsing import Browsing, axe
from tests.integration.api_calls import LATER, submitted
from tests.integration.identity import make_tenant
from tests.integration.support import Connection, database_now
from tests.integration.test_api_activity import add, counts
from tests.waiting import eventually

from gnomon.model.tasks.priority import Lane
from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession

# Colours of the pixels of a chart: how many there are of each.
_PIXELS = """(id) => {
  const canvas = document.querySelector(`#${id} canvas`);
  if (!canvas) return null;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = {};
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 255) continue;
    const colour = "#" + [0, 1, 2].map((n) => data[at + n].toString(16).padStart(2, "0")).join("");
    found[colour] = (found[colour] || 0) + 1;
  }
  return found;
}"""
_COLOUR = "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"


async def is_drawn_in(page: Page, chart: str, name: str) -> bool:
    colour = await page.evaluate(_COLOUR, name)
    pixels = await page.evaluate(_PIXELS, chart)
    return pixels is not None and pixels.get(colour, 0) > 20


async def test_charts_follow_the_theme_and_have_a_table(
    browsing: Browsing, api: Api, database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    for minutes in range(2, 50):
        at = now - timedelta(minutes=minutes)
        each = counts(120 + minutes, failed=60, place=minutes % 9)
        await add(database, at, "default", "<b>mail</b>", Lane.LOW, each)
    await submitted(api, LATER)
    page = await browsing.open(api, "/", width=900)
    for chart, name in (
        ("plot-flow", "--blue"),
        ("plot-delay", "--green"),
        ("plot-upcoming", "--sky"),
    ):

        async def drawn(chart: str = chart, name: str = name) -> bool:
            return await is_drawn_in(page, chart, name)

        await eventually(drawn)
    light = await page.evaluate(_COLOUR, "--blue")
    await page.get_by_label("Theme").select_option("dark")
    assert await page.evaluate(_COLOUR, "--blue") != light

    async def redrawn() -> bool:
        return await is_drawn_in(page, "plot-flow", "--blue")

    await eventually(redrawn)
    await page.get_by_text("Starts and failures a second as a table").click()
    assert await axe(page) == []
    cells = page.locator("#table-flow tbody tr td:nth-of-type(1)")
    assert await cells.nth(2).inner_text() in ("2\u202f/s", "2.1\u202f/s", "2.0\u202f/s")
    assert await page.locator("#failing").get_by_text("<b>mail</b>").count() == 1


async def test_a_chart_is_drawn_anew_when_the_page_brings_new_numbers(
    browsing: Browsing, api: Api, database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await add(database, now - timedelta(minutes=5), "default", "mail", Lane.LOW, counts(600))
    page = await browsing.open(api, "/")

    async def said() -> str:
        text: str = await page.locator("#plot-flow").get_attribute("data-chart") or ""
        return text

    before = await said()
    await add(database, now - timedelta(minutes=6), "default", "mail", Lane.LOW, counts(6000))
    await submitted(api, LATER)  # something changes: the page asks for its live part

    async def changed() -> bool:
        return await said() != before

    await eventually(changed)
    assert await page.locator("#plot-flow canvas").count() == 1, "one chart, drawn anew"

    async def drawn() -> bool:
        return await is_drawn_in(page, "plot-flow", "--blue")

    await eventually(drawn)


async def test_the_share_of_tenants_is_drawn_and_compared_with_their_weights(
    browsing: Browsing, api: Api, database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await make_tenant(database, "acme")
    await connection.execute("UPDATE gnomon.tenant SET weight = 3 WHERE id = 'acme'")
    for tenant, number in (("acme", 300), ("default", 100)):
        for minutes in (2, 3, 4):
            at = now - timedelta(minutes=minutes)
            await add(database, at, tenant, "mail", Lane.LOW, counts(number))
    page = await browsing.open(api, "/fair-share")

    async def drawn() -> bool:
        return await is_drawn_in(page, "plot-shares", "--n0")

    await eventually(drawn)

    async def weights() -> bool:  # every process knows a change within a second
        await page.reload()
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="acme"))
        cells = await row.get_by_role("cell").all_inner_texts()
        return cells[:3] == ["3", "75.0\u00a0%", "75.0\u00a0%"]

    await eventually(weights)
    await page.get_by_role("link", name="Starts").click()
    assert await page.get_by_role("link", name="Starts").get_attribute("aria-current") == "true"
    assert "by=started" in page.url
    assert await axe(page) == []
