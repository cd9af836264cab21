"""What one address or one key may ask for in a second, and what others notice of it."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.conftest import serving
from tests.integration.api_calls import TASKS
from tests.integration.identity import bearer, make_key, make_operator
from tests.system.crowd import SUBMISSION, Answer, Crowd, head, read, request
from tests.waiting import eventually

from gnomon.access.api_key import RANDOM_BYTES, key_from
from gnomon.clock import new_secret
from gnomon.model.errors import StoreUnavailable
from gnomon.store.postgres.database import Database

ONE, OTHER = "127.0.0.2", "127.0.0.3"
LIMITED = {"api_unlimited_addresses": ("127.0.0.1/32",)}
SLOW = {"api_address_requests_per_second": 1.0}
MIB = 1024 * 1024


class Clients:
    """Crowds of one API, by the address that they come from."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._crowds: dict[str, Crowd] = {}

    def at(self, source: str) -> Crowd:
        return self._crowds.setdefault(source, Crowd(self.url, source))

    async def metrics(self, **headers: str) -> str:
        return (
            await self.at("127.0.0.1").ask(request("GET", "/metrics", b"", **headers))
        ).body.decode()

    def close(self) -> None:
        for crowd in self._crowds.values():
            crowd.close()


@asynccontextmanager
async def clients(dsn: str, **settings: object) -> AsyncIterator[Clients]:
    async with serving(dsn, **LIMITED | settings) as api:
        made = Clients(str(api._base_url))
        try:
            yield made
        finally:
            made.close()


async def until_refused(crowd: Crowd, sent: bytes, expected: int) -> Answer:
    """The first answer that is a refusal; all before it are as expected."""

    async def refused() -> Answer | None:
        answer = await crowd.ask(sent)
        assert answer.status in (expected, 429), answer
        return answer if answer.status == 429 else None

    return await at_once(refused)


async def at_once(ask: Callable[[], Awaitable[Answer | None]]) -> Answer:
    """The first answer. Without a pause: what may be asked for grows meanwhile."""
    async with asyncio.timeout(30.0):
        while (answer := await ask()) is None:
            pass
        return answer


def problem(answer: Answer) -> dict[str, object]:
    return msgspec.json.decode(answer.body, type=dict[str, object])


def wrong_key() -> dict[str, str]:
    return bearer(key_from(new_secret(RANDOM_BYTES)))


async def test_an_address_is_answered_so_many_times_a_second(database_dsn: str) -> None:
    async with clients(database_dsn, **SLOW) as each:
        started = time.monotonic()
        answered = 0
        while True:
            answer = await each.at(ONE).ask(request("GET", TASKS))
            if answer.status != 200:
                break
            answered += 1
            assert answered <= 2 + time.monotonic() - started
        assert answer.status == 429
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["cache-control"] == "no-store"
        assert problem(answer)["type"] == "urn:gnomon:problem:too-many-requests"
        assert "this address" in str(problem(answer)["detail"])
        # Others, and whoever watches over the process, are not concerned.
        assert (await each.at(OTHER).ask(request("GET", TASKS))).status == 200
        for path in ("/healthz", "/readyz", "/metrics") * 5:
            assert (await each.at(ONE).ask(request("GET", path))).status == 200
        for _ in range(20):
            assert (await each.at("127.0.0.1").ask(request("GET", TASKS))).status == 200
        assert 'gnomon_requests_refused_total{limit="address"}' in await each.metrics()


async def test_it_is_refused_before_its_body_or_path_is_looked_at(database_dsn: str) -> None:
    async with clients(database_dsn, **SLOW) as each:
        await until_refused(each.at(ONE), request("POST", TASKS, b"no json"), 400)
        await until_refused(each.at(ONE), request("GET", "/nowhere"), 404)


async def test_a_key_is_answered_so_many_times_a_second(
    database_dsn: str, database: Database
) -> None:
    _, busy = await make_key(database)
    _, calm = await make_key(database)
    settings = {"auth_enabled": True, "api_key_requests_per_second": 1.0}
    async with clients(database_dsn, **settings) as each:
        # Wherever it is used, also at an address that is not limited.
        for source in ("127.0.0.1", ONE):
            asked = request("GET", TASKS, b"", **bearer(busy))
            refused = await until_refused(each.at(source), asked, 200)
            assert "this key" in str(problem(refused)["detail"])
            assert refused.headers["retry-after"] == "1"
        assert (await each.at(ONE).ask(request("GET", TASKS, b"", **bearer(calm)))).status == 200


async def test_whoever_tries_keys_has_to_wait_and_others_with_good_keys_do_not(
    database_dsn: str, database: Database
) -> None:
    _, used = await make_key(database)
    _, new = await make_key(database)
    async with clients(database_dsn, auth_enabled=True) as each:
        asked = request("POST", TASKS, SUBMISSION, **bearer(used))
        assert (await each.at(OTHER).ask(asked)).status == 202

        async def refused() -> Answer | None:
            answer = await each.at(ONE).ask(request("GET", TASKS, b"", **wrong_key()))
            assert answer.status in (401, 429)
            return answer if answer.status == 429 else None

        answer = await at_once(refused)
        assert 1 <= int(answer.headers["retry-after"]) <= 6
        assert "without a valid key" in str(problem(answer)["detail"])
        # Where the address alone decides, nobody is asked; a key that is known is not concerned.
        assert (await each.at(ONE).ask(asked)).status == 202
        assert (await each.at(OTHER).ask(request("GET", TASKS, b"", **bearer(new)))).status == 200
        assert 'gnomon_requests_refused_total{limit="failures"}' in await each.metrics(
            **bearer((await make_operator(database))[1])
        )


async def test_whoever_repeats_an_old_key_keeps_no_new_one_of_the_same_address_out(
    database_dsn: str, database: Database
) -> None:
    _, new = await make_key(database)
    old = wrong_key()
    async with clients(database_dsn, auth_enabled=True) as each:
        await until_refused(each.at(ONE), request("GET", TASKS, b"", **old), 401)

        async def taken() -> bool:
            for _ in range(5):
                await each.at(ONE).ask(request("GET", TASKS, b"", **old))
            return (await each.at(ONE).ask(request("GET", TASKS, b"", **bearer(new)))).status == 200

        await eventually(taken)


async def test_an_address_has_no_more_than_its_share_of_the_requests_under_way(
    database_dsn: str,
) -> None:
    settings = {
        "api_connections": 64,
        "api_body_seconds": 600.0,
    }  # 32 under way, and 8 of one address
    async with clients(database_dsn, **settings) as each:
        streams = await each.at(ONE).open(12, head("POST", TASKS, 100) + b"{")
        answers = [asyncio.ensure_future(read(stream[0])) for stream in streams]

        async def refused() -> list[Answer] | None:
            done = [answer.result() for answer in answers if answer.done()]
            return done if len(done) == 12 - 8 else None

        for answer in await eventually(refused):
            assert answer.status == 429
            assert "in progress" in str(problem(answer)["detail"])
        asked = request("POST", TASKS, SUBMISSION)
        assert (await each.at(OTHER).ask(asked)).status == 202
        for each_answer in answers:
            each_answer.cancel()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/nowhere", 404), ("PUT", TASKS, 405), ("DELETE", f"{TASKS}/x", 404)],
)
async def test_whoever_sends_a_large_body_to_the_wrong_place_is_told_so(
    database_dsn: str, method: str, path: str, status: int
) -> None:
    async with clients(database_dsn) as each:
        sent = request(method, path, b" " * (16 * MIB))
        answered = await asyncio.to_thread(_sent_and_then_read, each.url, sent)
        assert answered.startswith(f"HTTP/1.1 {status} ".encode())


def _sent_and_then_read(url: str, sent: bytes, source: str = OTHER) -> bytes:
    """As most clients do it: they look for no answer before all is sent."""
    parts = urlsplit(url)
    address = str(parts.hostname), parts.port or 0
    with socket.create_connection(address, timeout=60.0, source_address=(source, 0)) as client:
        client.sendall(sent)
        return client.recv(4096)


async def test_a_large_body_beyond_a_limit_is_told_so(database_dsn: str) -> None:
    async with clients(database_dsn, **SLOW) as each:
        await until_refused(each.at(ONE), request("GET", TASKS), 200)

        async def refused() -> bool:
            sent = request("POST", "/nowhere", b" " * (16 * MIB))
            answered = await asyncio.to_thread(_sent_and_then_read, each.url, sent, ONE)
            assert answered.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 429 "))
            return b"429" in answered[:20]

        await eventually(refused)


async def test_all_who_look_at_readiness_share_one_question(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer_now, fetchrow = 0, asyncio.Event(), Database.fetchrow

    async def counted(self: Database, name: str, *args: object) -> object:
        nonlocal asked
        if name == "ping":
            asked += 1
            await answer_now.wait()
        return await fetchrow(self, name, *args)

    monkeypatch.setattr(Database, "fetchrow", counted)
    async with clients(database_dsn) as each:
        streams = await each.at(ONE).open(50, request("GET", "/readyz"))
        # They would take every connection that work needs.
        assert (await each.at(OTHER).ask(request("POST", TASKS, SUBMISSION))).status == 202
        answer_now.set()
        assert {(await read(stream[0])).status for stream in streams} == {200}
        assert asked < 10
        assert (await each.at(ONE).ask(request("GET", "/readyz"))).status == 200


async def test_what_one_look_at_readiness_finds_is_told_to_all_who_share_it(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, asked, fetchrow = True, 0, Database.fetchrow

    async def failing(self: Database, name: str, *args: object) -> object:
        nonlocal asked
        if name == "ping" and broken:
            asked += 1
            await asyncio.sleep(0.3)
            raise StoreUnavailable("gone")
        return await fetchrow(self, name, *args)

    monkeypatch.setattr(Database, "fetchrow", failing)
    async with clients(database_dsn) as each:
        streams = await each.at(ONE).open(50, request("GET", "/readyz"))
        assert {(await read(stream[0])).status for stream in streams} == {503}
        assert asked < 10
        broken = False
        assert (await each.at(ONE).ask(request("GET", "/readyz"))).status == 200
