"""The clients: `Client` for asyncio, `SyncClient` without, `DocumentClient` for plain JSON."""

import os
import random
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
)
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from gnomon.client import exchange
from gnomon.client.call import Call, ListedItems, Listing
from gnomon.client.event_stream import EventStreamReader
from gnomon.client.exchange import BATCH_SIZE, BatchedSubmission, Rules, Steps
from gnomon.client.http import ApiServer, AsyncHttp, BlockingHttp
from gnomon.client.operations import AsyncCaller, DocumentCaller, Operations, SyncCaller
from gnomon.client.progress import Progress, shown
from gnomon.client.types.tasks import TaskInfo, TaskSpec

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_SECONDS = 30.0
RETRIES = 4


class Client(Operations, AsyncCaller):
    """A client of the API for asyncio. Connections are opened as they are needed; close it, or use
    it with `async with`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        """`url` and `key` are those in GNOMON_URL and GNOMON_API_KEY (or the file that
        GNOMON_API_KEY_FILE names) where they are not given. `timeout` is the longest silence of
        the server, in seconds. `retries` is how often a request that was cut off, or refused for
        now, is sent again; the client makes Idempotency-Keys for it, so it takes effect once."""
        self._use(ApiServer(url_of(url), key_of(key), timeout), retries)

    @classmethod
    def of(cls, server: ApiServer, advice: str | None = None) -> Self:
        """A client of this server; `advice` is told where nobody answers."""
        client = cls.__new__(cls)
        client._use(server, RETRIES, advice)
        return client

    def _use(self, server: ApiServer, retries: int, advice: str | None = None) -> None:
        self.url = server.url
        self._http = AsyncHttp(server)
        self._rules = Rules(
            self.url, retries, random.random, time.monotonic, advice=advice, silence=server.timeout
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections that this event loop has opened."""
        await self._http.close()

    async def call(self, call: Call[T]) -> T:
        return await self._http.run(exchange.perform(call, self._rules))

    def listed(self, listing: Listing[T]) -> "AsyncItems[T]":
        return AsyncItems(self._http, self._rules, listing)

    def followed(self, call: Call[T]) -> AsyncGenerator[T, None]:
        return self._http.follow(EventStreamReader(call, self._rules))

    async def submit_many(
        self,
        tasks: Iterable[TaskSpec] | AsyncIterable[TaskSpec],
        *,
        batch_size: int = BATCH_SIZE,
        idempotency_key: str | None = None,
        progress: Progress = None,
    ) -> int:
        """Submits tasks from any iterable, async or not, in batches, each all or none; returns how
        many. Only one batch is in memory. `progress` is called after each; True shows a bar, where
        Rich is installed and there is a terminal. With an `idempotency_key` the same tasks can be
        submitted again after a failure: batches that were stored are not repeated."""
        with shown(progress, tasks) as report:
            many = BatchedSubmission(batch_size, idempotency_key, report, self._rules)
            with many.telling():
                async for spec in _each(tasks):
                    for batch in many.add(spec):
                        await self._http.run(many.send(batch))
                await self._http.run(many.send(many.rest()))
        return many.submitted

    async def wait(self, task_id: str | UUID, *, timeout: float | None = None) -> TaskInfo:
        """The task, once it has ended or is a dead letter. Raises WaitTimeout."""
        return await self._http.run(exchange.wait(task_id, timeout, self._rules))

    async def carry_out(self, steps: Callable[[Rules], Steps[T]]) -> T:
        """Performs several calls that depend on each other."""
        return await self._http.run(steps(self._rules))

    async def ready(self) -> bool:
        """Whether the API is ready for work."""
        return await self._http.run(exchange.ready())


class SyncClient(Operations, SyncCaller):
    """A client of the API without asyncio. Threads may share it, and it works after a fork. Close
    it, or use it with `with`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        """The arguments are those of Client."""
        self._use(ApiServer(url_of(url), key_of(key), timeout), retries)

    @classmethod
    def of(cls, server: ApiServer, advice: str | None = None) -> Self:
        """A client of this server; `advice` is told where nobody answers."""
        client = cls.__new__(cls)
        client._use(server, RETRIES, advice)
        return client

    def _use(self, server: ApiServer, retries: int, advice: str | None = None) -> None:
        self.url = server.url
        self._http = BlockingHttp(server)
        self._rules = Rules(
            self.url, retries, random.random, time.monotonic, advice=advice, silence=server.timeout
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that this process has opened."""
        self._http.close()

    def call(self, call: Call[T]) -> T:
        return self._http.run(exchange.perform(call, self._rules))

    def listed(self, listing: Listing[T]) -> "Items[T]":
        return Items(self._http, self._rules, listing)

    def followed(self, call: Call[T]) -> Iterator[T]:
        return self._http.follow(EventStreamReader(call, self._rules))

    def submit_many(
        self,
        tasks: Iterable[TaskSpec],
        *,
        batch_size: int = BATCH_SIZE,
        idempotency_key: str | None = None,
        progress: Progress = None,
    ) -> int:
        """Submits tasks from any iterable in batches: see Client.submit_many."""
        with shown(progress, tasks) as report:
            many = BatchedSubmission(batch_size, idempotency_key, report, self._rules)
            with many.telling():
                for spec in tasks:
                    for batch in many.add(spec):
                        self._http.run(many.send(batch))
                self._http.run(many.send(many.rest()))
        return many.submitted

    def wait(self, task_id: str | UUID, *, timeout: float | None = None) -> TaskInfo:
        """The task, once it has ended or is a dead letter. Raises WaitTimeout."""
        return self._http.run(exchange.wait(task_id, timeout, self._rules))

    def carry_out(self, steps: Callable[[Rules], Steps[T]]) -> T:
        """Performs several calls that depend on each other."""
        return self._http.run(steps(self._rules))

    def ready(self) -> bool:
        """Whether the API is ready for work."""
        return self._http.run(exchange.ready())


class DocumentClient(Client, DocumentCaller):
    """The same calls with plain JSON documents as bodies and answers: for the commands, which show
    what the server says, also what this version does not know."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(url, key=key, timeout=timeout, retries=retries)
        self._rules = msgspec.structs.replace(self._rules, documents=True)


class AsyncItems(Generic[T]):
    """The items of a list, for `async for`."""

    def __init__(self, http: AsyncHttp, rules: Rules, listing: Listing[T]) -> None:
        self._http = http
        self._rules = rules
        self._listing = listing

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[ListedItems[T]]:
        rest: Listing[T] | None = self._listing
        while rest is not None:
            page = await self._http.run(exchange.read_page(rest, self._rules))
            yield page
            rest = rest.after(page)


class Items(Generic[T]):
    """The items of a list, for `for`."""

    def __init__(self, http: BlockingHttp, rules: Rules, listing: Listing[T]) -> None:
        self._http = http
        self._rules = rules
        self._listing = listing

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[ListedItems[T]]:
        rest: Listing[T] | None = self._listing
        while rest is not None:
            page = self._http.run(exchange.read_page(rest, self._rules))
            yield page
            rest = rest.after(page)


async def _each(tasks: Iterable[TaskSpec] | AsyncIterable[TaskSpec]) -> AsyncIterator[TaskSpec]:
    if isinstance(tasks, AsyncIterable):
        async for task in tasks:
            yield task
    else:
        for task in tasks:
            yield task


def url_of(given: str | None) -> str:
    """The address that is given, else that in the environment. Raises ValueError."""
    if not given and os.environ.get("GNOMON_API_URL"):
        raise ValueError("in the environment: GNOMON_API_URL is now GNOMON_URL")
    url = given or os.environ.get("GNOMON_URL") or DEFAULT_URL
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        source = "" if given or url == DEFAULT_URL else "GNOMON_URL: "
        raise ValueError(f"{source}the address must be like http://127.0.0.1:8080, without a key")
    return url.rstrip("/").removesuffix("/api/v1")


def key_of(given: str | None) -> str | None:
    """The key that is given, else that in the environment."""
    if given is not None:
        return given
    file = os.environ.get("GNOMON_API_KEY_FILE")
    key = os.environ.get("GNOMON_API_KEY") or (Path(file).read_text().strip() if file else None)
    return key or None
