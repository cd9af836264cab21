"""The two ways to carry out an exchange: with asyncio, and without. Both send by httpx.

Connections are opened at the first request, by the process and the event loop that make it. After
a fork, or in another event loop, there are new ones: a connection is never shared.
"""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Iterator
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import httpx
import msgspec

from gnomon.client.event_stream import SILENCE_SECONDS, EventStreamReader
from gnomon.client.exchange import NoReply, Pause, Reply, Sending, Steps
from gnomon.client.trace_headers import trace_headers
from gnomon.version import VERSION

T = TypeVar("T")

# What httpx lets through, under uvloop, of a connection that is reset while it is made.
BROKEN = (AttributeError, OSError)


class ApiServer(msgspec.Struct, frozen=True):
    """The address of the API, the key to send, and how long to wait for each answer. Transports
    carry requests in another way than over a socket."""

    url: str
    key: str | None
    timeout: float
    transport: httpx.BaseTransport | None = None
    async_transport: httpx.AsyncBaseTransport | None = None

    def __post_init__(self) -> None:
        key = self.key or ""
        if not (key.isascii() and key.isprintable() and " " not in key):  # httpx would show it
            raise ValueError(
                "the API key (or GNOMON_API_KEY) must be printable ASCII, no spaces or line ends"
            )

    def options(self) -> dict[str, Any]:
        """The arguments of a client of httpx."""
        headers = {"User-Agent": f"gnomon/{VERSION}", "Accept": "application/json"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return {
            "headers": headers,
            "timeout": self.timeout,
            # The system's certificates, as everywhere else in Gnomon; costly, so only if needed.
            "verify": ssl.create_default_context() if self.url.startswith("https:") else False,
            "trust_env": False,  # a proxy meant for the web would get the key
            "follow_redirects": False,
        }

    def request(self, sending: Sending) -> dict[str, Any]:
        """The arguments of a request."""
        headers = {}
        if sending.content is not None:
            headers["Content-Type"] = "application/json"
        if sending.key is not None:
            headers["Idempotency-Key"] = sending.key
        headers |= trace_headers()
        return {
            "method": sending.method,
            "url": f"{self.url}{sending.location}",
            "content": sending.content,
            "headers": headers,
        }

    def stream(self, location: str, headers: dict[str, str], silence: float) -> dict[str, Any]:
        """The arguments of a request for a stream."""
        return {
            "method": "GET",
            "url": f"{self.url}{location}",
            "headers": headers,
            "timeout": httpx.Timeout(self.timeout, read=max(silence, self.timeout)),
        }


class BlockingHttp:
    """Carries out exchanges by blocking. Threads may share it."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._sessions: dict[int, httpx.Client] = {}

    def run(self, steps: Steps[T]) -> T:
        reply: Reply | NoReply | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            match step:
                case Pause(seconds):
                    time.sleep(seconds)
                    reply = None
                case Sending():
                    reply = self._send(step)

    def follow(self, reader: EventStreamReader) -> Iterator[Any]:
        """Yields the events of a stream; connects again whenever it ends."""
        while True:
            ended: Reply | NoReply | None = None
            asked = self._server.stream(reader.location, reader.headers, SILENCE_SECONDS)
            try:
                with self._session().stream(**asked) as response:
                    if response.is_success:
                        reader.begin()
                        for line in response.iter_lines():
                            if (event := reader.event(line)) is not None:
                                yield event
                    else:
                        response.read()
                        ended = _reply(response)
            except httpx.TransportError as error:
                ended = no_reply(error)
            time.sleep(reader.pause(ended))

    def close(self) -> None:
        session = self._sessions.pop(os.getpid(), None)
        if session is not None:
            session.close()

    def _send(self, sending: Sending) -> Reply | NoReply:
        try:
            return _reply(self._session().request(**self._server.request(sending)))
        except httpx.TransportError as error:
            return no_reply(error)

    def _session(self) -> httpx.Client:
        process = os.getpid()
        if process not in self._sessions:
            # Of two threads that come here at once the first wins; nothing is open yet.
            session = httpx.Client(transport=self._server.transport, **self._server.options())
            self._sessions.setdefault(process, session)
        return self._sessions[process]


class _Session(NamedTuple):
    """The connections of an event loop, and what closes them."""

    http: httpx.AsyncClient
    keeper: AsyncGenerator[None, None]


_Sessions: TypeAlias = WeakKeyDictionary[asyncio.AbstractEventLoop, _Session]


class AsyncHttp:
    """Carries out exchanges with asyncio."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._process = os.getpid()
        self._sessions: _Sessions = WeakKeyDictionary()
        self._inherited: _Sessions | None = None

    async def run(self, steps: Steps[T]) -> T:
        reply: Reply | NoReply | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            match step:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                    reply = None
                case Sending():
                    reply = await self._send(step)

    async def follow(self, reader: EventStreamReader) -> AsyncGenerator[Any, None]:
        """Yields the events of a stream; connects again whenever it ends."""
        while True:
            ended: Reply | NoReply | None = None
            asked = self._server.stream(reader.location, reader.headers, SILENCE_SECONDS)
            try:
                async with (await self._session()).stream(**asked) as response:
                    if response.is_success:
                        reader.begin()
                        async for line in response.aiter_lines():
                            if (event := reader.event(line)) is not None:
                                yield event
                    else:
                        await response.aread()
                        ended = _reply(response)
            except httpx.TransportError as error:
                ended = no_reply(error)
            await asyncio.sleep(reader.pause(ended))

    async def close(self) -> None:
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.keeper.aclose()

    async def _send(self, sending: Sending) -> Reply | NoReply:
        try:
            session = await self._session()
            return _reply(await session.request(**self._server.request(sending)))
        except httpx.TransportError as error:
            return no_reply(error)
        except BROKEN:
            return NoReply("cut off", sent=False)

    async def _session(self) -> httpx.AsyncClient:
        if self._process != os.getpid():  # forked: these are the parent's, which closes them
            self._process, self._inherited = os.getpid(), self._sessions
            self._sessions = WeakKeyDictionary()
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            self._forget_closed_loops()
            http = httpx.AsyncClient(
                transport=self._server.async_transport, **self._server.options()
            )
            session = self._sessions[loop] = _Session(http, self._kept(http, loop))
            await anext(session.keeper)  # which waits for nothing
        return session.http

    async def _kept(
        self, http: httpx.AsyncClient, loop: asyncio.AbstractEventLoop
    ) -> AsyncGenerator[None, None]:
        """Closes the connections with their event loop, which closes its generators when it ends:
        programs that call `asyncio.run` again and again would run out of files."""
        try:
            yield
        finally:
            self._sessions.pop(loop, None)
            await http.aclose()

    def _forget_closed_loops(self) -> None:
        """Of those that ended without closing their generators. Connections hold their loop, so
        that it never goes by itself."""
        for reference in self._sessions.keyrefs():  # a copy: other threads have loops, too
            loop = reference()
            if loop is not None and loop.is_closed():
                self._sessions.pop(loop, None)


def _reply(response: httpx.Response) -> Reply:
    return Reply(
        response.status_code,
        response.reason_phrase,
        response.content,
        retry_after_of(response),
    )


def retry_after_of(response: httpx.Response) -> float | None:
    """The seconds that an answer asks to wait."""
    return _seconds(response.headers.get("Retry-After"))


def _seconds(retry_after: str | None) -> float | None:
    """A proxy may give a date in place of seconds."""
    if retry_after is None:
        return None
    try:
        if retry_after.isdigit():
            return float(retry_after)
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None


def no_reply(error: httpx.TransportError) -> NoReply:
    """Why there is no answer."""
    sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    if isinstance(error, httpx.TimeoutException):
        return NoReply("no answer in time", sent, timed_out=True)
    return NoReply(_reason(error), sent)


def _reason(error: BaseException) -> str:
    """The cause as the operating system names it, without the address, which is told anyway."""
    for each in _causes(error):
        if isinstance(each, socket.gaierror | ssl.SSLError):  # their numbers are not errno's
            return (each.strerror or str(each)).lower()
        if isinstance(each, OSError) and each.errno:
            return os.strerror(each.errno).lower()
    return str(error) or "cut off"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__
