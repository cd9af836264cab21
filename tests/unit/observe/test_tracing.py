"""Spans on their way: sent, counted, dropped, and never in anybody's way."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry.trace import SpanKind
from tests.collector import Collector, collecting

from gnomon.model.tasks.origin import TraceContext
from gnomon.observe.events import SpanResult
from gnomon.observe.span_export import SpanQueue
from gnomon.observe.tracing import Tracing, execution_ids
from gnomon.settings import SettingsError, TracingSettings


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


class Told:
    def __init__(self) -> None:
        self.counts: Counter[SpanResult] = Counter()

    def __call__(self, result: SpanResult, number: int) -> None:
        self.counts[result] += number


def spans(tracing: Tracing, number: int) -> None:
    for _ in range(number):
        tracing.begin("process mail", SpanKind.CONSUMER, None, {}).end()


def test_spans_are_sent_with_the_headers_of_a_file(collector: Collector, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer canary\n\nx-scope: acme\n")
    told = Told()
    settings = TracingSettings(
        exporter="otlp",
        endpoint=collector.url,
        headers_file=str(headers),
        service_name="shop",
    )
    tracing = Tracing(settings, told)
    spans(tracing, 3)
    tracing.close()
    assert told.counts == {SpanResult.EXPORTED: 3}
    assert [span.service for span in collector.spans] == ["shop"] * 3
    assert collector.headers[0]["authorization"] == "Bearer canary"
    assert collector.headers[0]["x-scope"] == "acme"


def test_a_wrong_file_of_headers_is_told_without_what_is_in_it(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("a: b\nsecret-canary\n")
    settings = TracingSettings(exporter="otlp", headers_file=str(headers))
    with pytest.raises(SettingsError, match="line 2") as raised:
        Tracing(settings, Told())
    assert "canary" not in str(raised.value)
    missing = TracingSettings(exporter="otlp", headers_file=str(tmp_path / "none"))
    with pytest.raises(SettingsError, match="headers_file cannot be read"):
        Tracing(missing, Told())


def test_what_a_collector_refuses_is_counted(collector: Collector) -> None:
    collector.status = 400
    told = Told()
    tracing = Tracing(TracingSettings(exporter="otlp", endpoint=collector.url), told)
    spans(tracing, 3)
    tracing.close()
    assert told.counts == {SpanResult.FAILED: 3}


def test_nobody_waits_for_a_collector_that_is_silent(collector: Collector) -> None:
    collector.silent = True
    told = Told()
    settings = TracingSettings(exporter="otlp", endpoint=collector.url, timeout_seconds=0.2)
    tracing = Tracing(settings, told)
    spans(tracing, 10_000)  # more than may wait
    tracing.close()
    assert SpanResult.EXPORTED not in told.counts
    assert told.counts[SpanResult.DROPPED] >= 10_000 - 4096 - 512 * 4
    assert sum(told.counts.values()) <= 10_000  # none twice


def test_an_exporter_that_raises_ends_nothing() -> None:
    told, called = Told(), threading.Event()

    class Broken:
        def export(self, _: object) -> None:
            called.set()
            raise RuntimeError("broken")

        def shutdown(self) -> None:
            pass

    queue = SpanQueue(Broken(), told, most=2)  # type: ignore[arg-type]
    for _ in range(3):
        queue.on_end(object())  # type: ignore[arg-type]
    queue.close(5.0)
    assert called.is_set()
    assert told.counts == {SpanResult.FAILED: 2, SpanResult.DROPPED: 1}


def test_the_ids_of_an_execution_are_its_own() -> None:
    """And the same on every node, of whatever version: links depend on it."""
    first = execution_ids(UUID(int=1), 1)
    assert first == TraceContext("fcca22ba4632de594725cabe1103dd1e", "7df72c79098b9372")
    assert len({first, execution_ids(UUID(int=1), 2), execution_ids(UUID(int=2), 1)}) == 3
