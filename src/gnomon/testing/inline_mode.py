"""Handlers run at once, where they are submitted: no server, no database, no waiting.

The app submits by a transport that is answered right here. Arguments and results pass through JSON
as they do on their way to a worker and back; dependencies, middleware and the lifespan are those of
the app. One execution is all that a task has: what comes later is for `virtual_gnomon`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import httpx

from gnomon.client.http import ApiServer
from gnomon.sdk.app import Gnomon
from gnomon.sdk.submitting.connect import Link
from gnomon.testing.inline_api import InlineApi, Mode
from gnomon.testing.records import Records

T = TypeVar("T")

_URL = "http://inline"
_SECONDS = 3600.0  # a handler may stop at a breakpoint

# The loop that a handler runs on while the loop of the test is blocked by its submission.
_blocked_for: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "gnomon_blocked_for", default=None
)


class InlineGnomon(Records):
    """An app whose tasks run where they are submitted, or are only recorded."""

    def __init__(self, app: Gnomon, mode: Mode) -> None:
        super().__init__()
        self.app = app
        self.api = InlineApi(app, mode, self.submitted.append)

    def outcome(self, task: Any) -> BaseException | None:
        """What the handler of a task raised, by its handle or record; None where it returned."""
        return self.api.executed(getattr(task, "task_id", None) or task.id).error


@asynccontextmanager
async def inline(app: Gnomon, *, raises: bool = True) -> AsyncIterator[InlineGnomon]:
    """Within this block a submission runs its handler and then returns. Whatever the handler
    raises, `Snooze`, `Retry` and `Reject` among it, the submission raises; with `raises=False` it
    is kept: `g.outcome(handle)` has it, and `handle.result()` raises TaskFailed."""
    testing = InlineGnomon(app, Mode.RAISE if raises else Mode.KEEP)
    # Before the lifespan, which may submit as well.
    with _submitting(testing, asyncio.get_running_loop()):
        async with app.running():
            yield testing


@contextmanager
def inline_sync(app: Gnomon, *, raises: bool = True) -> Iterator[InlineGnomon]:
    """As `inline`, for synchronous tests that use `submit_sync`. Handlers run on an event loop in a
    thread."""
    testing = InlineGnomon(app, Mode.RAISE if raises else Mode.KEEP)
    with _loop_in_thread() as loop, _submitting(testing, loop), _entered(app, loop):
        yield testing


@contextmanager
def recording(app: Gnomon) -> Iterator[InlineGnomon]:
    """Within this block submissions are recorded, and nothing runs."""
    testing = InlineGnomon(app, Mode.RECORD)
    with _submitting(testing, None):
        yield testing


@contextmanager
def _submitting(testing: InlineGnomon, loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    api = testing.api
    link = Link(
        ApiServer(_URL, None, _SECONDS, InlineTransport(api, loop), AsyncInlineTransport(api))
    )
    with testing.app.linked(link):
        yield


class AsyncInlineTransport(httpx.AsyncBaseTransport):
    """Answers requests of the asynchronous client on the loop that makes them."""

    def __init__(self, api: InlineApi) -> None:
        self._api = api

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._api.answer(request)


class InlineTransport(httpx.BaseTransport):
    """Answers requests of the synchronous client: on the loop of the test or, where that is the
    one that blocks, on one of its own."""

    def __init__(self, api: InlineApi, loop: asyncio.AbstractEventLoop | None) -> None:
        self._api = api
        self._loop = loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        loop = _blocked_for.get() or self._loop
        if loop is not None and not _runs_here(loop):
            return asyncio.run_coroutine_threadsafe(self._api.answer(request), loop).result()
        return _in_new_thread(lambda: asyncio.run(self._answer(request)))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        _blocked_for.set(asyncio.get_running_loop())
        return await self._api.answer(request)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _in_new_thread(work: Callable[[], T]) -> T:
    """The result of work that cannot be done in this thread, whose loop is busy with the caller."""
    done: list[T] = []
    failed: list[BaseException] = []
    context = copy_context()

    def run() -> None:
        try:
            done.append(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again, where it belongs
            failed.append(error)

    thread = threading.Thread(target=run, name="gnomon-inline")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gnomon-inline", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        _on(loop, loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def _entered(app: Gnomon, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """The lifespan of the app, on a loop elsewhere: one task enters and leaves it."""
    entered, leave = threading.Event(), asyncio.Event()

    async def live() -> None:
        async with app.running():
            entered.set()
            await leave.wait()

    living = asyncio.run_coroutine_threadsafe(live(), loop)
    living.add_done_callback(lambda _: entered.set())
    entered.wait()
    if living.done():
        living.result()  # raises why it could not be entered
    try:
        yield
    finally:
        loop.call_soon_threadsafe(leave.set)
        living.result()


def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()
