"""Which connections of webhooks are used again, after answers that came too early or end HTTP."""

import asyncio
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.unit.api.raw_server import PLAIN, called, calling
from tests.unit.node.webhook.misbehaving import (
    BIG,
    presented,
    receiving,
    request,
    twice,
    with_body,
)

from gnomon.model.outcomes.outcome import OutcomeKind

MIDDLING = b'"' + b"x" * 100_000 + b'"'  # what the buffers of both sides hold


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("body", [MIDDLING, BIG], ids=["middling", "big"])
@pytest.mark.parametrize("status", ["413 Too Big", "200 OK"])
async def test_no_call_follows_a_body_that_the_receiver_may_not_have_read(
    authority: Authority, tmp_path: Path, status: str, body: bytes, *, secure: bool
) -> None:
    over = asyncio.Event()

    async def serve(
        number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if number == 0:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nno".encode())
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await over.wait()
        else:
            await request(reader)
            writer.write(PLAIN)

    tls = presented(authority, tmp_path / "own", "127.0.0.1") if secure else None
    async with receiving(serve, tls=tls) as receiver, calling() as caller:
        url = receiver.url.replace("http:", "https:") if secure else receiver.url
        try:
            async with asyncio.timeout(5):
                assert (await with_body(caller, url, body)).response_body == "no"
                outcome = await called(caller, url)
        finally:
            over.set()
    assert (outcome.kind, outcome.response_body) == (OutcomeKind.SUCCEEDED, "ok")
    assert receiver.connections == 2


@pytest.mark.parametrize("headers", [b"", b"connection: upgrade\r\nupgrade: x\r\n"])
async def test_after_101_a_connection_is_not_used_again(headers: bytes) -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            writer.write(b"HTTP/1.1 101 Switching\r\n" + headers + b"\r\n")

    outcomes, connections = await twice(serve)
    assert {each.response_status for each in outcomes} == {101}
    assert connections == 2
