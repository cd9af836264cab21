"""The submitting half of an app."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload
from uuid import UUID

import msgspec

from gnomon.client.exchange import BATCH_SIZE
from gnomon.client.progress import Progress, shown
from gnomon.client.types.tasks import SubmittedTask, TaskInfo, TaskSpec
from gnomon.model.duration import Duration
from gnomon.sdk.errors import InvalidArguments, InvalidOption
from gnomon.sdk.submitting import own_transaction
from gnomon.sdk.submitting.batch import BatchHandle, batch_spec
from gnomon.sdk.submitting.handle import Handle
from gnomon.sdk.submitting.prepared import Prepared

if TYPE_CHECKING:
    from gnomon.client.client import Client, SyncClient
    from gnomon.sdk.app import Gnomon
    from gnomon.sdk.declaring.handler import Handler
    from gnomon.sdk.submitting.connect import Link, RunWaits

R = TypeVar("R")


class Submitter:
    """Submits the tasks of an app. What to is decided at the first use, and again after `close`."""

    def __init__(self, url: str | None, key: str | None, tenant: str) -> None:
        self.tenant = tenant
        self._url = url
        self._key = key
        # A mapping and not an attribute: of two threads that come first, one wins. A lock could be
        # held by a thread that a fork does not copy.
        self._links: dict[str, Link] = {}
        self.now: Callable[[], datetime] = _now
        self._tested = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_sync()

    async def close(self) -> None:
        """Closes the connections that submitting has opened. The next use opens new ones."""
        link = self._links.pop("link", None)
        if link is not None:
            await link.close()

    def close_sync(self) -> None:
        """As `close`, from synchronous code: connections of event loops end with these."""
        link = self._links.pop("link", None)
        if link is not None:
            link.close_sync()

    @property
    def client(self) -> "Client":
        """The client that this app submits by, for everything else that the API can do."""
        return self._link.client

    @property
    def sync_client(self) -> "SyncClient":
        """The same without asyncio."""
        return self._link.sync_client

    @contextmanager
    def linked(self, link: "Link", now: Callable[[], datetime] | None = None) -> Iterator[None]:
        """For tests: within this block the app submits by this link, at these times, also what is
        submitted with a connection."""
        before, clock, tested = self._links.get("link"), self.now, self._tested
        self._tested = True
        self._links["link"] = link
        self.now = now or clock
        try:
            yield
        finally:
            self.now, self._tested = clock, tested
            if before is None:
                self._links.pop("link", None)
            else:
                self._links["link"] = before

    @property
    def _link(self) -> "Link":
        link = self._links.get("link")
        if link is None:
            # Here and not above: a worker that never submits has no use for an HTTP client.
            from gnomon.sdk.submitting.connect import connect

            link = self._links.setdefault("link", connect(self._url, self._key, self.tenant))
        return link

    @property
    def run_waits(self) -> "RunWaits | None":
        """For tests: what is told before the end of a workflow run is waited for."""
        return self._link.run_waits

    async def submit(self, prepared: Prepared[R]) -> Handle[R]:
        """Submits a task that was prepared."""
        if prepared.connection is not None and not self._tested:
            task_id = await own_transaction.submit(prepared, prepared.connection)
            return self.handle(task_id, prepared.handler)
        answer = await self.client.submit_task(prepared.due_spec())
        return self._submitted(prepared, answer)

    def submit_sync(self, prepared: Prepared[R]) -> Handle[R]:
        """As `submit`, from synchronous code: it blocks."""
        if prepared.connection is not None and not self._tested:
            task_id = own_transaction.submit_sync(prepared, prepared.connection)
            return self.handle(task_id, prepared.handler)
        answer = self.sync_client.submit_task(prepared.due_spec())
        return self._submitted(prepared, answer)

    async def submit_many(
        self,
        tasks: Iterable[Prepared[Any]] | AsyncIterable[Prepared[Any]],
        *,
        batch_size: int = BATCH_SIZE,
        key: str | None = None,
        progress: Progress = None,
    ) -> int:
        """Submits prepared tasks from any iterable, async or not, in batches, each stored whole or
        not at all; returns how many. Only one batch is in memory. `progress` is called with a
        BatchProgress after each; True shows a bar on a terminal. With a `key` the same tasks can
        be submitted again after a failure: batches that were stored are not repeated."""
        if isinstance(tasks, AsyncIterable):
            specs: Iterable[TaskSpec] | AsyncIterable[TaskSpec] = _async_specs(tasks, key)
        else:
            specs = _specs(tasks, key)
        with shown(progress, tasks) as report:
            return await self.client.submit_many(
                specs, batch_size=batch_size, idempotency_key=key, progress=report
            )

    def submit_many_sync(
        self,
        tasks: Iterable[Prepared[Any]],
        *,
        batch_size: int = BATCH_SIZE,
        key: str | None = None,
        progress: Progress = None,
    ) -> int:
        """As `submit_many`, from synchronous code: it blocks."""
        with shown(progress, tasks) as report:
            return self.sync_client.submit_many(
                _specs(tasks, key), batch_size=batch_size, idempotency_key=key, progress=report
            )

    def batch(
        self,
        *,
        name: str | None = None,
        on_success: Prepared[Any] | None = None,
        on_complete: Prepared[Any] | None = None,
        close_within: Duration | None = None,
    ) -> BatchHandle:
        """A batch, which a block opens and closes: `async with app.batch() as batch:`, or without
        `async`. Tasks are put in with `options(batch=batch)`. `on_success` runs when all have
        succeeded, `on_complete` when all have ended; both are what `prepare` of a handler gave.
        One that is not closed in time, within 24 hours unless it says, expires. Raises
        InvalidOption."""
        return BatchHandle(self, batch_spec(name, on_success, on_complete, close_within))

    def opened_batch(self, batch_id: str | UUID) -> BatchHandle:
        """A batch that was opened before. Raises ValueError for what is no id."""
        found = batch_id if isinstance(batch_id, UUID) else UUID(batch_id)
        return BatchHandle(self, batch_id=found)

    @overload
    def handle(self, task_id: str | UUID) -> Handle[Any]: ...
    @overload
    def handle(self, task_id: str | UUID, handler: "Handler[..., R]") -> Handle[R]: ...
    def handle(
        self, task_id: str | UUID, handler: "Handler[..., Any] | None" = None
    ) -> Handle[Any]:
        """The handle of a task that was submitted before. With its handler, the result is of the
        type that this returns; else it is plain JSON. Raises ValueError for what is no id."""
        found = task_id if isinstance(task_id, UUID) else UUID(task_id)
        decode = msgspec.json.decode if handler is None else handler.decode_result
        return Handle(cast("Gnomon", self), found, decode)

    def _submitted(self, prepared: Prepared[R], answer: TaskInfo | SubmittedTask) -> Handle[R]:
        warnings: tuple[str, ...] = getattr(answer, "warnings", ())
        return Handle(
            cast("Gnomon", self), answer.task_id, prepared.handler.decode_result, warnings
        )


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - in a program of others: real time


def _specs(tasks: Iterable[Prepared[Any]], key: str | None) -> Iterator[TaskSpec]:
    for prepared in tasks:
        yield _spec(prepared, key)


async def _async_specs(
    tasks: AsyncIterable[Prepared[Any]], key: str | None
) -> AsyncIterator[TaskSpec]:
    async for prepared in tasks:
        yield _spec(prepared, key)


def _spec(prepared: Prepared[Any], key: str | None) -> TaskSpec:
    if not isinstance(prepared, Prepared):
        if isinstance(prepared, Coroutine):
            prepared.close()
        raise InvalidArguments(
            f"submit_many takes what prepare() gives, as in send_email.prepare(user), not "
            f"{type(prepared).__name__}"
        )
    if prepared.connection is not None:
        raise InvalidOption(
            f"{prepared.handler.name}: connection= is for submit and submit_sync; submit_many "
            "sends batches that are committed one by one"
        )
    if key is not None and prepared.lifetime is not None:
        raise InvalidOption(
            "expires= must be a time where submit_many has a key=: batches that are repeated have "
            "to say the same"
        )
    return prepared.due_spec()
