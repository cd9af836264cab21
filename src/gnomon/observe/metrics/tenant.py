"""Metrics of one tenant, for itself: no process counts them, the roll-up of activity does."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gnomon.model.insight.activity import DELAY_BOUNDS, Counts
from gnomon.model.tasks.priority import Lane

_BOUNDS = (*map(floatToGoString, DELAY_BOUNDS), "+Inf")
_COUNTERS = {
    "submissions": ("submitted", "Tasks that were stored"),
    "executions_started": ("started", "Executions that were claimed"),
    "dead_letters": ("dead", "Tasks that became dead letters"),
    "run_seconds": ("seconds", "How long executions ran, together"),
}
_OUTCOMES = ("succeeded", "failed")


class TenantSeries(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a tenant. Counts are of today."""

    tenant_id: str
    lanes: Mapping[Lane, Counts]
    types: Mapping[str, Counts]
    tasks: Mapping[str, int]  # by status
    oldest_due: Mapping[Lane, float]  # seconds


def collected(found: TenantSeries) -> Iterator[Metric]:
    """The families that are shown."""
    return _TenantCollector(found).collect()


def text_of(found: TenantSeries, accept: str) -> tuple[bytes, str]:
    """In the format that `accept` asks for, and its media type."""
    registry = CollectorRegistry()
    registry.register(_TenantCollector(found))
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _TenantCollector(Collector):
    def __init__(self, found: TenantSeries) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        tenant, lanes = self._found.tenant_id, self._found.lanes
        for name, (field, text) in _COUNTERS.items():
            counter = _counter(name, f"{text}, since midnight (UTC).", "lane")
            for lane, counts in lanes.items():
                counter.add_metric((tenant, lane.name), getattr(counts, field))
            yield counter
        ended = _counter("executions_ended", "Executions, by their end.", "lane", "outcome")
        for lane, counts in lanes.items():
            for outcome in _OUTCOMES:
                ended.add_metric((tenant, lane.name, outcome), getattr(counts, outcome))
        yield ended
        yield self._delays()
        yield from self._types()
        yield from self._gauges()

    def _delays(self) -> Metric:
        """Without a sum, which the roll-up does not have."""
        family = Metric("gnomon_tenant_start_delay_seconds", "From due to claimed.", "histogram")
        for lane, counts in self._found.lanes.items():
            labels = {"tenant": self._found.tenant_id, "lane": lane.name}
            for bound, count in zip(_BOUNDS, accumulate(counts.delays), strict=True):
                family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
            family.add_sample(f"{family.name}_count", labels, sum(counts.delays))
        return family

    def _types(self) -> Iterator[Metric]:
        tenant = self._found.tenant_id
        ended = _counter(
            "type_executions", "Executions of the busiest types.", "task_type", "outcome"
        )
        seconds = _counter("type_run_seconds", "How long they ran, together.", "task_type")
        for name, counts in self._found.types.items():
            for outcome in _OUTCOMES:
                ended.add_metric((tenant, name, outcome), getattr(counts, outcome))
            seconds.add_metric((tenant, name), counts.seconds)
        yield from (ended, seconds)

    def _gauges(self) -> Iterator[Metric]:
        tenant = self._found.tenant_id
        tasks = GaugeMetricFamily(
            "gnomon_tenant_tasks",
            "Tasks by status, each counted up to 10 000.",
            labels=("tenant", "state"),
        )
        for state, count in self._found.tasks.items():
            tasks.add_metric((tenant, state), count)
        oldest = GaugeMetricFamily(
            "gnomon_tenant_oldest_due_seconds",
            "How long the first due task has waited.",
            labels=("tenant", "lane"),
        )
        for lane, waited in self._found.oldest_due.items():
            oldest.add_metric((tenant, lane.name), waited)
        yield from (tasks, oldest)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"gnomon_tenant_{name}", text, labels=("tenant", *labels))
