"""A real Chromium that opens one page; what the page finds out, it posts back itself."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

FLAGS = (
    "--headless",
    "--no-sandbox",  # it runs as root in many a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
_LONGEST_SECONDS = 60.0


def chromium() -> str:
    """Where Chromium is. Skips the test where there is none, except in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing = "Chromium is not installed (Debian's package `chromium`)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


async def shown(url: str, profile: Path, arguments: Sequence[str] = ()) -> str:
    """What the browser makes of a page, as HTML."""
    browser = await asyncio.create_subprocess_exec(
        chromium(),
        *FLAGS,
        "--dump-dom",
        f"--user-data-dir={profile}",
        *arguments,
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(_LONGEST_SECONDS):
        output, _ = await browser.communicate()
    return output.decode()


@asynccontextmanager
async def opened(url: str, profile: Path, arguments: Sequence[str] = ()) -> AsyncIterator[None]:
    """The page, open in a browser with an empty profile."""
    browser = await asyncio.create_subprocess_exec(
        chromium(),
        *FLAGS,
        f"--user-data-dir={profile}",
        *arguments,
        url,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        browser.terminate()
        await browser.wait()


class PageServer:
    """Serves one page, and hears what it reports to `/report` of its own origin."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._reported: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.port = 0

    async def reported(self) -> Any:
        async with asyncio.timeout(_LONGEST_SECONDS):
            return await self._reported

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["PageServer"]:
        app = web.Application()
        app.router.add_post("/report", self._hear)
        app.router.add_get("/{path:.*}", self._show)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _show(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._html, content_type="text/html")

    async def _hear(self, request: web.Request) -> web.Response:
        if not self._reported.done():
            self._reported.set_result(await request.json())
        return web.Response()
