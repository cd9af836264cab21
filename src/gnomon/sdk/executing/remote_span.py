"""Puts what a handler does below the span that its execution belongs to.

Nothing is imported for it: only in a program that uses OpenTelemetry does it have an effect.
"""

import sys
from typing import Any

from gnomon.model.tasks.origin import Origin


def enter_trace(origin: Origin) -> Any:
    """Make the trace of a task the current one; gives what `leave_trace` needs. None: nothing was
    done, because the task has no sampled trace, the program does not use OpenTelemetry, or the
    span of the execution is the current one already."""
    api = sys.modules.get("opentelemetry.trace")
    place = None if api is None else origin.trace
    if api is None or place is None:
        return None
    span_id = int(place.span_id, 16)
    if api.get_current_span().get_span_context().span_id == span_id:
        return None
    state = api.TraceState.from_header([place.state]) if place.state else None
    context = api.SpanContext(
        int(place.trace_id, 16), span_id, is_remote=True,
        trace_flags=api.TraceFlags(api.TraceFlags.SAMPLED), trace_state=state,
    )  # fmt: skip
    current = api.set_span_in_context(api.NonRecordingSpan(context))
    return sys.modules["opentelemetry.context"].attach(current)


def leave_trace(token: Any) -> None:
    """End what `enter_trace` began."""
    sys.modules["opentelemetry.context"].detach(token)
