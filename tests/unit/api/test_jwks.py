"""Keys of an issuer that stops answering: good for a while, and not for ever."""

from collections.abc import AsyncIterator

import pytest
import structlog
from aiohttp import web

from gnomon.api.auth.jwks import AGAIN_SECONDS, UrlJwks
from gnomon.api.http.answers.problems import RequestError
from gnomon.clock import SystemClock

KEEP = 3600.0
KEYS = b"""{"keys": [{"kid": "one", "kty": "OKP", "crv": "Ed25519",
             "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"""


class Issuer:
    """A server that can fall silent, and the time."""

    status = 200
    asked = 0
    now = 100.0

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(body=KEYS, status=self.status)

    def time(self) -> float:
        return self.now


@pytest.fixture
async def issuer() -> AsyncIterator[tuple[Issuer, UrlJwks]]:
    issuer = Issuer()
    site = web.Application()
    site.router.add_get("/jwks", issuer.answer)
    runner = web.AppRunner(site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/jwks"
    yield issuer, UrlJwks(url, SystemClock(issuer.time), KEEP)
    await runner.cleanup()


async def test_the_last_keys_are_good_for_a_while(issuer: tuple[Issuer, UrlJwks]) -> None:
    server, jwks = issuer
    assert await jwks.find("one", "EdDSA")
    server.status = 500
    server.now += KEEP - 1
    with structlog.testing.capture_logs() as logs:
        assert await jwks.find("two", "EdDSA") is None
    assert [(line["log_level"], line["keys_stay_seconds"]) for line in logs] == [("warning", 1)]
    assert await jwks.find("one", "EdDSA")
    server.now += AGAIN_SECONDS
    for _ in range(2):
        with pytest.raises(RequestError, match="cannot be read") as refused:
            await jwks.find("one", "EdDSA")
        assert refused.value.status == 503
    assert server.asked == 3  # no more often for being wanted
    server.status = 200
    server.now += AGAIN_SECONDS
    assert await jwks.find("one", "EdDSA")
