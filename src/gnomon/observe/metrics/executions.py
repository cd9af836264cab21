"""Metrics of executions, by priority and by whether a cron job made the task.

Counted from the counts of events, a batch at a time.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gnomon.model.insight.activity import DELAY_BOUNDS
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.observe.counts import RUN_BOUNDS, Counted, EndCount, StartCount
from gnomon.observe.metrics.histograms import BucketCounts

KINDS = {False: "one_time", True: "recurring"}
_FAILURES = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST)
_BY = ("lane", "kind")


class _Series:
    """The counts of one priority and kind."""

    __slots__ = ("completed", "dead", "delays", "ended", "labels", "retries", "runs", "started")

    def __init__(self, lane: Lane, recurring: bool) -> None:
        self.labels = (lane.name, KINDS[recurring])
        self.started = 0
        self.ended = dict.fromkeys(OutcomeKind, 0)
        self.retries = 0
        self.dead = 0
        self.completed = 0
        self.delays = BucketCounts(DELAY_BOUNDS)
        self.runs = BucketCounts(RUN_BOUNDS)


class ExecutionMetrics(Collector):
    """All series are there from the start, at zero."""

    def __init__(self) -> None:
        self._series = {
            (lane, recurring): _Series(lane, recurring) for lane in Lane for recurring in KINDS
        }
        self._faults = {False: 0, True: 0}  # by whether they are Gnomon's own

    def started(self, starts: Counted[StartCount]) -> None:
        for each in starts:
            series = self._series[each.lane, each.recurring]
            series.started += each.number
            series.delays.add(each.delays, each.seconds)

    def ended(self, ends: Counted[EndCount]) -> None:
        for each in ends:
            series = self._series[each.lane, each.recurring]
            number, outcome, state = each.number, each.outcome, each.state
            if outcome is not None:
                # A cancelled execution is recorded as that, however it ended.
                ended = OutcomeKind.CANCELLED if state is State.CANCELLED else outcome
                series.ended[ended] += number
                series.runs.add(each.runs, each.seconds)
            if state is State.COMPLETED:
                series.completed += number
                continue
            if state is State.DEAD:
                series.dead += number
            if outcome in _FAILURES and state is not State.CANCELLED:
                self._faults[each.internal] += number
                if state is State.WAITING:
                    series.retries += number
            elif outcome is None and state is State.DEAD:
                self._faults[True] += number  # it could not be read or stored

    def collect(self) -> Iterator[Metric]:
        started = _counter("gnomon_executions_started", "Executions that were claimed.", *_BY)
        ended = _counter("gnomon_executions_ended", "Executions, by their end.", *_BY, "outcome")
        retries = _counter("gnomon_retries", "Executions that failed and are tried again.", *_BY)
        dead = _counter("gnomon_dead_letters", "Tasks that became dead letters.", *_BY)
        completed = _counter("gnomon_tasks_completed", "Tasks that have succeeded.", *_BY)
        delays = _histogram("gnomon_start_delay_seconds", "From due to claimed.", *_BY)
        runs = _histogram("gnomon_run_seconds", "How long executions ran.", *_BY)
        for series in self._series.values():
            started.add_metric(series.labels, series.started)
            for outcome, number in series.ended.items():
                ended.add_metric((*series.labels, outcome.label), number)
            retries.add_metric(series.labels, series.retries)
            dead.add_metric(series.labels, series.dead)
            completed.add_metric(series.labels, series.completed)
            series.delays.show(delays, series.labels)
            series.runs.show(runs, series.labels)
        faults = _counter("gnomon_failures", "Executions that failed, by whose fault.", "fault")
        for internal, fault in ((False, "receiver"), (True, "gnomon")):
            faults.add_metric((fault,), self._faults[internal])
        return iter((started, ended, retries, dead, completed, delays, runs, faults))


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, labels=labels)


def _histogram(name: str, text: str, *labels: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, text, labels=labels)
