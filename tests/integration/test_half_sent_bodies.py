"""What one tenant begins to send and does not end keeps no other tenant out."""

import asyncio
import re

import aiohttp
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.system.crowd import Answer, Crowd, ended, head, read
from tests.waiting import eventually

from gnomon.store.postgres.database import Database

CONNECTIONS = 64
SHARE = 16  # half of the requests that may be under way, and those are half of the connections
SENT = 40
PUBLIC = BODY | {"callback_url": "https://example.com/"}


async def url_of(api: aiohttp.ClientSession) -> str:
    async with api.get("/healthz") as answer:
        return str(answer.url.origin())


async def test_half_sent_bodies_of_one_tenant_keep_no_other_tenant_out(
    database_dsn: str, database: Database
) -> None:
    _, hostile = await make_key(database, await make_tenant(database, "hostile"))
    _, key = await make_key(database, await make_tenant(database, "good"))
    settings = {"api_connections": CONNECTIONS, "api_body_seconds": 600.0}
    async with serving(database_dsn, auth_enabled=True, **settings) as api:
        crowd = Crowd(await url_of(api))
        half = head("POST", TASKS, 100, Authorization=f"Bearer {hostile}") + b"{"
        streams = await crowd.open(SENT, half)
        answers = [asyncio.ensure_future(read(stream[0])) for stream in streams]

        def refused() -> list[Answer]:
            return [each.result() for each in answers if each.done()]

        async def all_but_the_share() -> bool:
            return len(refused()) == SENT - SHARE

        try:
            await eventually(all_but_the_share)
            await call(api, "POST", TASKS, 202, PUBLIC, headers=bearer(key))
            # The tenant itself may still ask what needs no body.
            await call(api, "GET", TASKS, 200, headers=bearer(hostile))
            assert {answer.status for answer in refused()} == {503}
            assert any(b"of this tenant" in answer.body for answer in refused())
            for stream, answer in zip(streams, answers, strict=True):
                if answer.done():
                    assert await ended(stream) == b""
        finally:
            for each in answers:
                each.cancel()
            crowd.close()


async def test_half_sent_bodies_of_two_tenants_keep_no_third_one_out(
    database_dsn: str, database: Database
) -> None:
    keys = [(await make_key(database, await make_tenant(database, name)))[1] for name in "abc"]
    settings = {"api_connections": CONNECTIONS, "api_body_seconds": 600.0}
    async with serving(database_dsn, auth_enabled=True, **settings) as api:
        crowd = Crowd(await url_of(api))
        try:
            for key in keys[:2]:
                half = head("POST", TASKS, 100, **bearer(key)) + b"{"
                streams = await crowd.open(SHARE + 1, half)
                reading = [asyncio.create_task(read(stream[0])) for stream in streams]
                await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)  # one too many
                for task in reading:
                    task.cancel()
            for _ in range(3):  # though none of the bodies is slow
                await call(api, "POST", TASKS, 202, PUBLIC, headers=bearer(keys[2]))
        finally:
            crowd.close()


async def test_half_sent_bodies_keep_nobody_out_where_all_are_one_tenant(
    database_dsn: str,
) -> None:
    settings = {"api_connections": CONNECTIONS, "api_body_seconds": 600.0}
    async with serving(database_dsn, **settings) as api:
        crowd = Crowd(await url_of(api))
        try:
            half = head("POST", TASKS, 100) + b"{"
            (first,) = await crowd.open(1, half)
            await _under_way(api, 1)
            await crowd.open(2 * SHARE, half)  # one more than there are places
            gone = await asyncio.wait_for(read(first[0]), 30.0)
            for _ in range(3):
                await call(api, "POST", TASKS, 202, BODY)
            assert (gone.status, gone.headers["retry-after"]) == (503, "1")
            assert b"this one has taken longest" in gone.body
        finally:
            crowd.close()


async def _under_way(api: aiohttp.ClientSession, number: int) -> None:
    """So many requests are under way."""

    async def are() -> bool:
        async with api.get("/metrics") as answer:
            text = await answer.text()
            found = re.search(r"^gnomon_requests_under_way (\d+)", text, re.MULTILINE)
            return found is not None and int(found[1]) > number  # this one is under way, too

    await eventually(are)
