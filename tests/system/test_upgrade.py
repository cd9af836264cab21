"""A database that the code of a landed commit has filled is upgraded, and everything in it works.

`previous_database.sql` has its rows; `python -m tests.system.previous_database COMMIT` makes them.
"""

import json
import re
import subprocess
from collections.abc import AsyncIterator
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from tests.conftest import PostgresServer, connected, on_database, serving
from tests.integration.nodes import running_node
from tests.integration.old_database import NEWEST, migrate_as_before
from tests.system.previous_database import DOCUMENT, FILE, PROJECT
from tests.waiting import eventually

from gnomon.store.postgres import migrate
from gnomon.store.postgres.retention import partitions
from gnomon.wiring.processes import prepare

pytestmark = pytest.mark.system

ABOUT = json.loads(FILE.read_text().partition("\n")[0].removeprefix("-- "))
STATES = {
    "scheduled": "SCHEDULED",
    "large": "SCHEDULED",
    "tagged": "SCHEDULED",
    "paused": "PAUSED",
    "cancelled": "CANCELLED",
    "completed": "COMPLETED",
    "dead": "DEAD_LETTERED",
    "running": "RUNNING",
}
# All of them end at once; the one that was running is called in a process of its own.
APP = "tests.system.ending_handlers:app"


@pytest.fixture
async def upgraded_dsn(postgres: PostgresServer, empty_dsn: str) -> str:
    """The database as it was left, and then prepared as every process does it at its start."""
    connection = await connected(empty_dsn)
    if ABOUT["migration"] == NEWEST:
        await migrate_as_before(connection)
    else:
        await migrate.up(connection, ABOUT["migration"])
    await partitions.make(connection, date.fromisoformat(ABOUT["day"]))
    await connection.close()
    name = urlsplit(empty_dsn).path.strip("/")
    loader = await connected(on_database(postgres.superuser_dsn, name))
    async with loader.transaction():
        await loader.execute("SET LOCAL session_replication_role = replica")  # no triggers
        rows = FILE.read_text()
        for table in set(re.findall(r"^INSERT INTO (gnomon\.\w+)", rows, re.MULTILINE)):
            await loader.execute(f"DELETE FROM {table}")  # what its migrations wrote
        await loader.execute(rows)
    await loader.close()
    await prepare(empty_dsn)
    return empty_dsn


class Api:
    """The API of this code on the upgraded database, asked with the key that the old code made."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        headers = {"authorization": f"Bearer {ABOUT['key']}"}
        async with self._client.request(
            method, f"/api/v1/{path}", json=body, headers=headers
        ) as answer:
            assert answer.status < 300, f"{method} {path}: {await answer.text()}"
            return await answer.json()

    async def tasks(self) -> dict[str, dict[str, Any]]:
        """Those that are no runs of cron jobs and no nodes, by their names."""
        listed = (await self.ask("GET", "tasks?limit=100"))["tasks"]
        alone = (task for task in listed if not task["cron_job_id"] and not task["workflow_run_id"])
        return {task["name"]: task for task in alone}

    async def ends(self, task_id: str) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            task: dict[str, Any] = await self.ask("GET", f"tasks/{task_id}")
            return task if task["status"] == "COMPLETED" else None

        return await eventually(look, 60.0)


@pytest.fixture
async def api(upgraded_dsn: str) -> AsyncIterator[Api]:
    async with serving(upgraded_dsn, auth_enabled=True) as client:
        yield Api(client)


async def test_everything_is_there(api: Api, upgraded_dsn: str) -> None:
    tasks = await api.tasks()
    assert {name: task["status"] for name, task in tasks.items() if name != "resolved"} == STATES
    assert tasks["resolved"]["resolution"] == "archived"
    large = await api.ask("GET", f"tasks/{tasks['large']['task_id']}")
    assert large["payload"] == {"who": "large", **DOCUMENT}
    assert (tasks["tagged"]["tags"], tasks["tagged"]["priority"]) == (["a", "b"], "HIGH")
    completed = await api.ask("GET", f"tasks/{tasks['completed']['task_id']}")
    assert completed["result"] == {"n": 1}
    outcomes = {}
    for name in ("completed", "dead"):
        found = await api.ask("GET", f"tasks/{tasks[name]['task_id']}/executions")
        outcomes[name] = [each["outcome"] for each in found["executions"]]
    assert outcomes == {"completed": ["succeeded"], "dead": ["failed"]}
    (dead,) = (await api.ask("GET", "dead-letters"))["dead_letters"]
    assert dead["name"] == "dead"

    jobs = (await api.ask("GET", "cron-jobs"))["cron_jobs"]
    assert {job["name"] for job in jobs} == {"yearly", "paused", "queued"}
    assert {job["name"]: job["pause_reason"] for job in jobs}["paused"] == "holidays"
    assert len((await api.ask("GET", "cron-jobs/queued/runs"))["runs"]) == 2
    assert [key["name"] for key in (await api.ask("GET", "keys"))["keys"]] == ["old"]
    assert len((await api.ask("GET", "webhook-secrets"))["webhook_secrets"]) == 2
    assert [t["name"] for t in (await api.ask("GET", "task-types"))["task_types"]] == ["known"]
    assert [m["name"] for m in (await api.ask("GET", "limiters"))["limiters"]] == ["few"]

    connection = await connected(upgraded_dsn)
    assert all(m.applied and not m.edited for m in await migrate.status(connection))
    await connection.close()


async def test_everything_runs(api: Api, upgraded_dsn: str) -> None:
    tasks = await api.tasks()
    ids = {name: task["task_id"] for name, task in tasks.items()}
    changes = {"node_app": APP, "database_retention_days": 36500.0}
    async with running_node(upgraded_dsn, **changes):
        await api.ends(ids["running"])  # its node is gone
        await api.ask("POST", f"dead-letters/{ids['dead']}/retry")
        await api.ask("POST", f"tasks/{ids['paused']}/resume")
        for name in ("scheduled", "large", "tagged", "paused"):
            due = {"execute_at": "2026-01-01T00:00:00Z"}
            await api.ask("PATCH", f"tasks/{ids[name]}", due)
        for name in ("dead", "scheduled", "large", "tagged", "paused"):
            await api.ends(ids[name])
        again = await api.ask("POST", f"tasks/{ids['completed']}/retry")
        await api.ends(again["task_id"])
        # The queued run starts when the one before it has ended; then a new one can be made.
        for run in (await api.ask("GET", "cron-jobs/queued/runs"))["runs"]:
            await api.ends(run["run_id"])
        run = await api.ask("POST", "cron-jobs/yearly/trigger")
        await api.ends(run["run_id"])
        (halfway,) = (await api.ask("GET", "workflow-runs"))["runs"]
        where = f"workflow-runs/{halfway['run_id']}"
        await api.ask("POST", f"{where}/signals/go", {"data": None})
        assert (await api.ask("GET", f"{where}?wait=30"))["status"] == "SUCCEEDED"
        assert (await api.ask("GET", f"{where}/outputs/last"))["result"] == 7


def test_the_rows_are_of_a_commit_that_landed() -> None:
    """The history is not needed for anything else; where it is missing, nothing is to be said."""
    history = subprocess.run(
        ["git", "merge-base", "--is-ancestor", ABOUT["commit"], "HEAD"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if history.returncode > 1:
        pytest.skip(f"this checkout has no history back to {ABOUT['commit']}: {history.stderr}")
    assert history.returncode == 0, f"{ABOUT['commit']} is in no history of this commit"
