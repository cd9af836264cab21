"""The load generator: a process of its own, so that it takes no time from whom it measures.

Either each connection sends its next request when the last was answered, or, with a `rate`,
requests are sent at planned moments, whatever becomes of those before (an open loop): then the wait
for an answer counts from the planned moment, so that a server that stalls is seen to.

HTTP by hand over asyncio protocols: a request is bytes that were made before, an answer is a
status and a length. Takes a `HttpLoad` as JSON, prints a `Loaded`.
"""

import asyncio
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import uvloop

from gnomon.bench.results import percentile
from gnomon.bench.wire import whole_head

ACCEPTED = 202


class HttpLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What to submit. It ends after `requests` or after `seconds`, whichever is first."""

    port: int
    function: str = "noop"
    connections: int = 1
    tasks: int = 1  # in one request; more than one go to the batch endpoint
    requests: int | None = None
    seconds: float | None = None
    rate: float | None = None  # requests a second, planned, for `seconds`; else as answers come
    pause: float = 0.0  # mean seconds between an answer and the next request on a connection
    due_in: float | None = None  # seconds until all are due, at one instant; None: each at once
    first: int | None = None  # number the tasks from here on, in their payloads
    patience: float = 60.0  # seconds to wait for an answer; what is not answered then is refused


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Moments are seconds since the epoch."""

    accepted: int  # tasks
    refused: int  # requests
    began: float
    ended: float
    due_at: float | None  # that instant
    p50: float  # seconds from request, or the moment it was planned for, to answer
    p99: float
    moments: list[tuple[float, float]]  # sent and answered, of each numbered request


class LoadConnection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, answered: Callable[["LoadConnection", float, int], None]) -> None:
        self._answered = answered
        self._buffer = b""
        self._sent = 0.0
        self._transport: Any = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self.lost = True
        if self._sent:
            self._finish(0)

    def send(self, request: bytes, planned: float | None = None) -> None:
        self._sent = planned or time.time()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = whole_head(self._buffer)
        if head is not None:
            self._buffer = b""
            self._finish(int(head[9:12]))

    def _finish(self, status: int) -> None:
        sent, self._sent = self._sent, 0.0
        self._answered(self, sent, status)


class LoadGenerator:
    """Keeps all connections busy until it is over. One that is lost is not made again."""

    def __init__(self, load: HttpLoad) -> None:
        self._load = load
        self._due_at = None if load.due_in is None else _instant(time.time() + load.due_in)
        self._request = request_of(load, load.first, self._due_at)
        self._left = load.requests if load.requests is not None else sys.maxsize
        self._number = load.first
        self._ends_at = float("inf")
        self._open = load.connections
        self._over = asyncio.Event()
        self._refused = 0
        self._moments: list[tuple[float, float]] = []

    async def run(self) -> Loaded:
        clients = await _connected(self._load, self._answered)
        began = time.time()
        if self._load.seconds is not None:
            self._ends_at = began + self._load.seconds
        for client in clients:
            self._next(client)
        await self._ended()
        return _summary(self._load, began, self._due_at, self._refused + self._open, self._moments)

    async def _ended(self) -> None:
        """Wait until it is over, or no request is answered any more."""
        answers = -1
        while answers < len(self._moments) + self._refused:
            answers = len(self._moments) + self._refused
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._load.patience)
                return

    def _next(self, client: LoadConnection) -> None:
        if self._left <= 0 or time.time() >= self._ends_at:
            self._close_one()
            return
        if client.lost:  # while it paused
            self._refused += 1
            self._close_one()
            return
        self._left -= 1
        if self._number is None:
            client.send(self._request)
        else:
            client.send(request_of(self._load, self._number, self._due_at))
            self._number += self._load.tasks

    def _answered(self, client: LoadConnection, sent: float, status: int) -> None:
        answered = time.time()
        if status == ACCEPTED:
            self._moments.append((sent, answered))
        else:
            self._refused += 1
        if client.lost:
            self._close_one()
        elif self._load.pause:
            # Uneven, so as not to fall into step with anything periodic.
            pause = self._load.pause * random.uniform(0.5, 1.5)
            asyncio.get_running_loop().call_later(pause, self._next, client)
        else:
            self._next(client)

    def _close_one(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._over.set()


class OpenLoop:
    """Sends requests at planned moments. One that finds no free connection waits for one, and
    that counts."""

    def __init__(self, load: HttpLoad, rate: float) -> None:
        self._load = load
        self._rate = rate
        self._request = request_of(load, None, None)
        self._clients: list[LoadConnection] = []
        self._free: list[LoadConnection] = []
        self._planned: deque[float] = deque()
        self._open = 0
        self._over = asyncio.Event()
        self._refused = 0
        self._moments: list[tuple[float, float]] = []

    async def run(self) -> Loaded:
        assert self._load.seconds is not None
        self._clients = await _connected(self._load, self._answered)
        self._free = list(self._clients)
        began, count = time.time(), max(1, int(self._load.seconds * self._rate))
        self._open = count
        for number in range(count):
            moment = began + number / self._rate
            if (early := moment - time.time()) > 0:
                await asyncio.sleep(early)
            self._planned.append(moment)
            self._send()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._load.seconds + self._load.patience):
                await self._over.wait()
        return _summary(self._load, began, None, self._refused + self._open, self._moments)

    def _send(self) -> None:
        while self._planned and self._free:
            client = self._free.pop()
            if not client.lost:
                client.send(self._request, self._planned.popleft())
        if all(client.lost for client in self._clients):
            self._over.set()

    def _answered(self, client: LoadConnection, planned: float, status: int) -> None:
        if status == ACCEPTED:
            self._moments.append((planned, time.time()))
        else:
            self._refused += 1
        self._open -= 1
        if self._open == 0:
            self._over.set()
        self._free.append(client)
        self._send()


async def _connected(
    load: HttpLoad, answered: Callable[[LoadConnection, float, int], None]
) -> list[LoadConnection]:
    loop = asyncio.get_running_loop()
    made = []
    for _ in range(load.connections):
        _, client = await loop.create_connection(
            lambda: LoadConnection(answered), "127.0.0.1", load.port
        )
        made.append(client)
    return made


def _summary(
    load: HttpLoad,
    began: float,
    due_at: float | None,
    refused: int,
    moments: list[tuple[float, float]],
) -> Loaded:
    took = [answered - sent for sent, answered in moments] or [0.0]
    return Loaded(
        accepted=len(moments) * load.tasks,
        refused=refused,
        began=began,
        ended=max((answered for _, answered in moments), default=began),
        due_at=due_at,
        p50=percentile(took, 0.50),
        p99=percentile(took, 0.99),
        moments=moments if load.first is not None else [],
    )


def request_of(load: HttpLoad, first: int | None, due_at: float | None) -> bytes:
    """The bytes of one request."""
    numbers = [1 if first is None else first + i for i in range(load.tasks)]
    tasks = [_task(load.function, number, due_at) for number in numbers]
    path, body = ("/api/v1/tasks", tasks[0])
    if load.tasks > 1:
        path, body = "/api/v1/tasks/batch", {"tasks": tasks}
    content = msgspec.json.encode(body)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{load.port}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _task(function: str, number: int, due_at: float | None) -> dict[str, object]:
    task: dict[str, object] = {
        "task_type": function,
        "target": {"type": "python", "function": function},
        "payload": {"n": number},
    }
    if due_at is not None:
        task["execute_at"] = datetime.fromtimestamp(due_at, UTC)
    return task


def _instant(around: float) -> float:
    """A moment near by that is exact in microseconds, and off the second, where others are busy."""
    return math.floor(around) + 0.125


async def main(load: HttpLoad) -> Loaded:
    if load.rate is not None:
        return await OpenLoop(load, load.rate).run()
    return await LoadGenerator(load).run()


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.argv[1], type=HttpLoad)
    print(msgspec.json.encode(uvloop.run(main(asked))).decode())
