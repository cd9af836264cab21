"""`make screenshots`: the pictures of the docs, taken of a seeded installation."""

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

import aiohttp
from playwright.async_api import Browser, async_playwright
from tests.browser import FLAGS, chromium
from tests.conftest import FAST, connected, migrated, serving
from tests.dashboard.browsing import Theme, origin
from tests.dashboard.page_routes import about
from tests.dashboard.seeding import history, seeded

from gnomon.store.embedded import EmbeddedServer

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MOST_BYTES = 150_000


class Picture(NamedTuple):
    """A page, and how it is shown."""

    name: str
    path: str
    theme: Theme = "light"
    height: int = 800

    @property
    def file(self) -> str:
        return f"dashboard-{self.name}.png"


PICTURES = (
    Picture("overview", "/"),
    Picture("tasks", "/tasks"),
    Picture("task", "/tasks/{task_id}", "dark"),
    Picture("dead-letters", "/dead-letters"),
    Picture("recurring", "/cron/{ref}"),
    Picture("nodes", "/nodes", "dark"),
)


async def take(browser: Browser, served: str, things: dict[str, str], folder: Path) -> None:
    """Writes all pictures into the folder."""
    for picture in PICTURES:
        context = await browser.new_context(
            base_url=served,
            color_scheme=picture.theme,
            viewport={"width": 1280, "height": picture.height},
            reduced_motion="reduce",
        )
        page = await context.new_page()
        await page.goto(about(picture.path, things))
        await page.evaluate("document.fonts.ready.then(() => null)")
        await page.screenshot(path=folder / picture.file, animations="disabled")
        await context.close()


async def filled(dsn: str, api: aiohttp.ClientSession, folder: Path) -> None:
    async with seeded(dsn, api) as things, async_playwright() as playwright:
        connection = await connected(dsn)
        await history(connection)
        await connection.close()
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        await take(browser, origin(api), things, folder)
        await browser.close()


async def _main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as data,
        EmbeddedServer(Path(data) / "data", settings_overrides=FAST) as server,
    ):
        await migrated(server.dsn)
        async with serving(server.dsn) as api:
            await filled(server.dsn, api, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("--folder", type=Path, default=IMAGES)
    asyncio.run(_main(parser.parse_args().folder))
