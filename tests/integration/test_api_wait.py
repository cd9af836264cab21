"""`GET /tasks/{id}?wait=`: answered when the task has ended, or when the time is over."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
import pytest
from tests.conftest import connected, serving
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.store.postgres.database import Database
from gnomon.wiring.api import serve

LONG = 30  # far longer than any of this takes
LOOKED_UP = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '-- Which of these tasks have not ended%'
"""
# Half of the connections may have a request in progress, a quarter of those may wait, and half of
# those be of one tenant.
ROOM_FOR_TWO = {"api_connections": 16}


@asynccontextmanager
async def waiter(
    connection: Connection, asking: Coroutine[Any, Any, Any]
) -> AsyncIterator["asyncio.Task[Any]"]:
    """A request that waits: it has been looked up. It has come back by the end of the context."""
    began = monotonic()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(asking)

        async def looked_up() -> bool:
            return waiting.done() or bool(await connection.fetchval(LOOKED_UP))

        await eventually(looked_up)
        assert not waiting.done(), "it did not wait"
        yield waiting
    assert monotonic() - began < LONG, "it waited until the time was over"


def asked(api: Api, task_id: str, status: int = 200, **options: Any) -> Coroutine[Any, Any, Any]:
    return call(api, "GET", f"{TASKS}/{task_id}?wait={LONG}", status, **options)


async def test_a_failure_comes_with_its_executions_and_nothing_else_does(
    api: Api, connection: Connection
) -> None:
    task_id = (await submitted(api))["task_id"]
    path = f"{TASKS}/{task_id}?include=failure"
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at, "
        "traceback) VALUES ('default', $1::text::uuid, 1, 1, 1, gnomon.now(), 'at line 1')",
        task_id,
    )
    assert "executions" not in await call(api, "GET", path, 200)
    async with waiter(connection, call(api, "GET", f"{path}&wait={LONG}", 200)) as waiting:
        await call(api, "POST", f"{TASKS}/{task_id}/cancel", 200)
    assert [each["traceback"] for each in waiting.result()["executions"]] == ["at line 1"]


async def test_it_is_answered_when_the_task_is_cancelled(api: Api, connection: Connection) -> None:
    task_id = (await submitted(api))["task_id"]
    async with waiter(connection, asked(api, task_id)) as waiting:
        await call(api, "POST", f"{TASKS}/{task_id}/cancel", 200)
    assert waiting.result()["status"] == "CANCELLED"
    assert waiting.result() == await call(api, "GET", f"{TASKS}/{task_id}", 200)


async def test_it_is_answered_when_the_task_is_a_dead_letter(
    api: Api, connection: Connection
) -> None:
    task_id = (await submitted(api))["task_id"]
    async with waiter(connection, asked(api, task_id)) as waiting:
        await put(connection, task_id, "state = 4")
    assert waiting.result()["status"] == "DEAD_LETTERED"


async def test_a_task_that_is_removed_meanwhile_is_not_found(
    api: Api, connection: Connection
) -> None:
    task_id = (await submitted(api))["task_id"]
    async with waiter(connection, asked(api, task_id, 404)):
        await call(api, "DELETE", f"{TASKS}/{task_id}", 204)


async def test_a_task_that_only_changes_is_waited_for(api: Api, connection: Connection) -> None:
    task_id = (await submitted(api))["task_id"]
    async with waiter(connection, asked(api, task_id)) as waiting:
        await call(api, "POST", f"{TASKS}/{task_id}/pause", 200)
        await call(api, "PATCH", f"{TASKS}/{task_id}", 200, {"name": "x"})
        await call(api, "POST", f"{TASKS}/{task_id}/resume", 200)
        assert not waiting.done()
        await call(api, "POST", f"{TASKS}/{task_id}/cancel", 200)
    assert (waiting.result()["status"], waiting.result()["name"]) == ("CANCELLED", "x")


async def test_it_is_answered_when_the_time_is_over(api: Api) -> None:
    task_id = (await submitted(api))["task_id"]
    began = monotonic()
    task = await call(api, "GET", f"{TASKS}/{task_id}?wait=0.2", 200)
    assert task["status"] == "SCHEDULED"
    assert monotonic() - began >= 0.2
    for nothing in ("?wait=0", ""):
        assert (await call(api, "GET", f"{TASKS}/{task_id}{nothing}", 200)) == task


@pytest.mark.parametrize("wait", ["30.1", "-1", "nan", "inf", "soon", "", "1&wait=2"])
async def test_a_time_that_cannot_be_waited_for_is_refused(api: Api, wait: str) -> None:
    task_id = (await submitted(api))["task_id"]
    problem = await call(api, "GET", f"{TASKS}/{task_id}?wait={wait}", 422)
    assert problem["errors"][0]["pointer"] == "/wait"


async def test_a_tenant_has_half_of_the_places(database_dsn: str, connection: Connection) -> None:
    async with serving(database_dsn, **ROOM_FOR_TWO) as api:
        task_id = (await submitted(api))["task_id"]
        async with waiter(connection, asked(api, task_id)):
            async with api.get(f"{TASKS}/{task_id}?wait=1") as refused:
                assert refused.status == 429
                assert refused.headers["Retry-After"]
                assert "1 requests of this tenant wait" in await refused.text()
            await call(api, "GET", f"{TASKS}/{task_id}", 200)
            await call(api, "POST", f"{TASKS}/{task_id}/cancel", 200)
        assert (await asked(api, task_id))["status"] == "CANCELLED"


async def test_all_tenants_together_have_so_many_places(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    async with serving(database_dsn, auth_enabled=True, **ROOM_FOR_TWO) as api:
        paths, keys = [], []
        for tenant in ("a", "b", "c"):
            await make_tenant(database, tenant)
            keys.append(bearer((await make_key(database, tenant))[1]))
            body = LATER | {"callback_url": "https://example.com/"}
            task = await call(api, "POST", TASKS, 202, body, headers=keys[-1])
            paths.append(f"{TASKS}/{task['task_id']}")
        async with asyncio.TaskGroup() as group:

            async def wait(tenant: int, seconds: float) -> int:
                url = f"{paths[tenant]}?wait={seconds}"
                async with api.get(url, headers=keys[tenant]) as answer:
                    if answer.status == 503:
                        assert answer.headers["Retry-After"]
                        assert (await answer.json(content_type=None))["type"].endswith(":busy")
                    return answer.status

            async def waited(tenant: int) -> bool:
                return await wait(tenant, LONG) == 200

            async def is_full() -> bool:
                return await wait(2, 0.01) == 503

            for number in range(2):  # the third may be there first, for a moment
                group.create_task(eventually(partial(waited, number)))
            await eventually(is_full)
            for path, key in zip(paths[:2], keys, strict=False):
                await call(api, "POST", f"{path}/cancel", 200, headers=key)


async def test_a_closed_connection_frees_its_place(
    database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn, **ROOM_FOR_TWO) as api:
        task_id = (await submitted(api))["task_id"]
        assert api._base_url is not None
        gone = aiohttp.ClientSession(api._base_url)
        with pytest.raises(ExceptionGroup):
            async with waiter(connection, asked(gone, task_id)):
                await gone.close()

        async def is_free() -> bool:
            async with api.get(f"{TASKS}/{task_id}?wait=0.01") as answer:
                return answer.status == 200

        await eventually(is_free, timeout=LONG / 2)


async def test_tenants_wait_for_their_own_tasks_alone(
    database_dsn: str, database: Database
) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    async with serving(database_dsn, auth_enabled=True) as api:
        body = LATER | {"callback_url": "https://example.com/"}
        task = await call(api, "POST", TASKS, 202, body, headers=bearer(mine))
        began = monotonic()
        await asked(api, task["task_id"], 404, headers=bearer(theirs))
        assert monotonic() - began < LONG


async def test_a_key_that_is_revoked_meanwhile_reads_nothing(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    key_id, key = await make_key(database, name="waits")
    _, other = await make_key(database, name="other")
    async with serving(database_dsn, auth_enabled=True) as api:
        body = LATER | {"callback_url": "https://example.com/"}
        task_id = (await call(api, "POST", TASKS, 202, body, headers=bearer(key)))["task_id"]
        async with waiter(connection, asked(api, task_id, 401, headers=bearer(key))):
            await call(api, "DELETE", f"/api/v1/keys/{key_id}", 204, headers=bearer(other))

            async def is_known() -> bool:
                async with api.get(TASKS, headers=bearer(key)) as answer:
                    return answer.status == 401

            await eventually(is_known)
            await call(api, "POST", f"{TASKS}/{task_id}/cancel", 200, headers=bearer(other))


async def test_a_process_that_ends_answers_at_once(database_dsn: str) -> None:
    connection = await connected(database_dsn)
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        settings = settings_with(api_port=0)
        api = group.create_task(serve(settings, database_dsn, SystemClock(), started.set_result))
        async with aiohttp.ClientSession(await started) as client:
            task_id = (await submitted(client))["task_id"]
            async with waiter(connection, asked(client, task_id)) as waiting:
                api.cancel()
            assert waiting.result()["status"] == "SCHEDULED"
    await connection.close()
