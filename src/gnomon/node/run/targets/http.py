"""Webhooks: one pooled HTTP call an execution, signed after the Standard Webhooks specification."""

import errno
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.connector import AddrInfoType

from gnomon.access.addresses import AddressGuard
from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import HttpTarget, Target
from gnomon.model.tasks.retry import parse_retry_after
from gnomon.model.tasks.task import DeliveryMode
from gnomon.model.text import storable
from gnomon.node.run.resolver import Resolver
from gnomon.node.run.targets import Place
from gnomon.node.run.targets.answers import body_of, reason_of
from gnomon.node.run.targets.headers import NEVER_AGAIN, request_id, snooze_in, task_headers
from gnomon.node.run.targets.signing import Signatory, Unsigned, request_body
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.version import VERSION

GuardOf = Callable[[str], AddressGuard | None]  # of a tenant; None: it may call every address

_USER_AGENT = f"gnomon/{VERSION}"
# 4xx that are about the moment and not about the request.
_TOO_EARLY = 425
_RETRYABLE = frozenset({408, 409, _TOO_EARLY, 429})
# This machine has no more of something: no word about the host that was to be called.
_SHORT_OF = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
)
# Many servers drop a connection that was idle for 5 s. What is sent at that moment is lost, and
# must not be sent again: so such a connection is not used any more.
_IDLE_SECONDS = 4.0


class AddressRefused(OSError):
    """The target has an address that must not be called. All of them say the same, so that this
    is what comes of a host that has several."""

    def __str__(self) -> str:
        return "its address is not public, and not in targets.allow: it is not called"


class _Broken(aiohttp.ClientError):
    """A request that broke off: its cause says how. One execution is one request, but aiohttp sends
    PUT, DELETE and GET again by itself when it sees some of these causes."""


async def _once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise  # nothing was sent, nor is it sent again
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, ValueError) as error:
        raise _Broken from error


def _socket(guard: AddressGuard | None, info: AddrInfoType) -> socket.socket:
    """A socket for the very address that it is going to be connected to: whatever a name was
    looked up as before does not matter."""
    family, kind, protocol, _, address = info
    if guard is not None and guard.refuses(str(address[0])):
        raise AddressRefused
    return socket.socket(family, kind, protocol)


def _unguarded(_tenant_id: str) -> AddressGuard | None:
    return None


class HttpCaller:
    """`Caller` for `http` targets. Use as a context manager: it owns the connections."""

    def __init__(
        self,
        clock: Clock,
        signatory: Signatory | None,
        connections_per_host: int,
        guard_of: GuardOf = _unguarded,
        names: Resolver | None = None,
    ) -> None:
        self._clock = clock
        self._signatory = signatory  # None: nothing is signed
        self._per_host = connections_per_host
        self._guard_of = guard_of
        self._names = names or Resolver(clock)
        # By guard: a connection that one tenant may have must not serve another that may not.
        self._sessions: dict[AddressGuard | None, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> "HttpCaller":
        return self

    def _session(self, tenant_id: str) -> aiohttp.ClientSession:
        guard = self._guard_of(tenant_id)
        session = self._sessions.get(guard)
        if session is None:
            session = self._sessions[guard] = self._opened(guard)
        return session

    def _opened(self, guard: AddressGuard | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # who is called has a place: nobody waits here
                keepalive_timeout=_IDLE_SECONDS,
                resolver=self._names,
                use_dns_cache=False,  # they are kept there
                socket_factory=partial(_socket, guard),
            ),
            timeout=aiohttp.ClientTimeout(total=None),  # the runner keeps the time
            auto_decompress=False,  # a small answer must not grow in our memory
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=16 * 1024,
            max_field_size=16 * 1024,
            middlewares=(_once,),
        )

    async def __aexit__(self, *_: Any) -> None:
        for session in self._sessions.values():
            await session.close()
        await self._names.close()

    @property
    def least_room(self) -> float:
        return self._per_host

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, HttpTarget)
        return Place(target.host, self._per_host)

    def ready(self, delivery: Delivery) -> Awaitable[None] | None:
        tenant_id = delivery.key.tenant_id
        if self._signatory is not None and not self._signatory.knows(tenant_id):
            return self._learn(self._signatory, delivery)
        return self._look_up(delivery)

    async def _learn(self, signatory: Signatory, delivery: Delivery) -> None:
        await signatory.learn(delivery.key.tenant_id)
        if (named := self._look_up(delivery)) is not None:
            await named

    def _look_up(self, delivery: Delivery) -> Awaitable[None] | None:
        assert isinstance(delivery.target, HttpTarget)
        name = name_in(delivery.target.url)
        return None if name is None else self._names.ready(name, delivery.key.tenant_id)

    async def call(self, delivery: Delivery, payload: bytes | None, _: TaskContext) -> Outcome:
        assert isinstance(delivery.target, HttpTarget)
        target, body = delivery.target, request_body(delivery.target.method, payload)
        try:
            target.check()  # it may be older than the rules
            headers = self._headers(delivery, target, body)
        except ValueError as error:
            return _not_called(f"it cannot be called: {error}", retryable=False)
        except Unsigned as error:
            return _not_called(f"it cannot be signed: {error}", retryable=True)
        try:
            response = await self._session(delivery.key.tenant_id).request(
                target.method,
                target.url,
                data=body or None,
                headers=headers,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError as error:
            return _not_connected(error)
        except _Broken as broken:
            cause = broken.__cause__ or broken
            return Outcome(OutcomeKind.FAILED, error=_describe(cause), unreachable=True)
        except (aiohttp.InvalidURL, ValueError) as error:
            return _not_called(_describe(error), retryable=False)
        except (aiohttp.ClientError, OSError) as error:
            return Outcome(OutcomeKind.FAILED, error=_describe(error), unreachable=True)
        try:
            return self._outcome(delivery, response, await body_of(response))
        finally:
            response.release()

    def _headers(self, delivery: Delivery, target: HttpTarget, body: bytes) -> dict[str, str]:
        """Raises ValueError for a key that no header can hold, and Unsigned."""
        about = task_headers(delivery, self._clock.seconds())
        asked = about["webhook-id"] if delivery.origin is None else request_id(delivery)
        headers = {
            "accept-encoding": "identity",  # the body is kept as text
            "content-type": "application/json",
            "user-agent": _USER_AGENT,
            "x-request-id": asked,
            **target.headers,
            **about,
        }
        if self._signatory is not None:
            task_id, moment = headers["webhook-id"], headers["webhook-timestamp"]
            signature = self._signatory.sign(
                delivery.key.tenant_id, target.url, task_id, moment, body
            )
            if signature is not None:
                headers["webhook-signature"] = signature
        return headers

    def _outcome(
        self, delivery: Delivery, response: aiohttp.ClientResponse, body: str | None
    ) -> Outcome:
        status = response.status
        if 200 <= status < 300:
            return Outcome(OutcomeKind.SUCCEEDED, response_status=status, response_body=body)
        if status == _TOO_EARLY and (snooze := snooze_in(response.headers)) is not None:
            return Outcome(
                OutcomeKind.SNOOZED,
                error=NEVER_AGAIN if delivery.mode is DeliveryMode.AT_MOST_ONCE else None,
                retry_after=snooze,
                response_status=status,
                response_body=body,
            )
        retry_after = response.headers.get("retry-after")
        retryable = (
            status >= 500
            or status < 400
            or status in _RETRYABLE
            or delivery.retry_policy.retry_client_errors
        )
        return Outcome(
            OutcomeKind.FAILED,
            error=f"HTTP {status} {reason_of(response)}".rstrip(),
            retryable=retryable,
            retry_after=parse_retry_after(retry_after, self._clock.now()) if retry_after else None,
            response_status=status,
            response_body=body,
        )


@lru_cache(maxsize=4096)
def name_in(url: str) -> str | None:
    """The name that must be looked up before a call; None where there is none."""
    try:
        host = urlsplit(url).hostname or ""
        # As the client writes it, but for a few letters of names that are looked up by the call.
        name = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        return None  # what is wrong with it, the call says
    try:
        ip_address(name)
    except ValueError:
        return name or None
    return None


def _not_called(error: str, *, retryable: bool) -> Outcome:
    return Outcome(OutcomeKind.FAILED, error=error, retryable=retryable, uncalled=True)


def _not_connected(error: aiohttp.ClientConnectorError) -> Outcome:
    if isinstance(error.os_error, AddressRefused):
        return _not_called(f"{error.host}: {error.os_error}", retryable=False)
    if error.os_error.errno in _SHORT_OF:
        return _not_called(_describe(error), retryable=True)
    return Outcome(OutcomeKind.FAILED, error=_describe(error), unreachable=True)


def _describe(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, aiohttp.ClientResponseError):  # it names a status, and there was none
        text = f"the answer cannot be read: {' '.join(error.message.split())}"
    return storable(text[:2000])
