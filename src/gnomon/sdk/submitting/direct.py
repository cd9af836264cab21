"""Straight to the database: the API's application in this process, without a listener.

It runs on an event loop in a thread of its own, so that synchronous code, several event loops and a
blocked one can use it alike. A process that was forked starts its own. Everything of the server is
imported by that thread: whoever submits over HTTP need not have it installed.
"""

import asyncio
import atexit
import os
import threading
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx

from gnomon.client.errors import NotConnected
from gnomon.extras import SERVER, advice
from gnomon.model.errors import GnomonError, TenantNotFound

if TYPE_CHECKING:
    from gnomon.settings import Settings

CLOSE_SECONDS = 5.0


class DirectServer:
    """The application of one process. `ready` is done once it answers, or cannot."""

    def __init__(self, settings: "Settings", tenant_id: str, source: str) -> None:
        self.ready: Future[None] = Future()
        self._settings = settings
        self._tenant_id = tenant_id
        self._source = source  # of the database's address, for errors
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._application: httpx.ASGITransport | None = None
        self._process = os.getpid()
        self._under_way: dict[asyncio.Task[Any], str] = {}  # with the methods of their requests

    @property
    def has_ended(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="gnomon", daemon=True)
        self._thread.start()
        # The thread is not waited for by the interpreter, and would be cut off.
        atexit.register(self.close)

    def send(self, request: httpx.Request) -> "Future[httpx.Response]":
        """The answer to a request. Raises httpx.ConnectError once it is being closed: what the
        loop was given after its last turn would wait for ever."""
        with self._lock:
            if self._loop is None:
                raise httpx.ConnectError("the application has ended", request=request)
            return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)

    def close(self) -> None:
        """Ends the application and its connections. It may be called again."""
        atexit.unregister(self.close)
        if self._thread is None or self._process != os.getpid():  # forked: it is the parent's
            return
        try:
            self.ready.result(CLOSE_SECONDS)
        except Exception:  # noqa: BLE001 - it has not started, and was told to whoever waits for it
            return
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            assert self._stop is not None
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for it
            atexit.unregister(self.close)
            if not self.ready.done():
                self.ready.set_exception(_explained(error, self._source))

    async def _serve(self) -> None:
        async with self._opened() as application:
            # An error of the application is a 500 here, too.
            self._application = httpx.ASGITransport(application, raise_app_exceptions=False)
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self.ready.set_result(None)
            await self._stop.wait()
            self._cancel("GET")
            if self._under_way:
                await asyncio.wait([*self._under_way], timeout=CLOSE_SECONDS / 2)
            self._cancel()

    def _cancel(self, method: str | None = None) -> None:
        for task, its_method in [*self._under_way.items()]:
            if method in (None, its_method):
                task.cancel()

    def _opened(self) -> AbstractAsyncContextManager[Any]:
        wiring = import_module("gnomon.wiring.direct")
        opened: AbstractAsyncContextManager[Any] = wiring.direct(self._settings, self._tenant_id)
        return opened

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        assert self._application is not None
        task = asyncio.current_task()
        assert task is not None
        self._under_way[task] = request.method
        try:
            response = await self._application.handle_async_request(request)
            content = await response.aread()
        finally:
            del self._under_way[task]
        return httpx.Response(response.status_code, headers=response.headers, content=content)


class DirectAccess:
    """The application of whichever process asks."""

    def __init__(self, settings: "Settings", tenant_id: str, source: str) -> None:
        self._settings = settings
        self._tenant_id = tenant_id
        self._source = source
        # By process: what a fork leaves here belongs to the parent, a lock that is held included.
        self._locks: dict[int, threading.Lock] = {}
        self._servers: dict[int, DirectServer] = {}
        self._closed: set[int] = set()

    def server(self) -> DirectServer:
        """The one of this process, which may still be starting. Raises NotConnected."""
        process = os.getpid()
        with self._lock(process):
            if process in self._closed:  # what still waits must not open it again
                raise NotConnected("the app was closed meanwhile")
            server = self._servers.get(process)
            if server is None or server.has_ended:
                server = DirectServer(self._settings, self._tenant_id, self._source)
                server.start()
                self._servers[process] = server
        return server

    def close(self) -> None:
        process = os.getpid()
        with self._lock(process):
            self._closed.add(process)
            server = self._servers.pop(process, None)
        if server is not None:
            server.close()

    def _lock(self, process: int) -> threading.Lock:
        return self._locks.setdefault(process, threading.Lock())


class DirectTransport(httpx.BaseTransport):
    """Sends requests to the application of this process, and blocks."""

    def __init__(self, access: DirectAccess) -> None:
        self._access = access

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        server = self._access.server()
        server.ready.result()
        try:
            return server.send(request).result(_seconds(request))
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time", request=request) from error
        except CancelledError as error:
            raise httpx.ReadError("the application has ended", request=request) from error


class AsyncDirectTransport(httpx.AsyncBaseTransport):
    """Sends requests to the application of this process, with asyncio."""

    def __init__(self, access: DirectAccess) -> None:
        self._access = access

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        server = self._access.server()
        await asyncio.shield(asyncio.wrap_future(server.ready))  # others wait for the same start
        answer = server.send(request)
        waiting = asyncio.wrap_future(answer)
        try:
            async with asyncio.timeout(_seconds(request)):
                # As with a server: a change that was sent is carried out, though nobody waits.
                return await (waiting if request.method == "GET" else asyncio.shield(waiting))
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time", request=request) from error
        except asyncio.CancelledError as error:
            if not answer.cancelled():
                raise
            raise httpx.ReadError("the application has ended", request=request) from error


def _seconds(request: httpx.Request) -> float | None:
    timeouts: dict[str, Any] = request.extensions.get("timeout", {})
    return timeouts.get("read")


def _explained(error: BaseException, source: str) -> BaseException:
    """Why the application cannot start, in the words of settings."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case ModuleNotFoundError() if advice(error) is not None:
            return NotConnected(
                f"{source} is set, and submitting straight to a database needs the server: "
                f"{SERVER}; or set GNOMON_URL to submit over HTTP"
            )
        case TenantNotFound():
            return NotConnected(f"{error} in the database that {source} names")
        case GnomonError() | OSError() | ValueError():
            return NotConnected(f"the database that {source} names cannot be used: {error}")
    return error
