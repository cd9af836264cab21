"""The calls of a gateway, over HTTP or through a broker. What it answers is bounded, and never
trusted to be right."""

import http
from typing import TypeVar
from uuid import UUID

import httpx
import msgspec

from gnomon.client.errors import ApiUnreachable
from gnomon.client.exchange import Reply, Sending, content_of
from gnomon.client.http import BROKEN, ApiServer, no_reply, retry_after_of
from gnomon.model.errors import GnomonError, LeaseLost, StoreUnavailable
from gnomon.pipe.http.messages import (
    BeatAnswer,
    Poll,
    PollAnswer,
    SessionOpened,
    SessionOpening,
)

SECRET_HEADER = "gnomon-session-secret"  # noqa: S105 - its name
LARGEST_ANSWER = 32 * 1024 * 1024  # bytes
# The extension of a request to a broker's transport: prefer another gateway than the last one. Over
# HTTP a gateway that refuses closes the connection, and the balancer decides.
ELSEWHERE = "gnomon_elsewhere"
_ROOT = "/api/v1/worker-sessions"
_ENDED = (http.HTTPStatus.GONE, http.HTTPStatus.NOT_FOUND)
_ANSWER_SECONDS = 10.0  # beyond what it was asked to wait

T = TypeVar("T")


class BadAnswer(GnomonError):
    """An answer that is too large, or not as the protocol has it."""


class GatewayCalls:
    """The calls that the event loop of a worker makes. Use as an async context manager."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._http = httpx.AsyncClient(transport=server.async_transport, **server.options())

    async def __aenter__(self) -> "GatewayCalls":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    @property
    def url(self) -> str:
        return self._server.url

    async def open(self, request: SessionOpening) -> SessionOpened:
        """Open a session. Raises ClientError and BadAnswer."""
        content = msgspec.json.encode(request)
        reply = await self._send("POST", _ROOT, content, None, _ANSWER_SECONDS)
        return _read(content_of(reply), SessionOpened)

    async def poll(self, session: SessionOpened, poll: Poll) -> PollAnswer:
        """Raises LeaseLost where the session has ended, ClientError and BadAnswer."""
        content = msgspec.json.encode(poll)
        location = f"{_ROOT}/{session.session_id}/poll"
        seconds = poll.wait_seconds + _ANSWER_SECONDS
        reply = await self._send("POST", location, content, session.secret, seconds)
        return _read(_of_session(reply), PollAnswer)

    async def leave(self, session: SessionOpened) -> None:
        """End the session. Raises ClientError."""
        location = f"{_ROOT}/{session.session_id}"
        reply = await self._send("DELETE", location, None, session.secret, _ANSWER_SECONDS)
        if reply.status not in _ENDED:
            content_of(reply)

    async def _send(
        self, method: str, location: str, content: bytes | None, secret: str | None, seconds: float
    ) -> Reply:
        asked = self._server.request(Sending(method, location, content))
        if secret is not None:
            asked["headers"][SECRET_HEADER] = secret
        try:
            async with self._http.stream(**asked, timeout=seconds) as response:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > LARGEST_ANSWER:
                        raise BadAnswer(f"the gateway's answer has over {LARGEST_ANSWER} bytes")
        except httpx.TransportError as error:
            raise ApiUnreachable(self.url, no_reply(error).reason) from error
        except httpx.HTTPError as error:  # such as content that is not encoded as it says
            raise BadAnswer(f"the gateway's answer cannot be read: {error}") from error
        except BROKEN as error:
            raise ApiUnreachable(self.url, "cut off") from error
        return _reply(response, bytes(body))


class BeatConnection:
    """`Renewal` of a session's lease, over a connection of its own: of the event loop of a thread
    that does nothing else."""

    def __init__(self, server: ApiServer, session: SessionOpened) -> None:
        self._server = server
        self._session = session
        self._http: httpx.AsyncClient | None = None

    async def renew(self, incarnation: UUID, lease: float) -> float:
        """Where a gateway does not renew it, it is asked for again at once, elsewhere if there is
        another one: a gateway may live, and have lost its way to the database."""
        try:
            return await self._beat(incarnation, lease)
        except StoreUnavailable:
            return await self._beat(incarnation, lease, elsewhere=True)

    async def _beat(self, incarnation: UUID, lease: float, *, elsewhere: bool = False) -> float:
        if self._http is None:
            options = {**self._server.options(), "timeout": lease / 4}
            self._http = httpx.AsyncClient(transport=self._server.async_transport, **options)
        asked = self._server.request(Sending("POST", f"{_ROOT}/{incarnation}/beat", b"{}"))
        asked["headers"][SECRET_HEADER] = self._session.secret
        try:
            response = await self._http.request(**asked, extensions={ELSEWHERE: elsewhere})
            answer = _read(_of_session(_reply(response, response.content)), BeatAnswer)
        except (httpx.HTTPError, *BROKEN) as error:
            raise StoreUnavailable(f"no answer to the beat: {type(error).__name__}") from error
        except LeaseLost:
            raise
        except GnomonError as error:
            raise StoreUnavailable(str(error)) from error
        return answer.lease_seconds

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()


def _reply(response: httpx.Response, body: bytes) -> Reply:
    waits = retry_after_of(response)
    return Reply(response.status_code, response.reason_phrase, body, waits)


def _of_session(reply: Reply) -> bytes:
    """The content of an answer to a call of a session."""
    if reply.status in _ENDED:
        raise LeaseLost("the gateway has ended the session of this worker")
    return content_of(reply)


def _read(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadAnswer(f"the gateway's answer is not as this version expects: {error}") from error
