"""Metrics by task type, of a bounded number of types.

The busiest types have series of their own, all others are `other`. The first ones of a process have
theirs at once; then, once a minute, a type of the others that has become clearly busier than the
least busy one takes its place: its series begins at 0, and that of the other ends. What was counted
stays where it was, so no counter falls, and sums over all types are right.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.observe.counts import Counted, EndCount

MOST_TYPES = 50
LONGEST_NAME = 200
OTHER = "other"
PERIOD_LOOKS = 60  # of a second each, after which types may take the places of others
_CLEARLY, _LEAST = 2, 10  # times as many executions of a period, and at least so many more
_MOST_WATCHED = 1_000  # types among the others


class _TypeSeries:
    __slots__ = ("before", "ended", "seconds")

    def __init__(self) -> None:
        self.ended: dict[OutcomeKind, int] = {}
        self.seconds = 0.0
        self.before = 0  # executions until this period began

    @property
    def executions(self) -> int:
        return sum(self.ended.values())


class TypeMetrics(Collector):
    """Counts executions of the `MOST_TYPES` busiest types, and of all others together."""

    def __init__(self) -> None:
        self._other = _TypeSeries()
        self._named: dict[str, _TypeSeries] = {}
        self._watched: dict[str, int] = {}  # executions of the others in this period
        self._looks = 0

    def ended(self, ends: Counted[EndCount]) -> None:
        for each in ends:
            if each.outcome is None:
                continue
            series = self._named.get(each.task_type) or self._of(each.task_type, each.number)
            ended = OutcomeKind.CANCELLED if each.state is State.CANCELLED else each.outcome
            series.ended[ended] = series.ended.get(ended, 0) + each.number
            series.seconds += each.seconds

    def collect(self) -> Iterator[Metric]:
        ended = CounterMetricFamily(
            "gnomon_type_executions",
            f"Executions by task type: of the {MOST_TYPES} busiest, and all others together.",
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

    def looked(self) -> None:
        """A second is over; after a period of them, types take the places of others."""
        self._looks += 1
        if self._looks % PERIOD_LOOKS == 0:
            self._exchange()

    def _exchange(self) -> None:
        idle = sorted(self._named, key=lambda name: self._recent(self._named[name]))
        busy = sorted(self._watched, key=self._watched.__getitem__, reverse=True)
        for leaves, comes in zip(idle, busy, strict=False):
            least = self._recent(self._named[leaves])
            if self._watched[comes] < max(_CLEARLY * least, least + _LEAST):
                break
            del self._named[leaves]
            self._named[comes] = _TypeSeries()
        self._watched.clear()
        for series in self._named.values():
            series.before = series.executions

    def _recent(self, series: _TypeSeries) -> int:
        return series.executions - series.before

    def _of(self, task_type: str, executions: int) -> _TypeSeries:
        if len(task_type) > LONGEST_NAME or task_type == OTHER:  # it would be the same series
            return self._other
        if len(self._named) < MOST_TYPES:
            return self._named.setdefault(task_type, _TypeSeries())
        self._watched[task_type] = self._watched.get(task_type, 0) + executions
        if len(self._watched) > _MOST_WATCHED:
            busiest = sorted(self._watched.items(), key=lambda each: each[1], reverse=True)
            self._watched = dict(busiest[: _MOST_WATCHED // 2])
        return self._other
