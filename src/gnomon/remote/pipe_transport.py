"""Carries the requests of a worker to a gateway through a broker, in place of a socket.

A worker stays with one gateway for as long as that listens and serves: one that refuses for longer
than a moment, or does not answer, is left for another one, if there is any. Each worker finds out
by its own requests, so those of a gateway do not leave it all at once. The connection is made with
the first request, and again with the first one after it broke.
"""

import asyncio
import http
import math
import zlib
from collections.abc import Collection
from typing import NamedTuple

import httpx
import msgspec
import structlog

from gnomon.clock import Clock, new_secret
from gnomon.pipe.meeting.frames import (
    CARRIED_HEADERS,
    UNREADABLE,
    PipeAnswer,
    PipeCall,
    encoded,
    worker_channel,
)
from gnomon.pipe.meeting.link import PipeUnavailable, link_to, unavailable
from gnomon.remote.gateway_calls import ELSEWHERE
from gnomon.settings import PipeSettings

log = structlog.get_logger("gnomon.worker")

_MOST_GATEWAYS = 1_000  # whose beats are remembered
_HICCUP_SECONDS = 1.5  # for which a gateway may refuse all that it is asked, and keeps its workers
_DOUBT_SECONDS = 10.0  # for which one that has not served is not chosen, if there is another
_read = msgspec.msgpack.Decoder(PipeAnswer).decode


class _AwaitedAnswer(NamedTuple):
    """A request that is not answered."""

    gateway: str
    asked_at: float  # monotonic
    answer: "asyncio.Future[PipeAnswer]"


class PipeTransport(httpx.AsyncBaseTransport):
    """Transports with the same `preference` choose the same gateway."""

    def __init__(self, settings: PipeSettings, clock: Clock, preference: bytes) -> None:
        self._settings = settings
        self._clock = clock
        self._preference = preference
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        seconds = request.extensions.get("timeout", {}).get("read")
        try:
            connection = await self._connected()
            if request.extensions.get(ELSEWHERE):
                connection.avoid()
            answer = await connection.ask(request, body, seconds)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time", request=request) from error
        except PipeUnavailable as error:
            raise httpx.ConnectError(str(error), request=request) from error
        return httpx.Response(
            answer.status, headers=answer.headers, content=answer.body, request=request
        )

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> "_Connection":
        async with self._connecting:
            if self._connection is None or self._connection.ended:
                if self._connection is not None:
                    await self._connection.close()
                self._connection = _Connection(self._settings, self._clock, self._preference)
            await self._connection.established()
            return self._connection


class _Connection:
    """One connection, from its beginning to its end: the `LinkEnd` of a worker."""

    is_gateway = False
    largest_tried = True  # by gateways

    def __init__(self, settings: PipeSettings, clock: Clock, preference: bytes) -> None:
        channel = worker_channel(settings.namespace, new_secret(16).hex())
        self._clock = clock
        self._silence = settings.silence_seconds
        self._preference = preference
        self._waiting: dict[int, _AwaitedAnswer] = {}
        self._number = 0
        self._gateway: str | None = None
        self._beats: dict[str, float] = {}  # when each gateway was last heard (monotonic)
        # Until when gateways are doubted (monotonic): those that stand still, until they beat.
        self._doubtful: dict[str, float] = {}
        self._refusing: dict[str, float] = {}  # since when they have refused everything (monotonic)
        self._failure: PipeUnavailable | None = None
        self._settings = settings
        self._link = link_to(settings, channel, clock, self)
        self._ready = asyncio.Event()
        # Owned by whoever closes the transport.
        self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def ended(self) -> bool:
        return self._running.done()

    async def established(self) -> None:
        """Wait until requests can be sent. Raises PipeUnavailable."""
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure

    async def ask(self, request: httpx.Request, body: bytes, seconds: float | None) -> PipeAnswer:
        """Send a request, and wait for its answer. Raises PipeUnavailable, TimeoutError."""
        gateway = self._gateway or await self._choose()
        self._number += 1
        number = self._number
        answer: asyncio.Future[PipeAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _AwaitedAnswer(gateway, self._clock.monotonic(), answer)
        call = PipeCall(
            number=number,
            answer_to=self._link.channel,
            method=request.method,
            path=request.url.raw_path.decode("ascii"),
            headers={n: v for n, v in request.headers.items() if n in CARRIED_HEADERS},
            body=body,
        )
        try:
            async with asyncio.timeout(seconds):
                if not await self._link.publish(gateway, encoded(call)):
                    self.gone([gateway])
                found = await answer
        except TimeoutError:
            self._doubt(gateway, self._clock.monotonic() + _DOUBT_SECONDS)
            raise
        else:
            self._answered(gateway, found)
            return found
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, also where sending has failed before

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            await self._link.run()
        except PipeUnavailable as error:
            self._failure = error
        except Exception as error:
            log.exception("the connection to a broker has failed", where=self._settings.where)
            self._failure = unavailable(self._settings, error)
        finally:
            self._ready.set()
            self.gone({each.gateway for each in self._waiting.values()})

    # Gateways

    async def _choose(self) -> str:
        """The same of several for as long as they are the same, and well."""
        found = await self._link.gateways()
        if not found:
            where = f"{self._settings.place.label} at {self._settings.where}"
            raise PipeUnavailable(f"no gateway listens on {where}: is an API process running?")
        now = self._clock.monotonic()
        doubted = self._doubtful.items()
        self._doubtful = {each: until for each, until in doubted if each in found and until > now}
        # Where all are doubted, the one whose failure is longest ago.
        soonest = min(self._doubtful.get(each, now) for each in found)
        well = [each for each in found if self._doubtful.get(each, now) == soonest]
        self._gateway = max(well, key=lambda each: zlib.crc32(self._preference + each.encode()))
        return self._gateway

    def avoid(self) -> None:
        """The gateway of before has failed whoever asks next."""
        if self._gateway is not None:
            self._doubt(self._gateway, self._clock.monotonic() + _DOUBT_SECONDS)

    def _answered(self, gateway: str, answer: PipeAnswer) -> None:
        """One that cannot serve now, such as for want of PostgreSQL, is left if that lasts."""
        if answer.status != http.HTTPStatus.SERVICE_UNAVAILABLE:
            self._refusing.pop(gateway, None)
            return
        now = self._clock.monotonic()
        while len(self._refusing) >= _MOST_GATEWAYS:
            del self._refusing[next(iter(self._refusing))]
        if now >= self._refusing.setdefault(gateway, now) + _HICCUP_SECONDS:
            del self._refusing[gateway]
            self._doubt(gateway, now + _DOUBT_SECONDS)

    def _doubt(self, gateway: str, until: float) -> None:
        """Others are preferred until then."""
        self._doubtful[gateway] = max(until, self._doubtful.get(gateway, until))
        if self._gateway == gateway:
            self._gateway = None

    # What the link tells

    def ready(self) -> None:
        self._ready.set()

    def hear(self, frame: bytes) -> None:
        try:
            answer = _read(frame)
        except UNREADABLE:
            return  # whatever it is, it answers nothing
        waiting = self._waiting.get(answer.number)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(answer)

    def beaten(self, gateway: str) -> None:
        while len(self._beats) >= _MOST_GATEWAYS:
            del self._beats[next(iter(self._beats))]
        self._beats[gateway] = self._clock.monotonic()
        if self._doubtful.get(gateway) == math.inf:
            del self._doubtful[gateway]

    def watched(self) -> Collection[str]:
        """Gateways that answers are waited for from. One that stands still is given up here."""
        latest = self._clock.monotonic() - self._silence
        asked = list(self._waiting.values())
        still = {
            each.gateway
            for each in asked
            if each.asked_at < latest and self._beats.get(each.gateway, latest) <= latest
        }
        for gateway in still:
            self._doubt(gateway, math.inf)  # until it beats again
        self.gone(still)
        return {each.gateway for each in asked} - still

    def gone(self, channels: Collection[str]) -> None:
        """Whoever waits for these waits in vain. Brokers may list them for a while."""
        for channel in channels:
            self._doubt(channel, self._clock.monotonic() + _DOUBT_SECONDS)
        for waiting in self._waiting.values():
            if waiting.gateway in channels and not waiting.answer.done():
                waiting.answer.set_exception(PipeUnavailable("the gateway was cut off"))
