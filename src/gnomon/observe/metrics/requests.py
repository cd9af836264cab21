"""Metrics of requests to an API process, and of the tasks that it stored."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import Submission
from gnomon.observe.metrics.executions import KINDS
from gnomon.observe.metrics.histograms import BucketCounts

# Around the objective of 100 ms more closely.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 10.0)
_CLASSES = {1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}


class RequestMetrics(Collector):
    """Counts requests by the class of their status, and how long they took."""

    def __init__(self) -> None:
        self._codes = dict.fromkeys(_CLASSES.values(), 0)
        del self._codes["1xx"]  # no answer to a request
        self._seconds = BucketCounts(_SECONDS)
        self._submit_seconds = BucketCounts(_SECONDS)
        self._submissions = {(lane, recurring): 0 for lane in Lane for recurring in KINDS}

    def answered(self, status: int, seconds: float | None, *, submits: bool) -> None:
        """`seconds` is None where the answer had to wait for something: it says nothing."""
        self._codes[_CLASSES[status // 100]] += 1
        if seconds is None:
            return
        self._seconds.observe(seconds)
        if submits:
            self._submit_seconds.observe(seconds)

    def submitted(self, submissions: Sequence[Submission]) -> None:
        """These were committed."""
        kinds = Counter([(each.priority, each.cron_job_id is not None) for each in submissions])
        for kind, number in kinds.items():
            self._submissions[kind] += number

    def collect(self) -> Iterator[Metric]:
        codes = CounterMetricFamily(
            "gnomon_requests", "Requests, by the class of their status.", labels=("code",)
        )
        for code, number in self._codes.items():
            codes.add_metric((code,), number)
        submissions = CounterMetricFamily(
            "gnomon_submissions", "Tasks that this process has stored.", labels=("lane", "kind")
        )
        for (lane, recurring), number in self._submissions.items():
            submissions.add_metric((lane.name, KINDS[recurring]), number)
        seconds = HistogramMetricFamily(
            "gnomon_request_seconds",
            "From a request to the start of its answer, without those that wait for a task.",
        )
        self._seconds.show(seconds)
        submit = HistogramMetricFamily(
            "gnomon_submit_seconds", "The same, of requests that submit tasks."
        )
        self._submit_seconds.show(submit)
        return iter((codes, submissions, seconds, submit))
