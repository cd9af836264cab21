"""Behind a real proxy each client is counted by itself, and nobody can pass for another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.conftest import serving
from tests.integration.api_calls import TASKS
from tests.integration.test_request_limits import ONE, OTHER, Clients, until_refused
from tests.reverse_proxy import FORWARDED, X_FORWARDED_FOR, proxied
from tests.system.crowd import Crowd, request
from tests.waiting import eventually

PROXY = "127.0.0.1"
SETTINGS = {
    "api_trusted_proxies": (f"{PROXY}/32",),
    "api_unlimited_addresses": (),
    "api_address_requests_per_second": 1.0,
}
LISTS = request("GET", TASKS)


@asynccontextmanager
async def behind_nginx(
    dsn: str, folder: Path, header: str, **settings: object
) -> AsyncIterator[tuple[Clients, str]]:
    """Clients of the proxy, and the way past it."""
    async with serving(dsn, **SETTINGS | settings) as api:
        past = str(api._base_url)
        with proxied(urlsplit(past).netloc, header, folder) as url:
            each = Clients(url)
            try:
                yield each, past
            finally:
                each.close()


async def test_each_client_of_a_proxy_is_counted_by_itself(
    database_dsn: str, tmp_path: Path
) -> None:
    async with behind_nginx(database_dsn, tmp_path, X_FORWARDED_FOR) as (each, _):
        await until_refused(each.at(ONE), LISTS, 200)
        assert (await each.at(OTHER).ask(LISTS)).status == 200


@pytest.mark.parametrize(
    ("set_by_proxy", "name", "value"),
    [
        (X_FORWARDED_FOR, "X-Forwarded-For", "192.0.2.{}"),
        (X_FORWARDED_FOR, "X-Forwarded-For", "192.0.2.{}, 127.0.0.1"),
        (X_FORWARDED_FOR, "X-Forwarded-For", '", {},,,unknown,' + "x" * 4000),
        (X_FORWARDED_FOR, "Forwarded", "for=192.0.2.{}"),
        (FORWARDED, "Forwarded", "for=192.0.2.{}"),
        (FORWARDED, "Forwarded", 'for="192.0.2.{};'),
        (FORWARDED, "X-Forwarded-For", "192.0.2.{}"),
    ],
)
async def test_nobody_passes_for_others_by_a_header(
    database_dsn: str, tmp_path: Path, set_by_proxy: str, name: str, value: str
) -> None:
    header = set_by_proxy.partition(" ")[0].lower()
    settings = {"api_forwarded_header": header}
    async with behind_nginx(database_dsn, tmp_path, set_by_proxy, **settings) as (each, past):
        numbers = count(1)
        for crowd in (each.at(ONE), Crowd(past, ONE)):  # through the proxy, and past it

            async def always_another(crowd: Crowd = crowd) -> bool:
                sent = request("GET", TASKS, b"", **{name: value.format(next(numbers) % 200)})
                return (await crowd.ask(sent)).status == 429

            await eventually(always_another)
        assert (await each.at(OTHER).ask(LISTS)).status == 200, "the proxy itself is not refused"
