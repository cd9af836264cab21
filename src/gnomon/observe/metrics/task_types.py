"""Metrics by task type, of a bounded number of types.

A series keeps its name for as long as the process lives: a type that moved between its own series
and `other` would make counters that fall, which Prometheus takes for restarts. So the first types
of a process have series of their own; all later ones are `other`.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gnomon.model.lifecycle import State
from gnomon.model.outcome import OutcomeKind
from gnomon.observe.counts import Counted, EndCount

MOST_TYPES = 50
LONGEST_NAME = 200
OTHER = "other"


class _TypeSeries:
    __slots__ = ("ended", "seconds")

    def __init__(self) -> None:
        self.ended: dict[OutcomeKind, int] = {}
        self.seconds = 0.0


class TypeMetrics(Collector):
    """Counts executions of the first `MOST_TYPES` types, and of all others together."""

    def __init__(self) -> None:
        self._other = _TypeSeries()
        self._named: dict[str, _TypeSeries] = {}

    def ended(self, ends: Counted[EndCount]) -> None:
        for each in ends:
            if each.outcome is None:
                continue
            series = self._named.get(each.task_type) or self._of(each.task_type)
            ended = OutcomeKind.CANCELLED if each.state is State.CANCELLED else each.outcome
            series.ended[ended] = series.ended.get(ended, 0) + len(each.runs)
            series.seconds += each.seconds

    def collect(self) -> Iterator[Metric]:
        ended = CounterMetricFamily(
            "gnomon_type_executions",
            f"Executions by task type: of the first {MOST_TYPES}, and all others together.",
            labels=("task_type", "outcome"),
        )
        seconds = CounterMetricFamily(
            "gnomon_type_run_seconds",
            "How long executions of a task type ran, together.",
            labels=("task_type",),
        )
        for name, series in (*list(self._named.items()), (OTHER, self._other)):
            for outcome, number in list(series.ended.items()):
                ended.add_metric((name, outcome.label), number)
            seconds.add_metric((name,), series.seconds)
        return iter((ended, seconds))

    def _of(self, task_type: str) -> _TypeSeries:
        if (
            len(self._named) >= MOST_TYPES
            or len(task_type) > LONGEST_NAME
            or task_type == OTHER  # it would be the same series
        ):
            return self._other
        return self._named.setdefault(task_type, _TypeSeries())
