"""Calls `grpc` targets: a unary call, with the task's timeout as its deadline."""

import json
from collections.abc import Awaitable, Mapping, Sequence
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf import message
from google.rpc import error_details_pb2, status_pb2

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.target import Target
from gnomon.model.tasks.retry import parse_retry_after
from gnomon.model.tasks.task import DeliveryMode
from gnomon.model.text import storable
from gnomon.node.run.resolver import Resolver
from gnomon.node.run.targets import MayBegin, Place, always
from gnomon.node.run.targets.grpc.channels import Channels, OpenChannel, TlsUnusable
from gnomon.node.run.targets.grpc.messages import (
    RECEIVER,
    MethodTypes,
    NoSuchMethod,
    ServerTypes,
    WrongPayload,
)
from gnomon.node.run.targets.headers import (
    NEVER_AGAIN,
    request_id,
    rfc3339,
    snooze_in,
    task_headers,
)
from gnomon.node.run.targets.http import GuardOf, name_in
from gnomon.node.run.targets.webhook.body import KEPT_BODY_BYTES
from gnomon.node.run.targets.webhook.connections import AddressRefused
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings.targets import TargetSettings

_Code = grpc.StatusCode
# About the moment and not about the request. The server is not well: its breaker counts them.
_UNWELL = frozenset((_Code.UNAVAILABLE, _Code.RESOURCE_EXHAUSTED, _Code.INTERNAL, _Code.UNKNOWN))
_RETRYABLE = _UNWELL | {_Code.ABORTED, _Code.CANCELLED, _Code.DEADLINE_EXCEEDED}
_DETAILS = "grpc-status-details-bin"
_MOST_DETAIL = 1000


class GrpcCaller:
    """`Caller` for `grpc` targets."""

    def __init__(
        self,
        clock: Clock,
        names: Resolver,
        guard_of: GuardOf,
        settings: TargetSettings,
        may_begin: MayBegin = always,
    ) -> None:
        self._clock = clock
        self._may_begin = may_begin
        self._names = names
        self._per_host = settings.connections_per_host
        self._channels = Channels(clock, names, guard_of, settings.grpc_tls)
        self._types = ServerTypes(clock)

    async def close(self) -> None:
        await self._channels.close()

    @property
    def least_room(self) -> float:
        return self._per_host

    def place(self, target: Target) -> Place | None:
        assert isinstance(target, GrpcTarget)
        return Place(target.host, self._per_host)

    def ready(self, delivery: Delivery) -> Awaitable[None] | None:
        assert isinstance(delivery.target, GrpcTarget)
        name = name_in(delivery.target.url)
        return None if name is None else self._names.ready(name, delivery.key.tenant_id)

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        target = delivery.target
        assert isinstance(target, GrpcTarget)
        try:
            target.check()  # it may be older than the rules
            metadata = _metadata(delivery, target, self._clock.seconds())
            async with self._channels.to(target, delivery.key.tenant_id) as channel:
                return await self._called(delivery, target, payload, channel, metadata, run)
        except ValueError as error:
            return _not_called(f"it cannot be called: {error}", retryable=False)
        except NoSuchMethod as error:
            return _not_called(f"it cannot be called: {error}", retryable=False)
        except WrongPayload as error:
            return _not_called(str(error), retryable=False)
        except AddressRefused as error:
            return _not_called(f"{target.address}: {error}", retryable=False)
        except TlsUnusable as error:
            return _not_called(f"its TLS cannot be set up: {error}", retryable=True)
        except OSError as error:
            detail = f"{target.address}: {error.strerror or error}"
            return Outcome(OutcomeKind.FAILED, error=storable(detail), unreachable=True)

    async def _called(
        self,
        delivery: Delivery,
        target: GrpcTarget,
        payload: bytes | None,
        channel: OpenChannel,
        metadata: Sequence[tuple[str, str]],
        run: TaskContext,
    ) -> Outcome | None:
        try:
            types, request = await self._request(delivery, target, payload, channel, run)
            await channel.connected(_left(run))
            if not self._may_begin():
                return None
            call = channel.channel.unary_unary(target.method)(
                request.SerializeToString(), timeout=_left(run), metadata=metadata
            )
            answer: bytes = await call
        except grpc.aio.AioRpcError as error:
            if error.code() is _Code.UNIMPLEMENTED:
                self._types.forget(channel, target)
            return self._failed(delivery, error)
        shown = _kept(types.shown(answer))
        return Outcome(OutcomeKind.SUCCEEDED, response_status=0, response_body=shown)

    async def _request(
        self,
        delivery: Delivery,
        target: GrpcTarget,
        payload: bytes | None,
        channel: OpenChannel,
        run: TaskContext,
    ) -> tuple[MethodTypes, message.Message]:
        """What is known of the server may be old: a payload that does not fit is tried with what
        the server says now."""
        types = await self._types.of(target, channel, _left(run))
        if target.method.startswith(f"/{RECEIVER}/") and target.descriptor_set is None:
            payload = _received(delivery, payload)
        try:
            return types, types.request_of(payload)
        except WrongPayload:
            self._types.forget(channel, target)
            types = await self._types.of(target, channel, _left(run))
            return types, types.request_of(payload)

    def _failed(self, delivery: Delivery, error: grpc.aio.AioRpcError) -> Outcome:
        code, trailers = error.code(), _texts(error.trailing_metadata())
        status, name = code.value[0], code.name
        detail = f"gRPC {name}: {error.details() or ''}".rstrip(": ")[:_MOST_DETAIL]
        if (snooze := snooze_in(trailers)) is not None:
            never = delivery.mode is DeliveryMode.AT_MOST_ONCE
            return Outcome(
                OutcomeKind.SNOOZED,
                error=NEVER_AGAIN if never else None,
                retry_after=snooze,
                response_status=status,
            )
        late = code is _Code.DEADLINE_EXCEEDED
        return Outcome(
            OutcomeKind.TIMED_OUT if late else OutcomeKind.FAILED,
            error=storable(detail),
            retryable=code in _RETRYABLE or delivery.retry_policy.retry_client_errors,
            retry_after=self._retry_after(error, trailers),
            response_status=status,
            unreachable=code in _UNWELL,
        )

    def _retry_after(
        self, error: grpc.aio.AioRpcError, trailers: Mapping[str, str]
    ) -> float | None:
        """By RetryInfo in the details of the status, else by `retry-after` in its metadata."""
        for name, value in error.trailing_metadata() or ():
            if name != _DETAILS or not isinstance(value, bytes):
                continue
            if (seconds := _retry_info(value)) is not None:
                return seconds
        text = trailers.get("retry-after")
        return parse_retry_after(text, self._clock.now()) if text else None


def _metadata(delivery: Delivery, target: GrpcTarget, at: float) -> list[tuple[str, str]]:
    """Raises ValueError for a key that no header can hold."""
    headers = {
        "x-request-id": request_id(delivery),
        **{name.lower(): value for name, value in target.headers.items()},
        **task_headers(delivery, at),
    }
    return [(name, _ascii(value)) for name, value in headers.items()]


def _ascii(value: str) -> str:
    return value if value.isascii() and value.isprintable() else quote(value, safe="")


def _received(delivery: Delivery, payload: bytes | None) -> bytes:
    """The request of `gnomon.v1.Receiver`, as JSON."""
    task_id = str(delivery.key.id)
    return json.dumps(
        {
            "task_id": task_id,
            "task_type": delivery.task_type,
            "tenant": delivery.key.tenant_id,
            "payload": (payload or b"null").decode(),
            "attempt": delivery.attempt,
            "fence": str(delivery.fence),
            "idempotency_key": delivery.idempotency_key or task_id,
            "scheduled_for": rfc3339(delivery.execute_at),
        }
    ).encode()


def _left(run: TaskContext) -> float:
    return max(0.001, run.remaining)


def _kept(text: str) -> str:
    return storable(text.encode()[:KEPT_BODY_BYTES].decode("utf-8", "ignore"))


def _texts(metadata: "grpc.aio.Metadata | None") -> dict[str, str]:
    return {name: value for name, value in metadata or () if isinstance(value, str)}


def _retry_info(details: bytes) -> float | None:
    try:
        status = status_pb2.Status.FromString(details)
        for each in status.details:
            info = error_details_pb2.RetryInfo()
            if each.Is(info.DESCRIPTOR) and each.Unpack(info):
                seconds: float = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
                return max(0.0, seconds)
    except message.DecodeError:
        return None
    return None


def _not_called(error: str, *, retryable: bool) -> Outcome:
    return Outcome(
        OutcomeKind.FAILED, error=storable(error[:2000]), retryable=retryable, uncalled=True
    )
