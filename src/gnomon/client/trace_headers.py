"""The trace that a request belongs to, where the program has one by OpenTelemetry.

Nothing is imported for it: a program that has a current span has imported OpenTelemetry itself.
"""

import sys


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the current span; none where there is no such span."""
    current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current_span is None:
        return {}
    context = current_span().get_span_context()
    if not context.is_valid:
        return {}
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-{context.trace_flags:02x}"}
    if context.trace_state:
        headers["tracestate"] = context.trace_state.to_header()
    return headers
