"""Rows that no API would store any more, or that somebody wrote by hand: a node outlives them."""

import json
import re
from datetime import datetime
from typing import Any

import aiohttp
import pytest
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission

from gnomon.model.retry import RetryPolicy
from gnomon.model.target import HttpTarget
from gnomon.store.postgres.database import Database

ONCE = RetryPolicy(max_retries=0)


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


async def another_task_runs(database: Database, connection: Connection, now: datetime) -> None:
    _, new = call_of(now, "echo", tenant_id="innocent")
    await store(database, new)
    assert (await end_of(connection, key_of(new)))["state"] == 10


async def test_a_host_name_that_no_index_holds(
    database: Database, connection: Connection, database_dsn: str, now: datetime
) -> None:
    url = "http://" + ".".join(["q" * 60] * 60) + "/hook"
    assert len(url) > 3659
    tasks = [submission(now, target=HttpTarget(url), retry_policy=ONCE) for _ in range(25)]
    keys = await store(database, *tasks)
    for _ in range(2):  # and after a restart
        async with running_node(database_dsn):
            for key in keys:
                await end_of(connection, key)
            await another_task_runs(database, connection, now)


UNUSABLE: list[Any] = [
    {"type": "nonsense"},
    {"type": "http", "url": "no url"},
    {"type": "python"},
    [],
]


async def test_targets_that_cannot_be_read(
    database: Database, connection: Connection, database_dsn: str, now: datetime
) -> None:
    """Tasks by plain SQL: each becomes a dead letter that says why, and its batch mates run."""
    tasks = [call_of(now, "echo")[1] for _ in range(2 * len(UNUSABLE))]
    keys = await store(database, *tasks)
    for key, target in zip(keys, UNUSABLE, strict=False):
        await connection.execute(
            "UPDATE gnomon.task SET target = $2 WHERE id = $1", key.id, json.dumps(target)
        )
    async with running_node(database_dsn):
        for key in keys[len(UNUSABLE) :]:
            assert (await end_of(connection, key))["state"] == 10
        for key in keys[: len(UNUSABLE)]:
            row = await end_of(connection, key)
            assert row["state"] == 4
            assert re.search("cannot be (read|called)", row["last_error"])
        await another_task_runs(database, connection, now)


@pytest.mark.parametrize("field", ["target", "callback_url"])
@pytest.mark.parametrize(
    ("host", "said"),
    [("q." * 130, "at most 253"), ("q" * 64 + ".org", "1 to 63")],
)
async def test_a_host_name_that_cannot_be_is_refused(
    api: aiohttp.ClientSession, field: str, host: str, said: str
) -> None:
    url = f"http://{host}/hook"
    asked: Any = {"target": {"type": "http", "url": url}} if field == "target" else {field: url}
    for path, more in (
        ("/api/v1/tasks", {}),
        ("/api/v1/cron-jobs", {"name": "job", "cron_expression": "* * * * *"}),
    ):
        async with api.post(path, json={"task_type": "t", **asked, **more}) as answer:
            problem = await answer.json()
        assert answer.status == 422, problem
        assert said in problem["detail"]
        assert problem["errors"][0]["pointer"].startswith(f"/{field}")


async def test_a_host_name_as_long_as_any_can_be(api: aiohttp.ClientSession) -> None:
    host = ".".join(["q" * 63] * 3 + ["q" * 61])
    for name in (host, host + ".", "[::1]", "127.0.0.1"):
        async with api.post(
            "/api/v1/tasks", json={"task_type": "t", "callback_url": f"http://{name}/"}
        ) as answer:
            assert answer.status == 202, await answer.text()
