"""Metrics of a gateway, in the registry of the API process that it is in."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from gnomon.observe.events import (
    BreakerClosed,
    BreakerOpened,
    BreakersForgotten,
    Event,
    FiresMissed,
    QueueSeen,
    RunSkipped,
    RunsPlanned,
    SettlementsPresumed,
    SlaMissed,
    TaskPreempted,
    TasksBuried,
    TasksSettled,
    TasksStarted,
)
from gnomon.observe.metrics.cron import CronMetrics
from gnomon.observe.metrics.dispatch import BreakerMetrics, OwnMetrics, QueueMetrics
from gnomon.observe.metrics.executions import ExecutionMetrics
from gnomon.observe.metrics.task_types import TypeMetrics
from gnomon.observe.node_events import (
    ClaimAnswered,
    LeaseRenewal,
    NodeSeen,
    SessionsSeen,
    SettlementAnswered,
    TasksRecovered,
)


class GatewayMetrics:
    """What a node counts of tasks, under the same names; and its sessions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cron = CronMetrics(registry)
        self._breakers = BreakerMetrics(registry)
        self._queue = QueueMetrics(registry)
        self._own = OwnMetrics(registry, alone=False)
        self._executions = ExecutionMetrics()
        self._types = TypeMetrics()
        registry.register(self._executions)
        registry.register(self._types)
        self._preempted = Counter(
            "gnomon_preemptions",
            "Running tasks that were told to give way to a CRITICAL one.",
            registry=registry,
        )
        self._sessions = Gauge(
            "gnomon_worker_sessions",
            "Sessions of remote workers: waiting for an answer, or busy.",
            ["state"],
            registry=registry,
        )
        self._deliveries = Counter(
            "gnomon_deliveries", "Tasks delivered to remote workers.", registry=registry
        )
        self._reports = Counter(
            "gnomon_reports",
            "Reports of remote workers: accepted, or refused because their claim was stale.",
            ["result"],
            registry=registry,
        )
        for result in ("accepted", "refused"):
            self._reports.labels(result)

    def __call__(self, event: Event) -> None:
        match event:
            case TasksStarted(counts=starts):
                self._executions.started(starts)
                self._cron(event)
            case TasksSettled(counts=ends) | SettlementsPresumed(ends) | TasksBuried(ends):
                self._executions.ended(ends)
                self._types.ended(ends)
            case ClaimAnswered() | SettlementAnswered() | NodeSeen():
                self._own(event)
            case TasksRecovered() | LeaseRenewal():
                self._own(event)
            case RunsPlanned() | FiresMissed() | RunSkipped() | SlaMissed():
                self._cron(event)
            case BreakerOpened() | BreakerClosed() | BreakersForgotten():
                self._breakers(event)
            case QueueSeen():
                self._queue(event)
            case TaskPreempted():
                self._preempted.inc()
            case SessionsSeen():
                self._count(event)

    def _count(self, seen: SessionsSeen) -> None:
        self._sessions.labels("waiting").set(seen.waiting)
        self._sessions.labels("busy").set(seen.sessions - seen.waiting)
        self._deliveries.inc(seen.delivered)
        self._reports.labels("accepted").inc(seen.accepted)
        self._reports.labels("refused").inc(seen.refused)
