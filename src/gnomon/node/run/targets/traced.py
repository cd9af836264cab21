"""Spans around the calls of tasks whose trace is sampled. Used only where tracing is on."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any

import msgspec
import structlog
from opentelemetry.trace import Link, SpanKind

from gnomon.clock import Clock
from gnomon.model.ids import created_at
from gnomon.model.outcomes.error_type import error_type
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.target import HttpTarget, Target
from gnomon.model.tasks.origin import TraceContext, origin_of
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.targets import Caller, MayBegin, Place, always
from gnomon.observe import span_names as names
from gnomon.observe.log_fields import about
from gnomon.observe.tracing import ActiveSpan, Tracing, execution_ids, link_to
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext

log = structlog.get_logger("gnomon.node.run")

# An execution that starts later than this after the submission begins a trace of its own: traces of
# hours or days fit into no sampling, and no page.
LATE_SECONDS = 60.0
_LOOK_SECONDS = 1.0

# When the execution of this number began; None where that is not known.
StartOf = Callable[[TaskKey, int], Awaitable[datetime | None]]


class TracedCaller:
    """`Caller` that makes a span of each execution whose task belongs to a sampled trace, and one
    of the call of a webhook or of gRPC below it. The others it passes on."""

    def __init__(
        self,
        caller: Caller,
        tracing: Tracing,
        clock: Clock,
        start_of: StartOf,
        may_begin: MayBegin = always,
    ) -> None:
        self._caller = caller
        self._may_begin = may_begin
        self._tracing = tracing
        self._clock = clock
        self._start_of = start_of

    @property
    def least_room(self) -> float:
        return self._caller.least_room

    def place(self, target: Target) -> Place | None:
        return self._caller.place(target)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        return self._caller.ready(delivery)

    def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Coroutine[Any, Any, Outcome | None]:
        """Hands on the call itself unless it is sampled: a coroutine around it would cost every
        task."""
        if delivery.origin is not None and (trace := delivery.origin.trace) is not None:
            return self._traced(delivery, payload, run, trace)
        return self._caller.call(delivery, payload, run)

    async def _traced(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext, trace: TraceContext
    ) -> Outcome | None:
        span = await self._execution(delivery, trace)
        try:
            with span.as_current():
                outcome = await self._called(delivery, payload, run, span)
        except asyncio.CancelledError:
            late = run.cancelled and run.remaining <= 0
            kind = OutcomeKind.TIMED_OUT if late else OutcomeKind.CANCELLED
            span.set(names.OUTCOME, kind.label)
            span.fail(kind.label, None)
            raise
        finally:
            span.end()
        return outcome

    async def _called(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext, span: ActiveSpan
    ) -> Outcome | None:
        target = delivery.target
        if not self._may_begin():  # the execution before may have been looked up
            _conclude(span, None)
            return None
        if isinstance(target, HttpTarget | GrpcTarget):
            with self._request(target, span.context) as request:
                below = _below(delivery, request.context)
                outcome = await self._caller.call(below, payload, run)
                if outcome is not None:
                    over_http = isinstance(target, HttpTarget)
                    status = names.HTTP_STATUS if over_http else names.RPC_STATUS
                    request.set(status, outcome.response_status)
                _conclude(request, outcome)
        else:
            outcome = await self._caller.call(_below(delivery, span.context), payload, run)
        if outcome is not None:
            span.set(names.OUTCOME, outcome.kind.label)
        _conclude(span, outcome)
        return outcome

    async def _execution(self, delivery: Delivery, trace: TraceContext) -> ActiveSpan:
        now, key = self._clock.seconds(), delivery.key
        late = self._is_late(key, now)
        links = [link_to(trace, names.TO_SUBMISSION)] if late else []
        if delivery.attempt > 1:
            links += await self._link_before(delivery, trace, late=late)
        own = execution_ids(key.id, delivery.attempt)
        return self._tracing.begin(
            f"{names.PROCESS} {delivery.task_type}",
            SpanKind.CONSUMER,
            None if late else trace,
            {
                names.MESSAGING_SYSTEM: names.SYSTEM,
                names.OPERATION_TYPE: names.PROCESS,
                names.OPERATION_NAME: names.PROCESS,
                names.DESTINATION: delivery.task_type,
                names.MESSAGE_ID: str(key.id),
                names.CONVERSATION_ID: delivery.correlation_id,
                names.TENANT: key.tenant_id,
                names.ATTEMPT: delivery.attempt,
                names.FENCE: delivery.fence,
                names.DELAY: round(max(0.0, now - delivery.scheduled_for), 6),
            },
            links,
            own,
        )

    def _is_late(self, key: TaskKey, at: float) -> bool:
        return at - created_at(key.id).timestamp() > LATE_SECONDS

    async def _link_before(
        self, delivery: Delivery, trace: TraceContext, *, late: bool
    ) -> list[Link]:
        """To the execution before, on whatever node that was. Its span can be worked out; which
        trace it is in depends on when it began."""
        before = delivery.attempt - 1
        own = execution_ids(delivery.key.id, before)
        in_trace = TraceContext(trace.trace_id, own.span_id)
        if not late:  # nor was that one
            return [link_to(in_trace, names.TO_EXECUTION_BEFORE)]
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                began = await self._start_of(delivery.key, before)
        except Exception as error:  # noqa: BLE001 - the task runs without the link
            why = type(error).__name__
            log.debug("an execution is traced without its link", why=why, **about(delivery))
            return []
        if began is None:
            return []
        was_late = self._is_late(delivery.key, began.timestamp())
        return [link_to(own if was_late else in_trace, names.TO_EXECUTION_BEFORE)]

    def _request(self, target: HttpTarget | GrpcTarget, parent: TraceContext) -> ActiveSpan:
        if isinstance(target, GrpcTarget):
            service, _, method = target.method[1:].partition("/")
            facts: dict[str, Any] = {
                names.RPC_SYSTEM: "grpc",
                names.RPC_SERVICE: service,
                names.RPC_METHOD: method,
                names.SERVER: target.address or "",
            }
            return self._tracing.begin(target.method[1:], SpanKind.CLIENT, parent, facts)
        shown = target.masked()
        return self._tracing.begin(
            shown.method,
            SpanKind.CLIENT,
            parent,
            {
                names.HTTP_METHOD: shown.method,
                names.URL: shown.url,
                names.SERVER: shown.address or "",
            },
        )


def _below(delivery: Delivery, span: TraceContext) -> Delivery:
    """The delivery with the place that what it calls is told."""
    given = delivery.origin.correlation_id if delivery.origin is not None else None
    return msgspec.structs.replace(delivery, origin=origin_of(given, span))


def _conclude(span: ActiveSpan, outcome: Outcome | None) -> None:
    if outcome is None:
        span.fail("not called", None)
    elif outcome.kind is not OutcomeKind.SUCCEEDED and outcome.kind is not OutcomeKind.SNOOZED:
        span.fail(outcome.kind.label, error_type(outcome.error))
