"""The dashboard in a real Chromium: its scripts run, under its policy, without an error."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from tests.browser import _FLAGS, chromium
from tests.integration.api_calls import LATER, submitted

Api = aiohttp.ClientSession


async def looked_at(url: str, profile: Path) -> tuple[str, list[str]]:
    """The page as the browser made it, and what the browser had to say of it."""
    browser = await asyncio.create_subprocess_exec(
        chromium(), *_FLAGS, "--dump-dom", "--enable-logging=stderr", "--v=0",
        f"--user-data-dir={profile}", url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        output, said = await browser.communicate()
    return output.decode(), [line for line in said.decode().splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("kind", ["overview", "task"])
async def test_a_page_works_under_its_policy(api: Api, tmp_path: Path, kind: str) -> None:
    hostile = "<img src=x onerror=document.title='owned'>"
    task = await submitted(api, LATER | {"name": hostile, "payload": {hostile: hostile}})
    path = "/" if kind == "overview" else f"/tasks/{task['task_id']}"
    dom, said = await looked_at(f"{api._base_url}".rstrip("/") + path, tmp_path)
    assert said == []
    assert "owned</title>" not in dom
    assert "<img src=x" not in dom.replace("&lt;img", "")
    assert ("&lt;img src=x" in dom) == (kind == "task")
    assert 'id="clock"' in dom
