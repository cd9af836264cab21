"""Answers the calls of workers that come through Redis, by the application that answers HTTP.

So keys, roles, bounds and errors are the same. Redis being away is a trouble of a chore: it is
retried, and `explain`, `doctor`, events and metrics tell of it. Polls that wait are hung up, so
that nothing more is claimed for workers that cannot be reached.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Collection
from ipaddress import IPv6Address
from typing import Any
from urllib.parse import unquote

import msgspec
import structlog
from litestar.types import ASGIApp, HTTPReceiveMessage, Message, Scope

from gnomon.chores import Troubles
from gnomon.clock import Clock, new_incarnation
from gnomon.model.insight.explanation import REDIS_PIPE
from gnomon.pipe.redis.frames import (
    PipeAnswer,
    PipeCall,
    encoded,
    gateway_channel,
    is_worker_channel,
)
from gnomon.pipe.redis.link import PipeUnavailable, RedisLink
from gnomon.settings import PipeSettings

log = structlog.get_logger("gnomon.api")

_REMEDY = "see to Redis; its workers are given nothing until it answers, and connect by themselves"
_LONGEST_PAUSE = 1.0
# Of a worker, and of what it makes known of its app.
_PATHS = ("/api/v1/worker-sessions", "/api/v1/task-types", "/api/v1/workflows", "/api/v1/cron-jobs")
_ANSWERED = frozenset((b"content-type", b"retry-after"))
_PRIVATE = 0xFD << 120  # fd00::/8, addresses of nobody's
_read = msgspec.msgpack.Decoder(PipeCall).decode


class RedisListener:
    """The end of the pipe in an API process: the `LinkEnd` of a gateway."""

    is_gateway = True

    def __init__(
        self,
        app: ASGIApp,
        settings: PipeSettings,
        clock: Clock,
        troubles: Troubles,
        on_change: Callable[[bool], None],
    ) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._troubles = troubles
        self._on_change = on_change  # told whether Redis can be reached
        self._calls: dict[str, set[_CallUnderWay]] = {}  # by the channel of their answers
        self._begin: Callable[[PipeCall], None] = _nobody

    async def run(self) -> None:
        """Answer calls, through one connection after the other."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._serve(group)
                except PipeUnavailable as error:
                    self._on_change(False)
                    pause = self._troubles.note(REDIS_PIPE, error, remedy=_REMEDY)
                    await self._clock.sleep(min(pause, _LONGEST_PAUSE))

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        """One connection, to its end. Raises PipeUnavailable."""
        channel = gateway_channel(self._settings.namespace, str(new_incarnation()))
        link = RedisLink(self._settings, channel, self._clock, self)

        def answer(call: PipeCall) -> None:
            group.create_task(self._answer(link, call))

        self._begin = answer
        try:
            await link.run()
        finally:
            self.gone(list(self._calls))

    # What the link tells

    def ready(self) -> None:
        log.info("remote workers are heard through Redis", where=self._settings.where)
        self._troubles.over(REDIS_PIPE)
        self._on_change(True)

    def hear(self, frame: bytes) -> None:
        try:
            call = _read(frame)
        except msgspec.MsgspecError:
            return  # of nobody who waits for an answer
        if is_worker_channel(self._settings.namespace, call.answer_to):
            self._begin(call)

    def beaten(self, gateway: str) -> None:
        """Others are well."""

    def watched(self) -> Collection[str]:
        return self._calls.keys()

    def gone(self, channels: Collection[str]) -> None:
        """Hang up: their workers wait no more."""
        for channel in channels:
            for call in self._calls.get(channel, ()):
                call.closed.set()

    async def _answer(self, link: RedisLink, call: PipeCall) -> None:
        under_way = _CallUnderWay(call)
        calls = self._calls.setdefault(call.answer_to, set())
        calls.add(under_way)
        try:
            answer = await under_way.answered(self._app)
        except Exception:  # as the HTTP server does
            log.exception("a call through Redis failed")
            answer = PipeAnswer(call.number, 500, {}, b"")
        finally:
            calls.discard(under_way)
            if not calls:
                self._calls.pop(call.answer_to, None)
        with contextlib.suppress(
            PipeUnavailable
        ):  # the link ends by the same; its worker asks again
            await link.publish(call.answer_to, encoded(answer))


class _CallUnderWay:
    """A call as a request of ASGI."""

    def __init__(self, call: PipeCall) -> None:
        self._call = call
        self.closed = asyncio.Event()  # its worker has gone
        self._asked = False
        self._status = 500
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    async def answered(self, app: ASGIApp) -> PipeAnswer:
        path, _, query = self._call.path.partition("?")
        if not any(path == each or path.startswith(f"{each}/") for each in _PATHS):
            return PipeAnswer(self._call.number, 404, {}, b"")
        await app(self._scope(path, query), self._receive, self._send)
        return PipeAnswer(self._call.number, self._status, self._headers, bytes(self._body))

    def _scope(self, path: str, query: str) -> Scope:
        call = self._call
        headers = [
            (n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in call.headers.items()
        ]
        headers += [(b"host", b"localhost"), (b"content-length", str(len(call.body)).encode())]
        scope: Any = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": call.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": headers,
            "client": (_address(call.answer_to), call.number),
            "server": ("localhost", 80),
            "extensions": {},
        }
        return scope  # type: ignore[no-any-return]

    async def _receive(self) -> HTTPReceiveMessage:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._call.body, "more_body": False}
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                n.decode("latin-1"): v.decode("latin-1")
                for n, v in message["headers"]
                if n.lower() in _ANSWERED
            }
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")


def _nobody(_call: PipeCall) -> None:
    """There is no connection."""


def _address(channel: str) -> str:
    """Limits are counted by address: each connection through Redis has one of its own."""
    made = int.from_bytes(hashlib.blake2b(channel.encode(), digest_size=7).digest(), "big")
    return str(IPv6Address(_PRIVATE | made << 64))
