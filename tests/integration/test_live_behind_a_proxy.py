"""Behind nginx: events come through at once, and a session works as without it."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
from tests.conftest import serving
from tests.integration.api_calls import LATER, call
from tests.integration.identity import bearer, make_key
from tests.integration.support import Connection
from tests.integration.test_behind_a_proxy import SETTINGS
from tests.integration.test_dashboard import shown, signed_in
from tests.integration.test_event_acknowledgements import entered
from tests.integration.test_live import watching
from tests.reverse_proxy import X_FORWARDED_FOR, proxied
from tests.waiting import eventually

from gnomon import Client
from gnomon.model.insight.event_kinds import DEAD_LETTERED
from gnomon.store.postgres.database import Database


async def test_a_live_page_behind_nginx(
    database_dsn: str, database: Database, tmp_path: Path
) -> None:
    _, key = await make_key(database)
    settings = {
        **SETTINGS,
        "api_address_requests_per_second": 100.0,
        "auth_enabled": True,
        "targets_allow": ("127.0.0.0/8",),
    }
    async with serving(database_dsn, **settings) as api:
        upstream = urlsplit(str(api._base_url)).netloc
        with proxied(upstream, X_FORWARDED_FOR, tmp_path) as url:
            async with (
                aiohttp.ClientSession(url) as outside,
                signed_in(outside, key) as browser,
                watching(browser, "tasks") as stream,
            ):
                await stream.says("tasks")
                body = LATER | {"name": "through a proxy"}
                await call(api, "POST", "/api/v1/tasks", 202, body, headers=bearer(key))
                await stream.says("tasks")
                assert "through a proxy" in await shown(browser, "/tasks?fragment=1")


async def test_a_stream_of_events_that_nginx_cuts_off_misses_nothing_and_doubles_nothing(
    database_dsn: str, connection: Connection, tmp_path: Path
) -> None:
    found: list[UUID] = []
    ids: list[UUID] = []

    async def follow(url: str) -> None:
        async with Client(url) as client, aclosing(client.follow_events(after=0)) as events:
            async for event in events:
                found.append(event.eventid)  # noqa: PERF401 - looked at meanwhile

    async def enter(number: int) -> None:
        ids.extend(map(UUID, await entered(connection, *[DEAD_LETTERED] * number)))

    async def all_told() -> bool:
        return len(found) >= len(ids)

    port = 0
    async with serving(database_dsn) as api, asyncio.TaskGroup() as tasks:
        upstream = urlsplit(str(api._base_url)).netloc
        following: asyncio.Task[None] | None = None
        for _ in range(3):
            with proxied(upstream, X_FORWARDED_FOR, tmp_path, port) as url:
                port = urlsplit(url).port or 0
                following = following or tasks.create_task(follow(url))
                await enter(20)
                await eventually(all_told, timeout=60)
                await enter(20)  # some of which are on their way when it is killed
            await enter(5)
        with proxied(upstream, X_FORWARDED_FOR, tmp_path, port):
            await eventually(all_told, timeout=60)
        assert following is not None
        following.cancel()
    assert sorted(found) == sorted(ids)
