"""Metrics of what waits and runs on a node, and of how it claims and settles."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gnomon.model.tasks.priority import Lane
from gnomon.observe.events import BreakerClosed, BreakerOpened, BreakersForgotten, QueueSeen
from gnomon.observe.metrics.histograms import BucketCounts
from gnomon.observe.metrics.installation import InstallationMetrics
from gnomon.observe.node_events import (
    ClaimAnswered,
    InstallationSeen,
    LeaseRenewal,
    NodeEvent,
    NodeSeen,
    PoolUse,
    Recovery,
    RoomSeen,
    SettlementAnswered,
    TasksRecovered,
)

_BATCHES = (1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RECOVERIES = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_RENEWALS = {True: "renewed", False: "failed"}


class BreakerMetrics:
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


class QueueMetrics:
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


class StatementMetrics(Collector):
    """Claims and settlements: how many tasks a statement is for, and how long it takes."""

    def __init__(self) -> None:
        self._claims = BucketCounts(_BATCHES), BucketCounts(_SECONDS)
        self._settlements = BucketCounts(_BATCHES), BucketCounts(_SECONDS)

    def claimed(self, answered: ClaimAnswered) -> None:
        tasks, seconds = self._claims
        tasks.observe(answered.claimed)
        seconds.observe(answered.seconds)

    def settled(self, answered: SettlementAnswered) -> None:
        tasks, seconds = self._settlements
        tasks.observe(answered.settlements)
        seconds.observe(answered.seconds)

    def collect(self) -> Iterator[Metric]:
        for what, text, (tasks, seconds) in (
            ("claim", "claimed", self._claims),
            ("settle", "settled", self._settlements),
        ):
            family = HistogramMetricFamily(
                f"gnomon_{what}_batch_tasks", f"Tasks that a statement has {text}."
            )
            tasks.show(family)
            yield family
            family = HistogramMetricFamily(
                f"gnomon_{what}_seconds", f"How long a statement took that {text} tasks."
            )
            seconds.show(family)
            yield family


class OwnMetrics:
    """What a node has and uses, and the events of its own work."""

    def __init__(self, registry: CollectorRegistry, *, alone: bool = True) -> None:
        """`alone`: nobody else in the process tells of its connections, and of the installation."""
        self._statements = StatementMetrics()
        registry.register(self._statements)
        self._missed = Counter(
            "gnomon_claims_missed",
            "Due tasks that were chosen and not claimed: others had them, or they had changed.",
            registry=registry,
        )
        self._recoveries = Counter(
            "gnomon_recoveries",
            "Running tasks taken from a node that died, is late, or does not know them.",
            ["reason"],
            registry=registry,
        )
        for reason in Recovery:
            self._recoveries.labels(reason.value)
        self._silences = Histogram(
            "gnomon_recovery_seconds",
            "From when the lease of a lost node ran out to when tasks of it were taken over.",
            buckets=_RECOVERIES,
            registry=registry,
        )
        self._disk = DiskMetrics()
        if alone:
            registry.register(self._disk)
        self._renewals = Counter(
            "gnomon_lease_renewals", "Renewals of the lease.", ["result"], registry=registry
        )
        for result in _RENEWALS.values():
            self._renewals.labels(result)
        self._slots = Gauge("gnomon_slots", "Tasks that can run at once.", registry=registry)
        self._busy = Gauge("gnomon_slots_busy", "Tasks that run.", registry=registry)
        self._shards = Gauge("gnomon_shards", "Shards that the node serves.", registry=registry)
        self._offset = Gauge(
            "gnomon_clock_offset_seconds",
            "How far the database's clock is ahead of this machine's.",
            registry=registry,
        )
        self._connections = ConnectionMetrics(registry if alone else CollectorRegistry())
        self._installation = InstallationMetrics()
        if alone:
            registry.register(self._installation)

    def __call__(self, event: NodeEvent) -> None:
        match event:
            case ClaimAnswered():
                self._statements.claimed(event)
                if event.missed:
                    self._missed.inc(event.missed)
            case SettlementAnswered():
                self._statements.settled(event)
            case TasksRecovered(reason, count, silences):
                self._recoveries.labels(reason.value).inc(count)
                for seconds in silences:
                    self._silences.observe(seconds)
            case RoomSeen(free, disk):
                self._disk.set(free, disk)
            case LeaseRenewal(renewed):
                self._renewals.labels(_RENEWALS[renewed]).inc()
            case InstallationSeen(overview):
                self._installation.seen = overview
            case NodeSeen():
                self._slots.set(event.slots)
                self._busy.set(event.busy)
                self._shards.set(event.shards)
                self._offset.set(event.clock_offset)
                self._connections.set(event.connections)


class DiskMetrics(Collector):
    """The disk of PostgreSQL; nothing where this machine does not have it."""

    def __init__(self) -> None:
        self._free: int | None = None
        self._disk: int | None = None

    def set(self, free: int | None, disk: int | None) -> None:
        self._free, self._disk = free, disk

    def collect(self) -> Iterator[Metric]:
        for name, text, value in (
            ("gnomon_disk_free_bytes", "Free on the disk of PostgreSQL.", self._free),
            ("gnomon_disk_bytes", "Its size.", self._disk),
        ):
            yield GaugeMetricFamily(name, text, value=value)


class ConnectionMetrics:
    """Connections of a process to the database."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._connections = Gauge(
            "gnomon_database_connections",
            "Connections to the database: used, idle, and how many there can be.",
            ["state"],
            registry=registry,
        )
        self._waiting = Gauge(
            "gnomon_database_waiting",
            "Statements that wait for a connection to the database.",
            registry=registry,
        )
        self.set(PoolUse(0, 0, 0, 0))

    def set(self, use: PoolUse) -> None:
        for state in ("used", "idle", "limit"):
            self._connections.labels(state).set(getattr(use, state))
        self._waiting.set(use.waiting)
