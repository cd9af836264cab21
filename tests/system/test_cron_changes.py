"""Jobs that are changed, paused, deleted and synced while they fire: nothing twice, no past."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from proof.cron_chaos.checker import Call
from proof.cron_chaos.world import EVERY_SECOND, CronReceiver, body, unsettled
from tests.commands import gnomon
from tests.system.conftest import NewProcess
from tests.system.harness import Truth, eventually

pytestmark = pytest.mark.system

JOBS = "/api/v1/cron-jobs"
KEEPING = {"overlap_policy": "allow", "missed_run_policy": "backfill"}


@pytest.fixture
async def client(api_url: str, new_node: NewProcess) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the API, of a system with two nodes."""
    for node in [new_node(f"node-{n}") for n in range(2)]:
        await node.started()
    async with aiohttp.ClientSession(api_url) as session:
        yield session


async def call(client: aiohttp.ClientSession, method: str, path: str, asked: Any = None) -> float:
    """Make a change; gives when it was answered."""
    async with client.request(method, JOBS + path, json=asked) as answer:
        text = await answer.text()
        assert answer.status < 300, text
    return time.time()


async def fired_after(receiver: CronReceiver, job: str, moment: float, fires: int = 1) -> None:
    """Wait until the job has fired so often since a moment."""

    async def seen() -> bool:
        return len({c.fire for c in receiver.began(job) if c.fire > moment}) >= fires

    await eventually(seen)


async def settled(truth: Truth, until: float) -> None:
    """Wait until nothing is left to come of the fires up to a moment."""

    async def over() -> bool:
        return await unsettled(truth, until) == 0

    await eventually(over)


def doubled(calls: list[Call]) -> list[tuple[str, float]]:
    """Fires with more than one run."""
    runs: defaultdict[tuple[str, float], set[str]] = defaultdict(set)
    for each in calls:
        runs[each.job, each.fire].add(each.run)
    return [fire for fire, ids in runs.items() if len(ids) > 1]


def early(calls: list[Call]) -> list[Call]:
    return [each for each in calls if each.at < each.fire]


async def test_a_job_that_is_changed_without_end_fires_each_time_once(
    client: aiohttp.ClientSession, cron_receiver: CronReceiver, truth: Truth
) -> None:
    url = cron_receiver.url()
    names = ["clock", *(f"changed-{n}" for n in range(3))]
    created_after = time.time()
    for name in names:
        await call(client, "POST", "", body(name, url, **KEEPING))
    began = time.time()
    changes = 0
    edits = cycle(
        [
            {"cron_expression": "*/2 * * * * *"},
            {"tags": ["changed"]},
            {"cron_expression": EVERY_SECOND, "tags": []},
            {"timezone": "Europe/Berlin"},
            {"timezone": "UTC", "priority": "HIGH"},
            {"priority": "MEDIUM"},
        ]
    )
    while not _fired(cron_receiver, "clock", began, 6):
        for name in names[1:]:
            await call(client, "PATCH", f"/{name}", next(edits))
            changes += 1
    ended = time.time()
    for name in names:
        await fired_after(cron_receiver, name, ended)
    await settled(truth, ended)
    calls = cron_receiver.began()
    print(f"{changes} changes, {len(calls)} calls")
    assert changes > 30
    assert doubled(calls) == []
    assert early(calls) == []
    # Every other second is a fire by any of the expressions.
    even = {fire for fire in range(int(began) + 1, int(ended)) if fire % 2 == 0}
    for name in names[1:]:
        seen = {each.fire for each in calls if each.job == name}
        assert even <= seen
    assert min(each.fire for each in calls) > created_after


def _fired(receiver: CronReceiver, job: str, moment: float, fires: int) -> bool:
    return len({c.fire for c in receiver.began(job) if c.fire > moment}) >= fires


async def test_a_pause_is_not_made_up_for_and_a_deleted_job_is_gone(
    client: aiohttp.ClientSession, cron_receiver: CronReceiver, truth: Truth
) -> None:
    url = cron_receiver.url()
    names = ("clock", "paused", "deleted")
    began = time.time()
    for name in names:
        await call(client, "POST", "", body(name, url, **KEEPING))
    for name in names:
        await fired_after(cron_receiver, name, began, 2)
    paused_at = await call(client, "POST", "/paused/pause", {"reason": "a look"})
    deleted_at = await call(client, "DELETE", "/deleted")
    await fired_after(cron_receiver, "clock", deleted_at, 3)
    resumed_at = time.time()
    await call(client, "POST", "/paused/resume", {})
    again_at = time.time()
    await call(client, "POST", "", body("deleted", url, **KEEPING))
    for name in names:
        await fired_after(cron_receiver, name, again_at)
    await settled(truth, again_at)
    calls = cron_receiver.began()
    assert doubled(calls) == []
    assert early(calls) == []
    in_pause = [c for c in calls if c.job == "paused" and paused_at < c.fire <= resumed_at]
    assert in_pause == []
    while_gone = [c for c in calls if c.job == "deleted" and deleted_at < c.fire <= again_at]
    assert while_gone == []


def synced(folder: Path, api: str, text: str) -> dict[str, str]:
    """Sync a file; gives what was done to each job."""
    (folder / "jobs.toml").write_text(text)
    done = gnomon(
        "cron", "sync", "jobs.toml", "--prune", "--yes", "--json", "--api", api, cwd=folder
    )
    assert done.code == 0, done.err
    return {step["name"]: step["change"] for step in done.json["jobs"]}


def declared(url: str, jobs: dict[str, dict[str, str]]) -> str:
    """A file with these jobs."""
    template = msgspec.json.encode(body("", url)["payload_template"]).decode().replace(":", " = ")
    lines = [
        'set = "test"',
        "[defaults]",
        'task_type = "test"',
        f'callback_url = "{url}"',
        'overlap_policy = "allow"',
        'missed_run_policy = "backfill"',
        f"payload_template = {template}",
    ]
    for name, fields in jobs.items():
        lines += ["[[job]]", f'name = "{name}"']
        lines += [f'{field} = "{value}"' for field, value in fields.items()]
    return "\n".join(lines)


async def test_a_sync_changes_a_running_system_without_a_double_fire(
    client: aiohttp.ClientSession,
    api_url: str,
    cron_receiver: CronReceiver,
    truth: Truth,
    tmp_path: Path,
) -> None:
    url = cron_receiver.url()
    always, second = {"cron_expression": EVERY_SECOND}, {"cron_expression": "*/2 * * * * *"}
    before = declared(url, {"stays": always, "old": always, "slower": always, "goes": always})
    after = declared(
        url,
        {
            "stays": always,
            "new": always | {"renamed_from": "old"},
            "slower": second,
            "comes": always,
        },
    )
    assert set(synced(tmp_path, api_url, before).values()) == {"created"}
    began = time.time()
    for name in ("stays", "old", "slower", "goes"):
        await fired_after(cron_receiver, name, began, 2)
    changing_at = time.time()
    changes = synced(tmp_path, api_url, after)
    changed_at = time.time()
    assert changes == {
        "stays": "unchanged",
        "new": "renamed",
        "slower": "changed",
        "comes": "created",
        "goes": "removed",
    }
    assert set(synced(tmp_path, api_url, after).values()) == {"unchanged"}
    for name in ("stays", "new", "slower", "comes"):
        await fired_after(cron_receiver, name, changed_at)
    await settled(truth, changed_at)

    calls = cron_receiver.began()
    one_stream = [c._replace(job="new") if c.job == "old" else c for c in calls]
    assert doubled(one_stream) == []
    assert early(calls) == []
    fires = {name: {c.fire for c in one_stream if c.job == name} for name in ("stays", "new")}
    whole = set(range(int(began) + 1, int(changed_at) + 1))
    assert whole <= fires["stays"]
    assert whole <= fires["new"]
    assert not [c for c in calls if c.job in ("goes", "old") and c.fire > changed_at]
    assert not [c for c in calls if c.job == "slower" and c.fire > changed_at and c.fire % 2]
    assert not [c for c in calls if c.job == "comes" and c.fire <= changing_at]
