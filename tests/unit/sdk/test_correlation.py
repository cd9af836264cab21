"""What a program passes on: correlation ids to further tasks, and the trace of its span."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState, use_span

from gnomon import Gnomon
from gnomon.client.trace_headers import trace_headers
from gnomon.sdk.errors import InvalidOption
from gnomon.sdk.executing.context import TaskContext
from gnomon.testing import inline

app = Gnomon()
seen: list[str] = []


@app.task
async def child(ctx: TaskContext) -> None:
    seen.append(ctx.correlation_id)


@app.task
def parent(ctx: TaskContext) -> None:
    seen.append(ctx.correlation_id)
    child.submit_sync()
    child.options(correlation_id="another").submit_sync()


async def test_tasks_that_a_handler_submits_have_its_correlation_id() -> None:
    seen.clear()
    async with inline(app):
        await parent.options(correlation_id="order-7").submit()
        handle = await child.submit()
    assert seen == ["order-7", "order-7", "another", str(handle.id)]


def test_a_correlation_id_is_a_text() -> None:
    with pytest.raises(InvalidOption, match="correlation_id=7: must be a text"):
        child.options(correlation_id=7)  # type: ignore[arg-type]


def test_a_program_without_a_span_sends_none() -> None:
    assert trace_headers() == {}


def test_the_current_span_is_told_as_it_was_decided() -> None:
    with TracerProvider().get_tracer("t").start_as_current_span("s") as span:
        context = span.get_span_context()
        expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert trace_headers() == {"traceparent": expected}
        assert int(expected[-1], 16) & 1  # the SDK samples all, unless told otherwise
    unsampled = SpanContext(1, 2, is_remote=True, trace_state=TraceState([("a", "1")]))
    with use_span(NonRecordingSpan(unsampled)):
        told = trace_headers()
    assert told == {"traceparent": f"00-{1:032x}-{2:016x}-00", "tracestate": "a=1"}
