"""Metrics of a process, as Prometheus reads them.

Each process counts for itself and starts at zero; sums over all of them are for the one who
asks. Labels have a handful of values that are known beforehand: no ids, no tenants.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from gnomon.cron.job import Skipped
from gnomon.model.priority import Lane
from gnomon.model.retention import RowKind
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
    SlaMissed,
    TaskPreempted,
    TasksStarted,
    place,
)
from gnomon.observe.scrapes import scraped
from gnomon.settings import OutputSettings, SettingsError
from gnomon.version import VERSION

# A start is late by milliseconds, or by as long as something was broken.
_DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_SKIPPED = (Skipped.OVERLAP, Skipped.SUPERSEDED)
_REQUEST_LIMITS = ("address", "key", "failures", "under_way", "process")
_CLOSED = ("address", "idle")
_PLACES = ("loop", "thread")  # where handlers run

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

    def __call__(self, event: Event) -> None:
        """Count what concerns every process."""
        match event:
            case ChoreFailed(chore):
                self._chore_errors.labels(chore).inc()

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """All of them in the format that `accept` asks for, and its media type."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type


class ApiMetrics(Metrics):
    """Metrics of an API process: its own, and those that the store knows of all."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes = Gauge(
            "gnomon_nodes", "Scheduler nodes in the roster.", ["state"], registry=self.registry
        )
        self._unserved = Gauge(
            "gnomon_work_unserved",
            "Kinds of work (tenant, type, queue, lane) that wait and are in no node's pool.",
            registry=self.registry,
        )

        self._full = Gauge(
            "gnomon_no_room",
            "1 while new work is refused for want of room.",
            registry=self.registry,
        )
        self._under_way = Gauge(
            "gnomon_requests_under_way", "Requests that are being answered.", registry=self.registry
        )
        self._body_bytes = Gauge(
            "gnomon_request_body_bytes",
            "Bytes of body_memory_bytes that bodies of requests hold.",
            registry=self.registry,
        )

        self._refused = Counter(
            "gnomon_requests_refused",
            "Requests that were refused before they were looked at, by the limit they exceed.",
            ["limit"],
            registry=self.registry,
        )
        self._closed = Counter(
            "gnomon_connections_closed",
            "Connections closed: beyond what an address may have, or idle where room is needed.",
            ["reason"],
            registry=self.registry,
        )
        for limit in _REQUEST_LIMITS:
            self._refused.labels(limit)
        for reason in _CLOSED:
            self._closed.labels(reason)

    def refused(self, limit: str) -> None:
        """A request exceeds a limit."""
        self._refused.labels(limit).inc()

    def closed(self, reason: str, number: int) -> None:
        """So many connections were closed."""
        self._closed.labels(reason).inc(number)

    def full(self, is_full: bool) -> None:
        """Whether there is no room for new work."""
        self._full.set(is_full)

    def requests(self, under_way: int, body_bytes: int) -> None:
        """Set how many requests are under way, and the bytes of their bodies."""
        self._under_way.set(under_way)
        self._body_bytes.set(body_bytes)

    def unserved(self, count: int) -> None:
        """Kinds of work that no node serves."""
        self._unserved.set(count)

    def nodes(self, count: Mapping[str, int]) -> None:
        """Nodes by state; none where the store could not be asked."""
        self._nodes.clear()
        for state, nodes in count.items():
            self._nodes.labels(state).set(nodes)


class NodeMetrics(Metrics):
    """Metrics of a node, counted from the engine's events."""

    def __init__(self) -> None:
        super().__init__()
        self._cron = _CronMetrics(self.registry)
        self._handlers = _HandlerMetrics(self.registry)
        self._breakers = _BreakerMetrics(self.registry)
        self._queue = _QueueMetrics(self.registry)
        self._quarantine = _QuarantineMetrics(self.registry)
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
        for kind in RowKind:
            self._retention.labels(kind.value)

    def __call__(self, event: Event) -> None:
        match event:
            case ChoreFailed():
                super().__call__(event)
            case RunsPlanned() | FiresMissed() | RunSkipped() | TasksStarted() | SlaMissed():
                self._cron(event)
            case HandlerHung() | HandlerReturned():
                self._handlers(event)
            case BreakerOpened() | BreakerClosed() | BreakersForgotten():
                self._breakers(event)
            case QueueSeen():
                self._queue(event)
            case TaskPreempted():
                self._preempted.inc()
            case RetentionSeen(kind, seconds):
                self._retention.labels(kind.value).set(seconds)
            case ChildDied() | ChildUnfit():
                self._quarantine(event)

    @contextmanager
    def served(self, settings: OutputSettings) -> Iterator[None]:
        """Answer scrapes on `metrics_port`, from a thread, so that a busy loop can be seen too."""
        host, port = settings.metrics_host, settings.metrics_port
        if port == 0:
            yield
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(scraped(self.registry, host, port))
            except OSError as error:
                raise SettingsError(
                    f"metrics cannot be served on {host}:{port} ({error.strerror}); "
                    "give each node on a machine an output.metrics_port of its own, or 0 for none"
                ) from error
            yield


class _CronMetrics:
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


class _HandlerMetrics:
    """Handlers that ignore being told to stop, by where they run."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._hung = Gauge(
            "gnomon_handlers_hung",
            "Handlers that go on although they were told to stop.",
            ["runs_in"],
            registry=registry,
        )
        self._given_up = Counter(
            "gnomon_handlers_given_up",
            "Handlers that ignored being told to stop, and were replaced.",
            ["runs_in"],
            registry=registry,
        )
        for where in _PLACES:
            self._hung.labels(where)
            self._given_up.labels(where)

    def __call__(self, event: HandlerHung | HandlerReturned) -> None:
        where = place(event.handler)
        if isinstance(event, HandlerHung):
            self._hung.labels(where).inc()
            self._given_up.labels(where).inc()
        else:
            self._hung.labels(where).dec()


class _QuarantineMetrics:
    """Child processes that run suspects."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deaths = Counter(
            "gnomon_quarantine_deaths",
            "Processes that died while they ran suspects: one alone, or a group.",
            ["of"],
            registry=registry,
        )
        self._unfit = Counter(
            "gnomon_quarantine_start_failures",
            "Processes for suspects that could not be started.",
            registry=registry,
        )
        for what in ("one", "group"):
            self._deaths.labels(what)

    def __call__(self, event: ChildDied | ChildUnfit) -> None:
        if isinstance(event, ChildDied):
            self._deaths.labels("one" if event.alone else "group").inc()
        else:
            self._unfit.inc()


class _BreakerMetrics:
    """Breakers of this node, by what they keep from being called."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge(
            "gnomon_breakers_open",
            "Breakers that are open: tasks wait for a host, or for their tenant's calls to work.",
            ["of"],
            registry=registry,
        )
        self._openings = Counter(
            "gnomon_breaker_openings", "Breakers that have opened.", ["of"], registry=registry
        )
        for what in ("host", "tenant"):
            self._open.labels(what)
            self._openings.labels(what)

    def __call__(self, event: BreakerOpened | BreakerClosed | BreakersForgotten) -> None:
        if isinstance(event, BreakersForgotten):
            for what in ("host", "tenant"):
                self._open.labels(what).set(0)
            return
        what = "tenant" if event.host is None else "host"
        if isinstance(event, BreakerOpened):
            self._open.labels(what).inc()
            self._openings.labels(what).inc()
        else:
            self._open.labels(what).dec()


class _QueueMetrics:
    """Due tasks that wait on this node, by priority."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ready = Gauge(
            "gnomon_ready_tasks",
            "Due tasks that the node knows of, and that wait for a slot.",
            ["lane"],
            registry=registry,
        )
        self._longest = Gauge(
            "gnomon_longest_wait_seconds",
            "How long the first of those has been due.",
            ["lane"],
            registry=registry,
        )
        for lane in Lane:
            self._ready.labels(lane.name)
            self._longest.labels(lane.name)

    def __call__(self, seen: QueueSeen) -> None:
        for lane in Lane:
            self._ready.labels(lane.name).set(seen.ready[lane])
            self._longest.labels(lane.name).set(seen.longest_waits[lane])


def _label(reason: Skipped) -> str:
    return reason.name.lower()
