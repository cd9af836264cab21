"""Notifications while PostgreSQL is stopped and started: none is lost, and each counts once."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.conftest import migrated, opened
from tests.integration.nodes import receiver_on, running_node
from tests.integration.notifying import died, made, notifier_on, subscribe
from tests.integration.test_bulk_outage import QUICK
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreError
from gnomon.notify.subscription import WebhookChannel
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres.database import Database

RESTARTS = 3
DEAD_LETTERS = 3_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """One that this test may treat badly."""
    with EmbeddedServer(tmp_path / "data", settings_overrides=QUICK) as started:
        yield started


async def _now() -> datetime:
    return SystemClock().now()


async def grown(database: Database, count: int, event: Any) -> Any:
    """The event, once the database has taken it."""

    async def entered() -> Any:
        try:
            return await died(database, count, event)
        except StoreError:
            return None

    return await eventually(entered, timeout=60)


@pytest.mark.timeout(180)
async def test_no_notification_is_lost_over_restarts_of_postgresql(server: EmbeddedServer) -> None:
    await migrated(server.dsn)
    async with opened(server.dsn) as database, receiver_on(_now) as receiver:

        async def slowly(_request: web.Request, _number: int) -> web.StreamResponse:
            await asyncio.sleep(0.2)  # so that calls are under way when the server ends
            return web.Response()

        receiver.answer = slowly
        await notifier_on(database).run_once()
        await subscribe(database, WebhookChannel(receiver.url))
        async with running_node(server.dsn):
            event = None
            for part in range(1, RESTARTS + 1):
                for step in range(1, 11):
                    count = DEAD_LETTERS * (part * 10 - 10 + step) // (RESTARTS * 10)
                    event = await grown(database, count, event)
                calls = len(receiver.calls)

                async def is_called(before: int = calls) -> bool:
                    return len(receiver.calls) > before

                await eventually(is_called, timeout=60)
                await asyncio.to_thread(server.restart, mode="immediate")

            async def told_to_the_end() -> bool:
                try:
                    notifications = await made(database)
                except StoreError:
                    return False
                return bool(notifications) and notifications[-1].status == "resolved"

            await eventually(told_to_the_end, timeout=90)
            notifications = await made(database)

            async def all_arrived() -> bool:
                return len({call.headers["webhook-id"] for call in receiver.calls}) == len(
                    notifications
                )

            await eventually(all_arrived, timeout=90)
    assert [each.sequence for each in notifications] == [*range(1, len(notifications) + 1)]
    told = sum(group.count for each in notifications for group in each.groups)
    assert told == DEAD_LETTERS
