"""Metrics of the fires of cron jobs."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from gnomon.cron.job import Skipped
from gnomon.observe.events import FiresMissed, RunSkipped, RunsPlanned, SlaMissed, TasksStarted

# A start is late by milliseconds, or by as long as something was broken.
_DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_SKIPPED = (Skipped.OVERLAP, Skipped.SUPERSEDED)


class CronMetrics:
    """Metrics of the fires of cron jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._planned = Counter(
            "gnomon_cron_runs_planned", "Runs of cron jobs that were planned.", registry=registry
        )
        self._missed = Counter(
            "gnomon_cron_fires_missed",
            "Fires of cron jobs that nobody could start in time, and that got no run.",
            registry=registry,
        )
        self._skipped = Counter(
            "gnomon_cron_runs_skipped",
            "Runs of cron jobs that an overlap policy kept from starting.",
            ["reason"],
            registry=registry,
        )
        for reason in _SKIPPED:
            self._skipped.labels(_label(reason))  # zero from the start, or a rate has no first step
        self._sla_missed = Counter(
            "gnomon_cron_sla_missed",
            "Fires of cron jobs that did not start within their SLA.",
            registry=registry,
        )
        self._start_delay = Histogram(
            "gnomon_cron_start_delay_seconds",
            "From when a cron job's run was due to the claim of its first execution.",
            buckets=_DELAYS,
            registry=registry,
        )

    def __call__(
        self, event: RunsPlanned | FiresMissed | RunSkipped | TasksStarted | SlaMissed
    ) -> None:
        match event:
            case RunsPlanned(count):
                self._planned.inc(count)
            case FiresMissed(count):
                self._missed.inc(count)
            case RunSkipped(reason):
                self._skipped.labels(_label(reason)).inc()
            case TasksStarted(runs=runs):
                for run in runs:
                    if run.attempt == 1:
                        self._start_delay.observe(run.delay_seconds)
            case SlaMissed():
                self._sla_missed.inc()


def _label(reason: Skipped) -> str:
    return reason.name.lower()
