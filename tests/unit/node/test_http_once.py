"""One try is one request: nothing below the fence sends it again."""

import asyncio

import pytest
from tests.unit.api.raw_server import PLAIN, RawRequest, called, calling, serving

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.task import DeliveryMode

METHODS = ["POST", "PUT", "PATCH", "GET", "DELETE"]


@pytest.mark.parametrize("mode", list(DeliveryMode))
@pytest.mark.parametrize("method", METHODS)
async def test_a_kept_connection_that_drops_after_the_request_was_read(
    method: str, mode: DeliveryMode
) -> None:
    async def respond(request: RawRequest) -> bytes | None:
        return PLAIN if request.on_connection == 0 else None

    async with serving(respond) as server, calling() as caller:
        url = f"http://127.0.0.1:{server.port}/"
        first = await called(caller, url, method, mode=mode)
        second = await called(caller, url, method, mode=mode)
    assert first.kind is OutcomeKind.SUCCEEDED
    assert second.kind is OutcomeKind.FAILED
    assert second.unreachable
    assert "Disconnected" in (second.error or "")
    assert [r.on_connection for r in server.requests] == [0, 1]


@pytest.mark.parametrize("method", METHODS)
async def test_a_kept_connection_that_is_reset(method: str) -> None:
    begun = asyncio.Event()

    async def respond(request: RawRequest) -> bytes | None:
        if request.on_connection == 0:
            return PLAIN
        begun.set()
        raise ConnectionResetError

    async with serving(respond) as server, calling() as caller:
        url = f"http://127.0.0.1:{server.port}/"
        await called(caller, url, method)
        outcome = await called(caller, url, method)
    assert outcome.kind is OutcomeKind.FAILED
    assert begun.is_set()
    assert len(server.requests) == 2


@pytest.mark.parametrize("method", METHODS)
async def test_a_fresh_connection_that_drops(method: str) -> None:
    async def respond(_: RawRequest) -> None:
        return None

    async with serving(respond) as server, calling() as caller:
        outcome = await called(caller, f"http://127.0.0.1:{server.port}/", method)
    assert outcome.unreachable
    assert len(server.requests) == 1


async def test_a_connection_that_was_closed_between_two_calls_is_not_used() -> None:
    """Nothing was sent on it, so the call is made on another."""
    closing = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"

    async def respond(_: RawRequest) -> bytes:
        return closing

    async with serving(respond) as server, calling() as caller:
        url = f"http://127.0.0.1:{server.port}/"
        for _ in range(3):
            assert (await called(caller, url, "PUT")).kind is OutcomeKind.SUCCEEDED
    assert len(server.requests) == server.connections == 3
