"""A bulk operation while PostgreSQL goes away and comes back: each task is changed once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import connected, migrated, serving
from tests.integration.api_calls import Api, call
from tests.integration.bulk_calls import BULK
from tests.integration.nodes import running_node
from tests.integration.test_bulk_operations import fill
from tests.waiting import eventually

from gnomon.store.embedded import EmbeddedServer

TASKS = 8_000
QUICK = {"fsync": "off", "shared_buffers": "16MB", "min_wal_size": "32MB"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """One that this test may treat badly."""
    with EmbeddedServer(tmp_path / "data", settings_overrides=QUICK) as started:
        yield started


async def test_it_goes_on_after_postgresql_was_killed(server: EmbeddedServer) -> None:
    await migrated(server.dsn)
    connection = await connected(server.dsn)
    await fill(connection, TASKS, ago=1000)
    await connection.close()
    async with serving(server.dsn) as api, running_node(server.dsn):
        begun = await call(api, "POST", BULK, 202, {"action": "archive", "expect": TASKS})
        path = f"{BULK}/{begun['operation_id']}"
        await eventually(lambda: is_in_the_middle(api, path))
        await asyncio.to_thread(server.restart, mode="immediate")

        async def has_ended() -> bool:
            async with api.get(path) as answer:
                return answer.status == 200 and (await answer.json())["status"] == "FINISHED"

        await eventually(has_ended, timeout=60)
        found = await call(api, "GET", path, 200)
    # A task that was changed twice would have been refused the second time.
    assert (found["changed"], found["refused"]) == (TASKS, 0)
    connection = await connected(server.dsn)
    archived = "SELECT count(*) FROM gnomon.task_archive WHERE resolution = 'archived'"
    assert await connection.fetchval(archived) == TASKS
    await connection.close()


async def is_in_the_middle(api: Api, path: str) -> bool:
    found = await call(api, "GET", path, 200)
    assert found["done"] < TASKS, "it was over before the server went away"
    return int(found["done"]) > 0
