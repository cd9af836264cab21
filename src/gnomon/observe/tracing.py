"""Spans of sampled tasks, by OpenTelemetry. Imported only where tracing is on.

Nobody asks for a span unless its trace is sampled: what is not costs nothing here.
"""

import hashlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)
from opentelemetry.util.types import AttributeValue

from gnomon.model.tasks.origin import TraceContext
from gnomon.observe import span_names as names
from gnomon.observe.span_export import SpanQueue, Told
from gnomon.settings import SettingsError, TracingSettings
from gnomon.version import VERSION

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)

Attributes = dict[str, AttributeValue]


class ActiveSpan:
    """A span that has begun. As a context manager it ends with the block, and says of what kind an
    error was."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def context(self) -> TraceContext:
        """To be passed on: what follows belongs below this span."""
        found = self._span.get_span_context()
        return TraceContext(
            f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_state.to_header() or None
        )

    def set(self, name: str, value: AttributeValue | None) -> None:
        if value is not None:
            self._span.set_attribute(name, value)

    def fail(self, description: str, kind: str | None) -> None:
        """It has failed. The description is one of a few, without the words of others."""
        self._span.set_attribute(names.ERROR_TYPE, kind or description)
        self._span.set_status(Status(StatusCode.ERROR, description))

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Within this block, what others begin by OpenTelemetry belongs below this span."""
        with trace.use_span(
            self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        ):
            yield

    def end(self) -> None:
        self._span.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None:
            self.fail("raised", kind.__name__)
        self.end()


class _Ids(RandomIdGenerator):
    """Ids at random, but for the span that an execution begins with: so whoever tries again, on
    another node, knows what to link to."""

    def __init__(self) -> None:
        self.chosen: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.chosen is None else self.chosen[0]

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.chosen is None else self.chosen[1]

    def is_trace_id_random(self) -> bool:
        return False


class Tracing:
    """The spans of one process, and their way to the collector. To be used by one thread."""

    def __init__(self, settings: TracingSettings, told: Told) -> None:
        """Raises SettingsError."""
        self._seconds = settings.timeout_seconds
        self._queue = SpanQueue(_exporter(settings), told)
        self._ids = _Ids()
        # Not the provider of the whole process, which belongs to the program of handlers.
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=_resource(settings),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer(names.LIBRARY, VERSION)

    def begin(
        self,
        name: str,
        kind: SpanKind,
        parent: TraceContext | None,
        attributes: Attributes,
        links: Sequence[Link] = (),
        chosen: TraceContext | None = None,
    ) -> ActiveSpan:
        """A span below `parent`; None: it begins a trace. `chosen`: its ids, if not at random."""
        context = contexts.Context()
        if parent is not None:
            context = trace.set_span_in_context(NonRecordingSpan(span_context(parent)), context)
        if chosen is not None:
            self._ids.chosen = int(chosen.trace_id, 16), int(chosen.span_id, 16)
        try:
            span = self._tracer.start_span(name, context, kind, attributes, links)
        finally:
            self._ids.chosen = None
        assert isinstance(span, Span), "the sampler takes all"
        return ActiveSpan(span)

    def begin_sending(
        self, parent: TraceContext | None, tenant_id: str, task_type: str | None
    ) -> ActiveSpan:
        """The span of a submission, of a task of this type or (None) of a batch."""
        attributes: Attributes = {
            names.MESSAGING_SYSTEM: names.SYSTEM,
            names.OPERATION_TYPE: names.SEND,
            names.OPERATION_NAME: names.SEND,
            names.TENANT: tenant_id,
        }
        if task_type is not None:
            attributes[names.DESTINATION] = task_type
        name = names.SEND if task_type is None else f"{names.SEND} {task_type}"
        return self.begin(name, SpanKind.PRODUCER, parent, attributes)

    def close(self) -> None:
        """Send the rest, within a bounded time. Blocks."""
        self._queue.close(self._seconds)


def link_to(place: TraceContext, what: str) -> Link:
    return Link(span_context(place), {names.LINK: what})


def span_context(place: TraceContext) -> SpanContext:
    """As OpenTelemetry has it."""
    state = TraceState.from_header([place.state]) if place.state else None
    return SpanContext(
        int(place.trace_id, 16), int(place.span_id, 16), is_remote=True,
        trace_flags=_SAMPLED, trace_state=state,
    )  # fmt: skip


def execution_ids(task_id: UUID, attempt: int) -> TraceContext:
    """The span of an execution, which anybody can work out, and the trace that it begins unless it
    belongs to another."""
    digest = hashlib.blake2b(
        task_id.bytes + attempt.to_bytes(8, "big"), digest_size=24, person=b"gnomon-execution"
    ).hexdigest()
    return TraceContext(digest[:32], digest[32:])


def _resource(settings: TracingSettings) -> Resource:
    name = settings.service_name
    if name is None and OTEL_SERVICE_NAME not in os.environ:
        name = names.SERVICE
    return Resource.create({} if name is None else {SERVICE_NAME: name})


def _exporter(settings: TracingSettings) -> SpanExporter:
    if settings.exporter == "console":
        return ConsoleSpanExporter(out=sys.stderr)
    # It logs every failure, with the address; we count them, and tell of some.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    return OTLPSpanExporter(
        endpoint=settings.endpoint, headers=_headers(settings), timeout=settings.timeout_seconds
    )


def _headers(settings: TracingSettings) -> dict[str, str] | None:
    if settings.headers_file is None:
        return None
    try:
        lines = Path(settings.headers_file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"tracing.headers_file cannot be read: {error}") from error
    headers = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if line.strip() and not (colon and name.strip().isascii()):
            raise SettingsError(  # without the line itself, which may be a secret
                f"tracing.headers_file must have NAME: VALUE in each line; line {number} has not"
            )
        if line.strip():
            headers[name.strip().lower()] = value.strip()
    return headers
