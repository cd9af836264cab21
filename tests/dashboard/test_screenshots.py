"""The pictures of the docs can be taken anew, are small, and are the ones that pages show."""

import re
from pathlib import Path

from playwright.async_api import Browser
from tests.conftest import PostgresServer, connected, fresh_database, serving
from tests.dashboard.browsing import origin
from tests.dashboard.screenshots import IMAGES, MOST_BYTES, PICTURES, take
from tests.dashboard.seeding import history, seeded

_ROOT = Path(__file__).parents[2]


async def test_the_pictures_can_be_taken(
    browser: Browser, postgres: PostgresServer, tmp_path: Path
) -> None:
    async with fresh_database(postgres) as dsn, serving(dsn) as api, seeded(dsn, api) as things:
        connection = await connected(dsn)
        await history(connection)
        await connection.close()
        await take(browser, origin(api), things, tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {picture.file for picture in PICTURES}
    assert max(sizes.values()) < MOST_BYTES


def test_the_docs_show_the_pictures_that_there_are() -> None:
    kept = {path.name for path in IMAGES.iterdir()}
    assert kept == {picture.file for picture in PICTURES}
    assert all((IMAGES / name).stat().st_size < MOST_BYTES for name in kept)
    pages = [_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w.-]+)", page.read_text())}
    assert shown == kept
