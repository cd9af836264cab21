"""Pages in a real Chromium, and everything that they do that they must not."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

Theme = Literal["light", "dark"]

NARROW = 320
_AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
_RUN_AXE = """async (colours) => {
  const found = await axe.run(document, {
    runOnly: colours ? {type: "rule", values: ["color-contrast", "link-in-text-block"]} :
      {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    rules: {"target-size": {enabled: true}},
    resultTypes: ["violations"],
  });
  return found.violations.flatMap((each) => each.nodes.map(
    (node) => `${each.id}: ${node.target.join(" ")}: ${node.failureSummary} in ${node.html}`));
}"""
_REPORT_VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} forbids ${event.blockedURI}`));"""
_LOCAL = ("data:", "blob:", "about:")


def origin(api: aiohttp.ClientSession) -> str:
    """Where the API is served."""
    assert api._base_url is not None
    return str(api._base_url.origin())


class Browsing:
    """Opens pages, and remembers what they did wrong.

    The fixture `browsing` fails the test by it in the end.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._found: list[str] = []
        self._allowed: list[str] = []

    @property
    def problems(self) -> list[str]:
        """Errors of scripts and of the console, breaches of the policy, requests to others."""
        return [
            each
            for each in self._found
            if not any(re.search(pattern, each) for pattern in self._allowed)
        ]

    def allow(self, pattern: str) -> None:
        """What this test provokes: `status of 422`."""
        self._allowed.append(pattern)

    async def open(
        self,
        api: aiohttp.ClientSession | str,
        path: str | None = None,
        *,
        theme: Theme = "light",
        width: int = 1280,
        **options: Any,
    ) -> Page:
        """A page of a browser that has never been here; `goto` takes paths of this API."""
        served = api if isinstance(api, str) else origin(api)
        context = await self._browser.new_context(
            base_url=served,
            color_scheme=theme,
            viewport={"width": width, "height": 900},
            reduced_motion="reduce",
            **options,
        )
        self._contexts.append(context)
        await context.add_init_script(_REPORT_VIOLATIONS)
        page = await context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self._found.append(f"error in a script: {error}"))
        page.on("request", lambda request: self._check_origin(request, served))
        if path is not None:
            await page.goto(path)
        return page

    async def close(self) -> None:
        while self._contexts:
            await self._contexts.pop().close()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._found.append(f"{message.type} of the console: {message.text}")

    def _check_origin(self, request: Request, served: str) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != served and not request.url.startswith(_LOCAL):
            self._found.append(f"request to another origin: {request.url}")


class Tab:
    """One page that many tests go on with: to make one costs more than to look at it."""

    def __init__(self, browsing: Browsing, page: Page) -> None:
        self._browsing = browsing
        self._page = page

    @asynccontextmanager
    async def used(self, width: int = 1280) -> AsyncIterator[Page]:
        """The page as it was opened. What it does wrong meanwhile fails the test."""
        before = len(self._browsing.problems)
        await self._page.emulate_media(color_scheme="light")
        await self._page.set_viewport_size({"width": width, "height": 900})
        yield self._page
        wrong = self._browsing.problems[before:]
        assert not wrong, wrong


@asynccontextmanager
async def tab(browser: Browser, api: aiohttp.ClientSession) -> AsyncIterator[Tab]:
    browsing = Browsing(browser)
    yield Tab(browsing, await browsing.open(api))
    await browsing.close()


async def axe(page: Page, *, colours: bool = False) -> list[str]:
    """What axe finds wrong by WCAG 2.0 to 2.2, A and AA; or by the rules about colours alone, which
    are all that a theme changes."""
    if not await page.evaluate("typeof axe === 'object'"):
        await page.evaluate(_AXE)
    found: list[str] = await page.evaluate(_RUN_AXE, colours)
    return found


async def sign_in(page: Page, key: str) -> None:
    """Sign in by the form, and wait for the page that follows."""
    await page.goto("/sign-in")
    await page.get_by_label("Key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda url: not url.endswith("/sign-in"))
