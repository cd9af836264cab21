"""How an app submits while its clock is virtual: to the API in this process, on the same database.

Every request goes through the API's own application, as it does where DATABASE_URL is set; it runs
in a thread, so that synchronous handlers can submit. Its clock tells the virtual time.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
import msgspec

from gnomon.access.principal import TENANT_ROLES, Principal
from gnomon.client.client import Client, SyncClient
from gnomon.client.exchange import ENDED_RUNS
from gnomon.client.http import ApiServer
from gnomon.client.types.batches import BatchInfo
from gnomon.client.types.tasks import TaskInfo
from gnomon.client.types.workflows import WorkflowRunInfo
from gnomon.clock import SystemClock
from gnomon.sdk.executing.context import current
from gnomon.sdk.submitting.connect import DIRECT_URL, Link
from gnomon.sdk.submitting.direct import (
    AsyncDirectTransport,
    DirectAccess,
    DirectServer,
    DirectTransport,
)
from gnomon.settings import Settings
from gnomon.testing.errors import NothingRuns, NotInThisMode
from gnomon.testing.records import RecordedTask, recorded
from gnomon.testing.virtual_clock import VirtualClock
from gnomon.wiring.api import direct_api

_SECONDS = 60.0
_TASKS = "/api/v1/tasks"
_BATCHES = "/api/v1/batches/"
_OVER = ("COMPLETED", "SKIPPED", "CANCELLED")

Record = Callable[[RecordedTask], None]
Drain = Callable[[], Awaitable[None]]


class ApiClock(SystemClock):
    """Tells the virtual time to an API whose own chores go by the real one."""

    def __init__(self, virtual: VirtualClock) -> None:
        super().__init__()
        self._virtual = virtual

    def now(self) -> datetime:
        return self._virtual.now()

    def seconds(self) -> float:
        return self._virtual.seconds()

    def observe(self, database_now: datetime, asked_at: float) -> None:
        """Nothing to correct: the database's clock is held at the same moment."""


class VirtualServer(DirectServer):
    """The application in its thread."""

    def __init__(self, settings: Settings, tenant_id: str, clock: VirtualClock) -> None:
        super().__init__(settings, tenant_id, "the test's database")
        self._dsn = settings.database.url or ""
        self._clock = clock
        self._by = Principal(tenant_id=tenant_id, name=None, roles=TENANT_ROLES)

    def _opened(self) -> AbstractAsyncContextManager[Any]:
        return direct_api(self._settings, self._dsn, ApiClock(self._clock), self._by)


class VirtualAccess(DirectAccess):
    """Always the same application, which the test has started: it is one process."""

    def __init__(self, settings: Settings, tenant_id: str, server: VirtualServer) -> None:
        super().__init__(settings, tenant_id, "the test's database")
        self._server = server

    def server(self) -> DirectServer:
        return self._server

    def close(self) -> None:
        self._server.close()


def virtual_link(
    access: VirtualAccess, record: Record, drain: Callable[[], Awaitable[None]]
) -> Link:
    """What the app submits by. Whoever waits for a result turns the crank."""
    blocking = VirtualTransport(DirectTransport(access), record)
    awaiting = AsyncVirtualTransport(AsyncDirectTransport(access), record, drain)
    server = ApiServer(DIRECT_URL, None, _SECONDS, blocking, awaiting)
    return Link(server, direct=access, run_waits=VirtualRunWaits(access, drain))


class VirtualRunWaits:
    """Drains before the end of a workflow run is waited for. Raises NothingRuns where it has not
    ended then."""

    def __init__(self, access: VirtualAccess, drain: Drain) -> None:
        awaiting, blocking = AsyncDirectTransport(access), DirectTransport(access)
        self._server = ApiServer(DIRECT_URL, None, _SECONDS, blocking, awaiting)
        self._drain = drain

    async def before(self, run_id: UUID) -> None:
        # A handler that waits for a run is one of those that the crank waits for.
        if current.get() is None:
            await self._drain()
            async with Client.of(self._server, None) as client:
                check_run(await client.get_workflow_run(run_id))

    def before_sync(self, run_id: UUID) -> None:
        if current.get() is None:
            with SyncClient.of(self._server, None) as client:
                check_run(client.get_workflow_run(run_id))


def check_run(run: WorkflowRunInfo) -> None:
    """Raises NothingRuns where a run goes on although all that is due was done."""
    if run.status in ENDED_RUNS:
        return
    waits = ", ".join(each.node for each in run.nodes if each.status not in _OVER)
    raise NothingRuns(
        f"workflow run {run.run_id} is {run.status} and nothing of it runs at this moment; not "
        f"ended: {waits}. Advance the clock, send the signal that it waits for, and see that "
        "each task type has a handler"
    )


class AsyncVirtualTransport(httpx.AsyncBaseTransport):
    """Records what is submitted, and drains before a result is waited for."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        record: Record,
        drain: Drain,
    ) -> None:
        self._inner = inner
        self._record = record
        self._drain = drain

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # A handler that waits for another is one of those that the crank waits for.
        if _waits(request) and current.get() is None:
            await self._drain()
            request = httpx.Request("GET", request.url.copy_remove_param("wait"))
            response = await self._inner.handle_async_request(request)
            check_ended(request.url.path, await response.aread())
            return response
        response = await self._inner.handle_async_request(request)
        _record_all(request, response, self._record)
        return response


class VirtualTransport(httpx.BaseTransport):
    """The same for synchronous code, which cannot turn the crank."""

    def __init__(self, inner: httpx.BaseTransport, record: Record) -> None:
        self._inner = inner
        self._record = record

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if _waits(request) and current.get() is None:
            raise NotInThisMode(
                "result_sync() would wait for ever: nothing runs while it blocks; await g.drain() "
                "or g.advance() first, or await handle.result()"
            )
        response = self._inner.handle_request(request)
        _record_all(request, response, self._record)
        return response


def check_ended(path: str, content: bytes) -> None:
    """Raises NothingRuns where a task or batch has not ended although all that is due was done."""
    if path.startswith(_BATCHES):
        _check_batch(msgspec.json.decode(content, type=BatchInfo))
        return
    task = msgspec.json.decode(content, type=TaskInfo)
    if task.status.has_ended:
        return
    due = task.next_retry_at or task.execute_at
    raise NothingRuns(
        f"task {task.task_id} ({task.task_type}) is {task.status} and nothing runs it at this "
        f"moment: it is due at {due.isoformat()}; advance the clock, and see that its task type "
        "has a handler"
    )


def _check_batch(batch: BatchInfo) -> None:
    if batch.finished_at is None:
        raise NothingRuns(
            f"batch {batch.batch_id} is {batch.status}, and {batch.progress.pending} of its tasks "
            "have not ended: close it, advance the clock, and see that each task type has a handler"
        )


def _waits(request: httpx.Request) -> bool:
    return request.method == "GET" and "wait" in request.url.params


def _record_all(request: httpx.Request, response: httpx.Response, record: Record) -> None:
    if request.method != "POST" or response.status_code != 202:
        return
    path = request.url.path
    if path == _TASKS:
        told = [msgspec.json.decode(response.content)]
        specs = [msgspec.json.decode(request.content)]
    elif path == f"{_TASKS}/batch":
        told = msgspec.json.decode(response.content)["tasks"]
        specs = msgspec.json.decode(request.content)["tasks"]
    else:
        return
    for answer, spec in zip(told, specs, strict=True):
        record(recorded(UUID(answer["task_id"]), spec))
