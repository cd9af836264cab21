"""The API while PostgreSQL is unavailable: it says so, and comes back with it."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.conftest import connected, migrated, serving
from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.settings import settings_with

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreUnavailable
from gnomon.settings import Settings, SettingsError
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres.database import CONNECT_SECONDS
from gnomon.wiring.api import serve

API_CONNECTIONS = settings_with().database.connections
LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
LOCKED_OUT = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')"


async def test_an_outage_is_answered_and_survived(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "data", settings_overrides={"fsync": "off"})
    dsn = await asyncio.to_thread(server.start)
    try:
        await migrated(dsn)
        async with serving(dsn) as api:
            before = await submitted(api)
            os.kill(server.pid, signal.SIGQUIT)
            while await _status(api, "/readyz") != 503:
                pass
            for method, path, body in (
                ("POST", TASKS, LATER),
                ("POST", f"{TASKS}/batch", {"tasks": [LATER]}),
                ("GET", TASKS, None),
                ("GET", f"{TASKS}/{before['task_id']}", None),
                ("POST", f"{TASKS}/{before['task_id']}/cancel", {}),
                ("GET", "/readyz", None),
            ):
                await _unavailable(api, method, path, body)
            assert await call(api, "GET", "/healthz", 200) == {"status": "ok"}
            while await _status(api, "/readyz") != 200:
                await asyncio.to_thread(server.tend)
            after = await submitted(api)
            page = await call(api, "GET", TASKS, 200)
            assert [task["task_id"] for task in page["tasks"]] == [
                after["task_id"],
                before["task_id"],
            ]
    finally:
        await asyncio.to_thread(server.stop, mode="immediate")


async def _status(api: Api, path: str) -> int:
    async with api.get(path) as answer:
        return answer.status


async def _unavailable(api: Api, method: str, path: str, body: Any) -> None:
    async with api.request(method, path, json=body) as answer:
        assert answer.status == 503
        assert answer.content_type == "application/problem+json"
        assert answer.headers["Retry-After"]
        assert "postgresql" not in (await answer.text()).lower().replace(
            "postgresql is unavailable", ""
        )


async def _serve(settings: Settings, dsn: str) -> None:
    await serve(settings, dsn, SystemClock())


async def _refused(serving: Awaitable[None], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        await serving


async def test_other_hosts_are_refused(database_dsn: str) -> None:
    for host in ("0.0.0.0", "::", "8.8.8.8"):
        settings = settings_with(api_host=host, api_port=0)
        await _refused(_serve(settings, database_dsn), "api.host")


async def test_a_port_in_use_is_an_error(database_dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = settings_with(api_port=taken.getsockname()[1])
        await _refused(_serve(settings, database_dsn), "api.port")


async def test_two_apis_do_not_share_a_port(database_dsn: str) -> None:
    async with serving(database_dsn) as api:
        assert api._base_url is not None
        settings = settings_with(api_port=api._base_url.port or 0)
        await _refused(_serve(settings, database_dsn), "api.port")


async def test_without_a_database_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await _serve(settings_with(api_port=0), f"postgresql:///none?host={tmp_path}")


async def test_requests_under_way_are_finished(database_dsn: str) -> None:
    connection = await connected(database_dsn)
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        settings = settings_with(api_port=0)
        api = group.create_task(serve(settings, database_dsn, SystemClock(), started.set_result))
        async with aiohttp.ClientSession(await started) as client:
            task = await submitted(client)
            path = f"{TASKS}/{task['task_id']}/pause"
            async with connection.transaction():
                await connection.execute("SELECT FROM gnomon.task FOR UPDATE")
                pausing = group.create_task(call(client, "POST", path, 200))
                while not await connection.fetchval(LOCKED_OUT):
                    pass
                api.cancel()
            assert (await pausing)["status"] == "PAUSED"
    await connection.close()


async def test_a_probe_is_answered_while_all_connections_are_in_use(database_dsn: str) -> None:
    holder, looker = await connected(database_dsn), await connected(database_dsn)
    async with serving(database_dsn) as api, asyncio.TaskGroup() as group:
        task = await submitted(api)
        async with holder.transaction():
            await holder.execute("SELECT FROM gnomon.task FOR UPDATE")
            path = f"{TASKS}/{task['task_id']}"
            for place in range(3 * API_CONNECTIONS):
                group.create_task(_changed(api, f"{path}/{'pause' if place % 2 else 'resume'}"))
            while await looker.fetchval(LOCKED) < API_CONNECTIONS:
                pass
            began = asyncio.get_running_loop().time()
            assert await _status(api, "/readyz") == 503
            # At once, where it took as long as a connection is waited for.
            assert asyncio.get_running_loop().time() - began < CONNECT_SECONDS
            assert await _status(api, "/healthz") == 200
        while await _status(api, "/readyz") != 200:
            pass
    await holder.close()
    await looker.close()


async def _changed(api: Api, path: str) -> int:
    async with api.post(path) as answer:
        return answer.status
