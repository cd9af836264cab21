"""Connections of webhooks against receivers that do what no HTTP library would."""

import asyncio
import socket
import struct
from collections.abc import Sequence

import pytest
from tests.unit.api.raw_server import PLAIN, called, calling
from tests.unit.node.webhook.misbehaving import (
    BIG,
    OK,
    calling_at_one_moment,
    receiving,
    request,
    twice,
    with_body,
)
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.http import HttpCaller
from gnomon.node.run.targets.webhook.connections import IDLE_SECONDS


async def test_an_answer_before_the_body_was_sent_counts_and_ends_the_connection() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Big\r\ncontent-length: 2\r\n\r\nno")
        await writer.drain()
        while await reader.read(1 << 16):
            pass
        raise ConnectionResetError

    async with receiving(serve) as receiver, calling() as caller:
        for _ in range(2):
            outcome = await with_body(caller, receiver.url, BIG)
            assert (outcome.response_status, outcome.response_body) == (413, "no")

        async def all_closed() -> bool:
            return receiver.closed_by_us == [0, 1]

        await eventually(all_closed)


async def test_a_large_body_arrives_whole_on_a_connection_of_its_own() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(BIG)) == BIG
            writer.write(PLAIN)

    async with receiving(serve) as receiver, calling() as caller:
        for _ in range(2):
            outcome = await with_body(caller, receiver.url, BIG)
            assert outcome.kind is OutcomeKind.SUCCEEDED
        assert receiver.connections == 2


async def test_answers_1xx_are_passed_over_and_a_connection_is_used_again() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            writer.write(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nretry-after: 9\r\n\r\n"
            )
            await writer.drain()
            writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno")

    outcomes, connections = await twice(serve)
    assert {(each.error, each.retry_after) for each in outcomes} == {("HTTP 503 Busy", None)}
    assert connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN + OK + b"content-length: 6\r\n\r\nforged",  # in one piece with the answer
        OK + b"\r\nok",  # it ends with the connection
        OK + b"content-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: y\r\n\r\ngarbage",
    ],
)
async def test_a_connection_that_nothing_may_follow_on_is_not_used_again(answer: bytes) -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer)

    outcomes, connections = await twice(serve)
    assert {each.response_body for each in outcomes} == {"ok"}
    assert connections == 2


async def test_what_comes_unasked_is_no_answer_to_the_next_request() -> None:
    forged = asyncio.Event()

    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(PLAIN)
        await forged.wait()
        writer.write(OK + b"content-length: 6\r\n\r\nforged")
        await reader.read()
        raise ConnectionResetError

    async with receiving(serve) as receiver, calling_at_one_moment() as caller:
        assert (await called(caller, receiver.url)).response_body == "ok"
        forged.set()

        async def closed() -> bool:
            return receiver.closed_by_us == [0]

        await eventually(closed)
        assert (await called(caller, receiver.url)).response_body == "ok"
        assert receiver.connections == 2


async def test_a_server_that_ends_its_side_between_two_calls_costs_no_call() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(PLAIN)
        writer.write_eof()
        await reader.read()
        raise ConnectionResetError

    async with receiving(serve) as receiver, calling_at_one_moment() as caller:
        assert (await called(caller, receiver.url)).response_body == "ok"

        async def closed() -> bool:
            return receiver.closed_by_us == [0]

        await eventually(closed)
        assert (await called(caller, receiver.url)).response_body == "ok"


async def test_a_server_that_answers_before_it_is_asked_is_heard() -> None:
    """One that has too many connections, say."""

    async def serve(_: int, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Full\r\nretry-after: 3\r\nconnection: close\r\n\r\nfull")
        writer.write_eof()
        await asyncio.sleep(0.01)

    async with receiving(serve) as receiver, calling() as caller:
        outcome = await called(caller, receiver.url)
    assert (outcome.response_status, outcome.retry_after) == (503, 3.0)
    assert outcome.response_body == "full"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", "Disconnected: "),
        (b"HTTP/1.1 200 OK\r\nfoo: bar\r\n", "Disconnected: "),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "Disconnected: "),
        (b"\0\xff\r\n\r\n", "the answer cannot be read: "),
    ],
)
async def test_without_an_answer_the_host_counts_as_unreachable(answer: bytes, error: str) -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer)

    outcomes, _ = await twice(serve)
    for outcome in outcomes:
        assert (outcome.kind, outcome.unreachable) == (OutcomeKind.FAILED, True)
        assert (outcome.error or "").startswith(error)
        assert outcome.retryable


async def test_a_reset_leaves_the_status_that_has_come() -> None:
    seen = asyncio.Event()

    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\nhello")
        await seen.wait()
        reset = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    async with receiving(serve) as receiver, calling() as caller:
        trying = asyncio.create_task(called(caller, receiver.url))

        async def status_came() -> bool:
            readers = [each._reader for each in caller._connections._open]
            return any(reader is not None and reader.status for reader in readers)

        await eventually(status_came)
        seen.set()
        outcome = await trying
    assert outcome.response_status == 503
    assert outcome.response_body == "hello\n<the body was cut off after 5 bytes>"


@pytest.mark.parametrize("body", [b"{}", BIG])
async def test_a_call_that_is_cancelled_ends_its_connection(body: bytes) -> None:
    asked = asyncio.Event()

    async def serve(_: int, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        while await reader.read(1 << 16):
            pass
        raise ConnectionResetError

    async with receiving(serve) as receiver, calling() as caller:
        trying = asyncio.create_task(with_body(caller, receiver.url, body))
        await asked.wait()
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying

        async def closed() -> bool:
            return receiver.closed_by_us == [0] and not caller._connections._open

        await eventually(closed)


async def _always(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every request on one connection."""
    while True:
        await request(reader)
        writer.write(PLAIN)


async def test_a_connection_that_was_idle_for_long_is_not_used() -> None:
    time = 0.0
    async with (
        receiving(_always) as receiver,
        HttpCaller(SystemClock(lambda: time), None, 10) as caller,
    ):
        for time, connections in (  # noqa: B007 - the clock reads it
            (0.0, 1),
            (IDLE_SECONDS, 1),
            (2 * IDLE_SECONDS + 0.1, 2),
            (2 * IDLE_SECONDS + 0.2, 2),
        ):
            await called(caller, receiver.url)
            assert receiver.connections == connections


async def test_idle_connections_are_closed_without_another_call() -> None:
    time = 0.0
    async with (
        receiving(_always) as receiver,
        HttpCaller(SystemClock(lambda: time), None, 10) as caller,
    ):
        await asyncio.gather(*(called(caller, receiver.url) for _ in range(3)))
        caller._connections._close_idle()
        assert len(caller._connections._open) == receiver.connections
        time = IDLE_SECONDS + 0.1
        caller._connections._close_idle()

        async def closed() -> bool:
            return not caller._connections._open and not caller._connections._idle

        await eventually(closed)


async def test_closing_ends_the_calls_under_way() -> None:
    asked = asyncio.Event()

    async def serve(_: int, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await request(reader)
        asked.set()
        await reader.read()
        raise ConnectionResetError

    async with receiving(serve) as receiver:
        async with calling() as caller:
            trying = asyncio.create_task(called(caller, receiver.url))
            await asked.wait()
        assert "Disconnected" in ((await trying).error or "")


async def test_a_refused_connection_names_the_host() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with calling() as caller:
            outcome = await called(caller, f"http://127.0.0.1:{port}/")
    assert outcome.unreachable
    assert (outcome.error or "").startswith(f"NotConnected: 127.0.0.1:{port}: ")
    assert "refused" in (outcome.error or "").lower() or "Connect call" in (outcome.error or "")


def names(answer: Sequence[str]) -> Resolver:
    return Resolver(SystemClock(), lambda _: [Found(socket.AF_INET, 0, each) for each in answer])


async def test_of_several_addresses_one_that_answers_is_enough() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK + b"connection: close\r\n\r\n")

    found = names(["127.0.0.2", "127.0.0.1", "127.0.0.3"])
    async with (
        receiving(serve) as receiver,
        HttpCaller(SystemClock(), None, 10, names=found) as caller,
    ):
        for _ in range(4):
            outcome = await called(caller, f"http://several.example:{receiver.port}/")
            assert outcome.kind is OutcomeKind.SUCCEEDED


async def test_an_address_of_ipv6_is_called() -> None:
    async def serve(_: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await request(reader)
        writer.write(PLAIN if b"\r\nhost: [::1]:" in head else b"")

    try:
        async with receiving(serve, "::1") as receiver, calling() as caller:
            outcome = await called(caller, f"http://[::1]:{receiver.port}/")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert outcome.kind is OutcomeKind.SUCCEEDED
