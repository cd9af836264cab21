"""What is kept of an answer: its status whatever follows it, and a bounded part of its body."""

import asyncio
import gzip
import zlib

import pytest
from tests.unit.api.raw_server import PLAIN, answering, called, called_at, calling
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.node.run.targets.webhook.body import KEPT_BODY_BYTES


def coded(body: bytes, coding: str, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-encoding: {coding}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def cut(status: str, framing: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\n{framing}\r\nconnection: close\r\n\r\n".encode() + body


def bare_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


async def outcome_of(answer: bytes) -> Outcome:
    async with answering(answer) as server:
        outcome = await called_at(server)
    for text in (outcome.error, outcome.response_body):
        (text or "").encode()  # no halves of surrogates: PostgreSQL takes it
        assert "\0" not in (text or "")
    return outcome


async def test_no_coding_is_asked_for_unless_the_target_does() -> None:
    async with answering(PLAIN) as server:
        await called_at(server)
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "answer",
    [
        coded(gzip.compress(b"hello", mtime=0), "gzip"),
        coded(gzip.compress(b"hello", mtime=0), " X-GZIP "),
        coded(zlib.compress(b"hello"), "deflate"),
        coded(bare_deflate(b"hello"), "deflate"),
        coded(b"hello", "identity"),
        coded(b"hello", ""),
    ],
)
async def test_a_coding_that_was_not_asked_for_is_undone(answer: bytes) -> None:
    assert await outcome_of(answer) == Outcome(
        OutcomeKind.SUCCEEDED, response_status=200, response_body="hello"
    )


@pytest.mark.parametrize(
    ("body", "coding", "shown"),
    [
        (b"\x0b\x02\x80hello\x03", "br", "<9 bytes of br>"),
        (gzip.compress(b"x", mtime=0), "gzip, gzip", "<21 bytes of gzip, gzip>"),
        (b"this is no gzip", "gzip", "<15 bytes of gzip>"),
        (b"x" * 70_000, "zstd", "<more than 65536 bytes of zstd>"),
    ],
)
async def test_what_cannot_be_decoded_is_not_shown(body: bytes, coding: str, shown: str) -> None:
    outcome = await outcome_of(coded(body, coding))
    assert (outcome.kind, outcome.response_body) == (OutcomeKind.SUCCEEDED, shown)


async def test_a_bomb_is_inflated_only_as_far_as_it_is_kept() -> None:
    bomb = gzip.compress(bytes(10_000_000), mtime=0)
    # Only the bytes that are kept come out of it, so the rest may be broken.
    for body in (bomb, bomb[:2000] + b"\xff" * 2000):
        outcome = await outcome_of(coded(body, "gzip", "500 Oops"))
        assert outcome.response_status == 500
        assert outcome.response_body == "\N{REPLACEMENT CHARACTER}" * KEPT_BODY_BYTES


@pytest.mark.parametrize("reason", [b"D\xe9sol\xe9", b"\xff" * 300, b"", b"\xed\xb3\xa9"])
async def test_a_reason_in_any_bytes_leaves_the_status(reason: bytes) -> None:
    outcome = await outcome_of(b"HTTP/1.1 404 " + reason + b"\r\ncontent-length: 0\r\n\r\n")
    assert (outcome.response_status, outcome.retryable) == (404, False)
    assert (outcome.error or "").startswith("HTTP 404")
    assert len(outcome.error or "") < 120


@pytest.mark.parametrize(
    ("framing", "body", "kept"),
    [
        ("content-length: 20", b"hello", "hello\n<the body was cut off after 5 bytes>"),
        ("content-length: 20", b"", "<the body was cut off after 0 bytes>"),
        (
            "transfer-encoding: chunked",
            b"5\r\nhello\r\n5\r\nyo",
            "helloyo\n<the body was cut off after 7 bytes>",
        ),
        (
            "transfer-encoding: chunked\r\ncontent-encoding: gzip",
            b"a\r\n" + gzip.compress(b"hello", mtime=0)[:10] + b"\r\n",
            "<the body was cut off after 10 bytes>",
        ),
    ],
)
async def test_a_body_that_is_cut_off_leaves_the_status(
    framing: str, body: bytes, kept: str
) -> None:
    outcome = await outcome_of(cut("200 OK", framing, body))
    assert outcome == Outcome(OutcomeKind.SUCCEEDED, response_status=200, response_body=kept)
    outcome = await outcome_of(cut("503 Busy\r\nretry-after: 7", framing, body))
    assert (outcome.kind, outcome.response_status) == (OutcomeKind.FAILED, 503)
    assert (outcome.retry_after, outcome.unreachable, outcome.response_body) == (7.0, False, kept)


async def test_a_body_that_does_not_end_in_time_leaves_the_status() -> None:
    stalled = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhello"
    async with answering(stalled) as server, calling() as caller:
        trying = asyncio.create_task(called(caller, f"http://127.0.0.1:{server.port}/"))

        async def reads_the_body() -> bool:
            readers = [each._reader for each in caller._connections._open]
            return any(reader is not None and reader.status for reader in readers)

        await eventually(reads_the_body)
        trying.cancel()
        outcome = await trying
    assert (outcome.kind, outcome.response_status) == (OutcomeKind.SUCCEEDED, 200)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
    ],
)
async def test_an_answer_that_is_none_names_no_status(answer: bytes) -> None:
    outcome = await outcome_of(answer)
    assert (outcome.kind, outcome.response_status) == (OutcomeKind.FAILED, None)
    assert outcome.unreachable
    assert (outcome.error or "").startswith("the answer cannot be read: ")
    assert "400" not in (outcome.error or "")


@pytest.mark.parametrize(
    ("status", "header", "retryable", "retry_after"),
    [
        ("500 Broken", "", True, None),
        ("503 Busy", "retry-after: 7\r\n", True, 7.0),
        ("503 Busy", "retry-after: soon\r\n", True, None),
        ("429 Too Many", "retry-after: 0.5\r\n", True, 0.5),
        ("408 Late", "", True, None),
        ("302 Elsewhere", "location: /\r\n", True, None),
        ("404 Gone", "retry-after: 7\r\n", False, 7.0),
        ("400 Bad", "", False, None),
    ],
)
async def test_a_failure_says_whether_and_when_to_try_again(
    status: str, header: str, retryable: bool, retry_after: float | None
) -> None:
    answer = f"HTTP/1.1 {status}\r\n{header}content-length: 0\r\n\r\n".encode()
    outcome = await outcome_of(answer)
    assert (outcome.kind, outcome.error) == (OutcomeKind.FAILED, f"HTTP {status}")
    assert (outcome.retryable, outcome.retry_after) == (retryable, retry_after)
