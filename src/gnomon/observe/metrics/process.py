"""Metrics of a process, as Prometheus reads them.

Each process counts for itself and starts at zero; sums over all of them are for the one who
asks. Labels have a handful of values that are known beforehand: no ids, no tenants.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from gnomon.observe.events import ChoreFailed, Event, SpanResult, SpansEnded
from gnomon.version import VERSION

# A second series for each, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Metrics of every process: its version, memory, CPU time and garbage."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("gnomon", "The version that runs.", registry=self.registry).info({"version": VERSION})
        self._chore_errors = Counter(
            "gnomon_chore_errors",
            "Errors in background work, each of which is tried again.",
            ["chore"],
            registry=self.registry,
        )
        self._spans = Counter(
            "gnomon_spans",
            "Spans of sampled tasks, by what became of them.",
            ["result"],
            registry=self.registry,
        )
        for result in SpanResult:
            self._spans.labels(result.value)

    def __call__(self, event: Event) -> None:
        """Count what concerns every process."""
        match event:
            case ChoreFailed(chore):
                self._chore_errors.labels(chore).inc()
            case SpansEnded(result, number):
                self._spans.labels(result.value).inc(number)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """All of them in the format that `accept` asks for, and its media type."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type
