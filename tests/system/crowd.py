"""Clients that misbehave, many at once, and a good one that must not notice them."""

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

ANSWER_SECONDS = 30.0  # for an answer that takes milliseconds: the machine may be busy
SUBMISSION = msgspec.json.encode(
    {"task_type": "t", "callback_url": "https://example.com/", "delay_seconds": 3600}
)
_SPARE_FILES = 500  # of the test process, besides its connections
_OPENED_AT_ONCE = 200


class Answer(NamedTuple):
    """An answer, read from a socket."""

    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def files(needed: int) -> Iterator[None]:
    """Let this process open so many files. Where it may not, the test says nothing: a failure
    where tests must run (CI), skipped elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed + _SPARE_FILES:
        reason = f"needs {needed + _SPARE_FILES} open files, the hard limit is {hard} (ulimit -Hn)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed + _SPARE_FILES), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def soft_file_limit(files: int) -> Iterator[None]:
    """What is started meanwhile starts with that limit, as most systems set it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def head(method: str, path: str, size: int = 0, **headers: str) -> bytes:
    """The head of a request, which announces a body of so many bytes."""
    given = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(size)}
    given |= headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request as it is sent."""
    return head(method, path, len(body), **headers) + body


async def read(reader: asyncio.StreamReader) -> Answer:
    """The next answer of a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(head[0].split()[1]), headers, body)


class Crowd:
    """Connections to one address, from one. All are closed at the end."""

    def __init__(self, url: str, source: str | None = None) -> None:
        self._source = None if source is None else (source, 0)
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = parts.hostname, parts.port
        self.streams: list[Stream] = []

    async def open(self, number: int, sent: bytes = b"") -> list[Stream]:
        """So many more connections, each of which has sent that."""
        opened: list[Stream] = []
        while len(opened) < number:
            some = min(_OPENED_AT_ONCE, number - len(opened))
            opened += await asyncio.gather(*(self._one(sent) for _ in range(some)))
        return opened

    async def _one(self, sent: bytes) -> Stream:
        async with asyncio.timeout(ANSWER_SECONDS):
            stream = await asyncio.open_connection(*self._address, local_addr=self._source)
        self.streams.append(stream)
        stream[1].write(sent)
        return stream

    async def ask(self, sent: bytes) -> Answer:
        """An answer over a connection of its own."""
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(*self._address, local_addr=self._source)
            try:
                writer.write(sent)
                return await read(reader)
            finally:
                writer.transport.abort()

    def close(self) -> None:
        for _, writer in self.streams:
            writer.transport.abort()


class Watch:
    """What the good client saw."""

    def __init__(self) -> None:
        self.rounds = 0
        self.slowest = 0.0

    def saw(self, seconds: float) -> None:
        self.slowest = max(self.slowest, seconds)


@asynccontextmanager
async def watched(crowd: Crowd, **headers: str) -> AsyncIterator[Watch]:
    """A client that asks for health and submits tasks all the while, each over a new connection;
    what is not answered at once is a failure."""
    watch, stop = Watch(), asyncio.Event()
    asked = [
        (request("GET", "/healthz"), 200),
        (request("GET", "/readyz"), 200),
        (request("POST", "/api/v1/tasks", SUBMISSION, **headers), 202),
    ]

    async def ask_on() -> None:
        while not stop.is_set():
            for sent, status in asked:
                started = time.monotonic()
                answer = await crowd.ask(sent)
                assert answer.status == status, answer
                watch.saw(time.monotonic() - started)
            watch.rounds += 1
            await asyncio.sleep(0.02)  # it is a client, not a load

    async with asyncio.TaskGroup() as group:
        group.create_task(ask_on())
        yield watch
        before = watch.rounds
        while watch.rounds < before + 2:  # and now
            await asyncio.sleep(0.01)
        stop.set()


async def ended(stream: Stream) -> bytes:
    """What else a connection brings before the server closes it."""
    async with asyncio.timeout(60.0):
        try:
            return await stream[0].read()
        except ConnectionResetError:
            return b""
