"""Webhooks: one HTTP call an execution, signed after the Standard Webhooks specification."""

import errno
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from gnomon.access.addresses import AddressGuard
from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.remembered import remembered
from gnomon.model.targets.target import HttpTarget, Target
from gnomon.model.tasks.retry import parse_retry_after
from gnomon.model.tasks.task import DeliveryMode
from gnomon.model.text import storable
from gnomon.node.run.resolver import Resolver
from gnomon.node.run.targets import MayBegin, Place, always
from gnomon.node.run.targets.headers import NEVER_AGAIN, request_id, snooze_in, task_headers
from gnomon.node.run.targets.signing import Signatory, Unsigned, request_body
from gnomon.node.run.targets.webhook.answer import HttpAnswer, UnreadableAnswer
from gnomon.node.run.targets.webhook.connections import AddressRefused, WebhookConnections
from gnomon.node.run.targets.webhook.request import CallPlan, ServerOrigin, plan_of, request_of
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import NotBegun, TaskContext

GuardOf = Callable[[str], AddressGuard | None]  # of a tenant; None: it may call every address

_MOST_TEXT = 2000
# 4xx that are about the moment and not about the request.
_TOO_EARLY = 425
_RETRYABLE = frozenset({408, 409, _TOO_EARLY, 429})
# This machine has no more of something: no word about the host that was to be called.
_SHORT_OF = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
)


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
        may_begin: MayBegin = always,
    ) -> None:
        self._clock = clock
        self._signatory = signatory  # None: nothing is signed
        self._per_host = connections_per_host
        self._guard_of = guard_of
        self._names = names or Resolver(clock)
        self._connections = WebhookConnections(clock, self._names, may_begin)

    async def __aenter__(self) -> "HttpCaller":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._connections.close()
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

    async def call(
        self, delivery: Delivery, payload: bytes | None, _: TaskContext
    ) -> Outcome | None:
        assert isinstance(delivery.target, HttpTarget)
        target, body = delivery.target, request_body(delivery.target.method, payload)
        try:
            plan = plan_of(target)
            request = request_of(plan, self._headers(delivery, plan, body), body)
        except ValueError as error:
            return _not_called(f"it cannot be called: {error}", retryable=False)
        except Unsigned as error:
            return _not_called(f"it cannot be signed: {error}", retryable=True)
        key = self._guard_of(delivery.key.tenant_id), plan.origin
        connections = self._connections
        connection = connections.take(key)
        if connection is not None:
            connection.send(request)
        else:
            try:
                connection = await connections.open(key, request)
            except OSError as error:
                return _not_connected(plan.origin, error)
            except NotBegun:
                return None
        try:
            answer = await connection.answer()
        except UnreadableAnswer as error:
            return _broken(f"the answer cannot be read: {error}")
        except OSError as error:
            return _broken(f"{type(error).__name__}: {error}")
        finally:
            connections.give_back(key, connection)
        return self._outcome(delivery, answer)

    def _headers(self, delivery: Delivery, plan: CallPlan, body: bytes) -> dict[str, str]:
        """Those that tell about this call. Raises ValueError for a key that no header can hold, and
        Unsigned."""
        about = task_headers(delivery, self._clock.seconds())
        asked = about["webhook-id"] if delivery.origin is None else request_id(delivery)
        headers = {"x-request-id": asked, **plan.own, **about}
        if self._signatory is not None:
            signature = self._signatory.sign(
                delivery.key.tenant_id,
                plan.url,
                about["webhook-id"],
                about["webhook-timestamp"],
                body,
            )
            if signature is not None:
                headers["webhook-signature"] = signature
        return headers

    def _outcome(self, delivery: Delivery, answer: HttpAnswer) -> Outcome:
        status, body = answer.status, answer.body
        if 200 <= status < 300:
            return Outcome(OutcomeKind.SUCCEEDED, response_status=status, response_body=body)
        if status == _TOO_EARLY and (snooze := snooze_in(answer.headers)) is not None:
            return Outcome(
                OutcomeKind.SNOOZED,
                error=NEVER_AGAIN if delivery.mode is DeliveryMode.AT_MOST_ONCE else None,
                retry_after=snooze,
                response_status=status,
                response_body=body,
            )
        retry_after = answer.headers.get("retry-after")
        retryable = (
            status >= 500
            or status < 400
            or status in _RETRYABLE
            or delivery.retry_policy.retry_client_errors
        )
        return Outcome(
            OutcomeKind.FAILED,
            error=f"HTTP {status} {answer.reason}".rstrip(),
            retryable=retryable,
            retry_after=parse_retry_after(retry_after, self._clock.now()) if retry_after else None,
            response_status=status,
            response_body=body,
        )


@remembered
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


def _not_connected(origin: ServerOrigin, error: OSError) -> Outcome:
    """Nothing was sent."""
    if isinstance(error, AddressRefused):
        return _not_called(f"{origin.host}: {error}", retryable=False)
    why = error.strerror or str(error) or type(error).__name__
    text = f"NotConnected: {origin.host}:{origin.port}: {why}"
    if error.errno in _SHORT_OF:
        return _not_called(storable(text[:_MOST_TEXT]), retryable=True)
    return _broken(text)


def _broken(why: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, error=storable(why[:_MOST_TEXT]), unreachable=True)
