"""Metrics of a node, counted from the engine's events."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prometheus_client import Counter, Gauge

from gnomon.model.fleet.retention import RowKind
from gnomon.observe.events import (
    BreakerClosed,
    BreakerOpened,
    BreakersForgotten,
    ChildDied,
    ChildUnfit,
    ChoreFailed,
    Event,
    FiresMissed,
    HandlerHung,
    HandlerReturned,
    QueueSeen,
    RetentionSeen,
    RunSkipped,
    RunsPlanned,
    SettlementsPresumed,
    SlaMissed,
    SpansEnded,
    TaskPreempted,
    TasksBuried,
    TasksSettled,
    TasksStarted,
)
from gnomon.observe.health import NodeHealth
from gnomon.observe.metrics.cron import CronMetrics
from gnomon.observe.metrics.dispatch import BreakerMetrics, OwnMetrics, QueueMetrics
from gnomon.observe.metrics.executions import ExecutionMetrics
from gnomon.observe.metrics.handlers import HandlerMetrics, QuarantineMetrics
from gnomon.observe.metrics.process import Metrics
from gnomon.observe.metrics.task_types import TypeMetrics
from gnomon.observe.node_events import (
    ClaimAnswered,
    InstallationSeen,
    LeaseRenewal,
    NodeSeen,
    OutcomesPublished,
    RoomSeen,
    SettlementAnswered,
    TasksRecovered,
)
from gnomon.observe.scrapes import ProcessPages, scraped, told_to_siblings
from gnomon.observe.siblings import Siblings
from gnomon.settings import OutputSettings, SettingsError


class NodeMetrics(Metrics):
    """Metrics of a node, counted from the engine's events."""

    def __init__(self) -> None:
        super().__init__()
        self._cron = CronMetrics(self.registry)
        self._handlers = HandlerMetrics(self.registry)
        self._breakers = BreakerMetrics(self.registry)
        self._queue = QueueMetrics(self.registry)
        self._quarantine = QuarantineMetrics(self.registry)
        self._own = OwnMetrics(self.registry)
        self._executions = ExecutionMetrics()
        self._types = TypeMetrics()
        self.registry.register(self._executions)
        self.registry.register(self._types)
        self._preempted = Counter(
            "gnomon_preemptions",
            "Running tasks that were told to give way to a CRITICAL one.",
            registry=self.registry,
        )
        self._retention = Gauge(
            "gnomon_retention_behind_seconds",
            "How long rows past their time have waited to be removed, at the most.",
            ["rows"],
            registry=self.registry,
        )
        self._feeds = Counter(
            "gnomon_feed_events",
            "Outcomes that feeds have published, and how often a broker did not take some.",
            ["result"],
            registry=self.registry,
        )
        for result in ("published", "failed"):
            self._feeds.labels(result)
        for kind in RowKind:
            self._retention.labels(kind.value)

    def __call__(self, event: Event) -> None:
        match event:
            case TasksStarted(counts=starts):
                self._executions.started(starts)
                self._cron(event)
            case TasksSettled(counts=ends) | SettlementsPresumed(ends) | TasksBuried(ends):
                self._executions.ended(ends)
                self._types.ended(ends)
            case NodeSeen():
                self._own(event)
                self._types.looked()
            case ClaimAnswered() | SettlementAnswered():
                self._own(event)
            case TasksRecovered() | LeaseRenewal() | RoomSeen() | InstallationSeen():
                self._own(event)
            case ChoreFailed() | SpansEnded():
                super().__call__(event)
            case RunsPlanned() | FiresMissed() | RunSkipped() | SlaMissed():
                self._cron(event)
            case HandlerHung() | HandlerReturned():
                self._handlers(event)
            case BreakerOpened() | BreakerClosed() | BreakersForgotten():
                self._breakers(event)
            case QueueSeen():
                self._queue(event)
            case TaskPreempted():
                self._preempted.inc()
            case OutcomesPublished(count, failed):
                self._feeds.labels("published").inc(count)
                self._feeds.labels("failed").inc(failed)
            case RetentionSeen(kind, seconds):
                self._retention.labels(kind.value).set(seconds)
            case ChildDied() | ChildUnfit():
                self._quarantine(event)

    @contextmanager
    def served(self, settings: OutputSettings, health: NodeHealth) -> Iterator[None]:
        """Answer scrapes and probes on `metrics_port`, from a thread, so that a busy loop can be
        seen too; and those of siblings, where there are any."""
        host, port = settings.metrics_host, settings.metrics_port
        own = settings.metrics_socket
        pages = ProcessPages(self.registry, health, Siblings(Path(own)) if own else None)
        with ExitStack() as stack:
            try:
                if own:
                    stack.enter_context(told_to_siblings(pages.alone(), Path(own)))
                if port:
                    stack.enter_context(scraped(pages, host, port, shared=bool(own)))
            except OSError as error:
                raise SettingsError(
                    f"metrics cannot be served on {host}:{port} ({error.strerror}); "
                    "give each node on a machine an output.metrics_port of its own, or 0 for none"
                ) from error
            yield
