"""A transaction that is opened around the receiving function ends with what the function raised: a
mark that stands without the work would lose the task."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import asyncpg
import django
import httpx
import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.test import RequestFactory
from fastapi import Depends, FastAPI
from tests.integration.receiving import django_connection
from tests.unit.receive.test_webhooks import SECRET, call

from gnomon import Snooze, receive
from gnomon.receive import Received, Webhooks

if not django_settings.configured:
    django_settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()

WEBHOOKS = Webhooks([SECRET])


@pytest.fixture
async def dsn(empty_dsn: str) -> str:
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute(receive.ddl())
    await connection.execute("CREATE TABLE effect (fence bigint)")
    await connection.close()
    return empty_dsn


async def marks_and_effects(dsn: str) -> tuple[int, int]:
    connection = await asyncpg.connect(dsn)
    try:
        marks = await connection.fetchval("SELECT count(*) FROM gnomon_received")
        return marks, await connection.fetchval("SELECT count(*) FROM effect")
    finally:
        await connection.close()


async def test_a_dependency_of_fastapi_rolls_back_what_ended_in_a_snooze(dsn: str) -> None:
    from gnomon.receive.fastapi import endpoint

    stocked = [False, True]

    async def opened() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    web = FastAPI()

    @web.post("/order")
    @endpoint(WEBHOOKS)
    async def order(received: Received[Any], connection: Annotated[Any, Depends(opened)]) -> str:
        await receive.once(connection, received)
        await connection.execute("INSERT INTO effect VALUES ($1)", received.fence)
        if not stocked.pop(0):
            raise Snooze("30s")
        return "sent"

    transport = httpx.ASGITransport(web)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        snoozed = await client.post("/order", content=b"null", headers=call())
        assert (snoozed.status_code, snoozed.headers["gnomon-snooze"]) == (425, "30")
        assert snoozed.headers["retry-after"] == "30"
        assert "detail" in snoozed.json()
        assert await marks_and_effects(dsn) == (0, 0)
        done = await client.post("/order", content=b"null", headers=call())
        assert (done.status_code, done.json()) == (200, "sent")
        repeated = await client.post("/order", content=b"null", headers=call())
        assert (repeated.status_code, list(repeated.json())) == (200, ["detail"])
    assert await marks_and_effects(dsn) == (1, 1)


def test_a_transaction_around_a_view_of_django_rolls_back(dsn: str) -> None:
    from gnomon.receive.django import endpoint

    stocked = [False, True]
    with django_connection(dsn) as connection:

        @transaction.atomic(using=connection.alias)
        @endpoint(WEBHOOKS)
        def order(received: Received[Any]) -> str:
            receive.once(connection, received)
            if not stocked.pop(0):
                raise Snooze("30s")
            return "sent"

        def answered() -> int:
            headers = {f"HTTP_{name.upper().replace('-', '_')}": v for name, v in call().items()}
            request = RequestFactory().generic("POST", "/order", b"null", **headers)
            status: int = order(request).status_code
            return status

        assert [answered(), answered(), answered()] == [425, 200, 200]
    assert stocked == []


def test_the_transaction_of_a_test_case_of_django_is_left_alone(dsn: str) -> None:
    from gnomon.receive.django import endpoint

    with django_connection(dsn) as connection:

        @endpoint(WEBHOOKS)
        def order(received: Received[Any]) -> str:
            raise Snooze("30s")

        around = transaction.atomic(using=connection.alias)
        around._from_testcase = True  # as TestCase does
        with around:
            headers = {f"HTTP_{name.upper().replace('-', '_')}": v for name, v in call().items()}
            request = RequestFactory().generic("POST", "/order", b"null", **headers)
            assert order(request).status_code == 425
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
