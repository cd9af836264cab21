"""A hostile page in a real browser, on the machine where Gnomon runs without authentication."""

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
    html = PAGE.substitute(api=address, tasks=TASKS, report="/report")
    async with (
        PageServer(html).serving() as server,
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


async def test_the_page_of_the_api_works_under_its_own_policy(api_url: str, tmp_path: Path) -> None:
    seen = await shown(
        f"{api_url}/api/v1/docs", tmp_path / "profile", ["--virtual-time-budget=5000"]
    )
    assert "Loading…" not in seen
    assert "Submit a task" in seen or "/api/v1/tasks" in seen
