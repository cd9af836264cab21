"""A hostile page in a real browser, on the machine where Gnomon runs without authentication."""

import asyncio
import html
import json
import re
import shlex
from pathlib import Path
from string import Template
from typing import Any

import aiohttp
from tests.browser import PageServer, opened, shown
from tests.integration.api_calls import TASKS

# Each attack ends in the status that the page could read, or in the error that the browser gave it.
PAGE = Template("""
<!doctype html><title>A page with a prize</title><script>
const api = location.protocol + '//$api';
const task = JSON.stringify({task_type: 'stolen', callback_url: 'http://127.0.0.1:9/'});
const attacks = {
  blob: () => fetch(api + '$tasks', {method: 'POST', mode: 'no-cors', body: new Blob([task])}),
  text: () => fetch(api + '$tasks', {method: 'POST', mode: 'no-cors', body: task}),
  beacon: async () => navigator.sendBeacon(api + '$tasks', new Blob([task])),
  json: () => fetch(api + '$tasks', {method: 'POST', body: task,
                                     headers: {'content-type': 'application/json'}}),
  read: () => fetch(api + '$tasks'),
  key: () => fetch(api + '/api/v1/keys', {method: 'POST', body: '{"name": "x", "roles": ["admin"]}',
                                          headers: {'content-type': 'application/json'}}),
};
(async () => {
  const found = {};
  for (const [name, attack] of Object.entries(attacks)) {
    try { const answer = await attack(); found[name] = answer.status ?? 'sent'; }
    catch (error) { found[name] = 'no answer'; }
  }
  await fetch('$report', {method: 'POST', mode: 'no-cors', body: JSON.stringify(found)});
})();
</script>
""")
BLIND = {"blob": "no answer", "text": "no answer", "beacon": "sent", "json": "no answer",
         "read": "no answer", "key": "no answer"}  # fmt: skip


async def tasks(api_url: str) -> list[Any]:
    async with aiohttp.ClientSession(api_url) as api, api.get(TASKS) as answer:
        listed: list[Any] = (await answer.json())["tasks"]
        return listed


async def test_a_page_of_another_origin_gets_nowhere(api_url: str, tmp_path: Path) -> None:
    address = api_url.removeprefix("http://")
    page = PAGE.substitute(api=address, tasks=TASKS, report="/report")
    async with (
        PageServer(page).serving() as server,
        opened(f"http://localhost:{server.port}/", tmp_path / "profile"),
    ):
        assert await server.reported() == BLIND
    assert await tasks(api_url) == []


async def test_a_name_that_is_rebound_to_this_machine_gets_nowhere(
    api_url: str, tmp_path: Path
) -> None:
    """For the browser a name that leads here is its own origin: no header but Host tells."""
    port = api_url.rpartition(":")[2]
    rebinding = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    seen = await shown(f"http://rebound.example:{port}{TASKS}", tmp_path / "profile", [rebinding])
    assert "urn:gnomon:problem:forbidden" in seen
    assert "&quot;tasks&quot;" not in seen
    assert '"tasks"' not in seen


async def page_of(api_url: str, profile: Path, asked: str = "") -> str:
    """The page of the API, once its script has run under its own policy."""
    url = f"{api_url}/api/v1/docs{asked}"
    return await shown(url, profile, ["--virtual-time-budget=5000"])


async def test_the_page_of_the_api_begins_with_tasks_and_links_to_everything(
    api_url: str, tmp_path: Path
) -> None:
    seen = await page_of(api_url, tmp_path / "profile")
    assert "Loading…" not in seen
    async with aiohttp.ClientSession(api_url) as api, api.get("/api/v1/openapi.json") as answer:
        paths = (await answer.json())["paths"]
    names = {found["operationId"] for methods in paths.values() for found in methods.values()}
    operations = re.findall(r'<details class="operation" id="(\w+)"', seen)
    links = re.findall(r'<li><a href="#(\w+)"', seen)
    assert operations == links
    assert (set(operations), len(operations)) == (names, len(names))
    assert operations[0] == "submit_task"
    titles = re.findall(r'<h2 id="([\w-]+)"', seen)
    assert titles[:3] == ["tasks", "dead-letters", "bulk-operations"]


async def test_a_link_opens_an_operation_with_an_example_to_copy(
    api_url: str, tmp_path: Path
) -> None:
    seen = await page_of(api_url, tmp_path / "profile", "#submit_task")
    assert '<details class="operation" id="submit_task" open=""' in seen
    command = re.search(r'<pre class="curl">(.*?)</pre>', seen, re.DOTALL)
    assert command is not None
    words = shlex.split(html.unescape(command[1]).replace("\\\n", ""))
    assert words[:4] == ["curl", "-X", "POST", f"{api_url}{TASKS}"]
    assert "retry_policy.max_retries" in seen
    done = await asyncio.create_subprocess_exec(*words, "--silent", stdout=asyncio.subprocess.PIPE)
    answer, _ = await done.communicate()
    assert json.loads(answer)["status"] == "SCHEDULED"


async def test_the_page_is_searched_by_words_and_fields(api_url: str, tmp_path: Path) -> None:
    seen = await page_of(api_url, tmp_path / "profile", "?q=cron_expression%20preview")
    hidden = re.findall(r'<details class="operation" id="(\w+)" hidden=""', seen)
    every = re.findall(r'<details class="operation" id="(\w+)"', seen)
    assert set(every) - set(hidden) == {"preview_cron_job"}
    assert re.search(r'<p id="nothing"[^>]* hidden=""', seen)
