"""The dashboard in a real Chromium: one browser for each test process.

A browser is spoken to from one loop, so all tests of this folder, and the fixtures that they use,
share the loop of the session.
"""

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright
from tests.browser import FLAGS, chromium
from tests.conftest import PostgresServer, connected, fresh_database, opened, serving
from tests.dashboard.browsing import Browsing

from gnomon.store.postgres.database import Database

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asynchronous = inspect.iscoroutinefunction(getattr(item, "obj", None))
        if asynchronous and item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium. Skips where there is none, except in CI."""
    program = chromium()
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def browsing(browser: Browser) -> AsyncIterator[Browsing]:
    """Opens pages. The test fails by what they do wrong, whatever it looks at itself."""
    found = Browsing(browser)
    yield found
    await found.close()
    assert found.problems == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(browsing: Browsing, api: aiohttp.ClientSession) -> Page:
    """An empty page; `goto` takes paths of `api`."""
    return await browsing.open(api)


@pytest_asyncio.fixture(loop_scope="session")
async def database_dsn(postgres: PostgresServer) -> AsyncIterator[str]:
    async with fresh_database(postgres) as dsn:
        yield dsn


@pytest_asyncio.fixture(loop_scope="session")
async def database(database_dsn: str) -> AsyncIterator[Database]:
    async with opened(database_dsn) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def connection(database_dsn: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    found = await connected(database_dsn)
    yield found
    await found.close()


@pytest_asyncio.fixture(loop_scope="session")
async def api(database_dsn: str, browsing: Browsing) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(database_dsn) as client:
        yield client
        await browsing.close()  # or live pages would ask in vain


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(database_dsn: str, browsing: Browsing) -> AsyncIterator[aiohttp.ClientSession]:
    """An API with authentication."""
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as client:
        yield client
        await browsing.close()
