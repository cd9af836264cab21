"""Metrics of an API process."""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge

from gnomon.observe.metrics.dispatch import ConnectionMetrics
from gnomon.observe.metrics.process import Metrics
from gnomon.observe.metrics.requests import RequestMetrics
from gnomon.observe.node_events import PoolUse

_REQUEST_LIMITS = ("address", "key", "failures", "under_way", "process")
_CLOSED = ("address", "idle")


class ApiMetrics(Metrics):
    """Metrics of an API process: its own, and those that the store knows of all."""

    def __init__(self) -> None:
        super().__init__()
        self.traffic = RequestMetrics()
        self.registry.register(self.traffic)
        self._connections = ConnectionMetrics(self.registry)
        self._nodes = self._gauge("gnomon_nodes", "Scheduler nodes in the roster.", "state")
        self._unserved = self._gauge(
            "gnomon_work_unserved",
            "Kinds of work (tenant, type, queue, lane) that wait and are in no node's pool.",
        )
        self._full = self._gauge("gnomon_no_room", "1 while new work is refused for want of room.")
        self._crowded = self._gauge(
            "gnomon_lanes_crowded",
            "Lanes of tenants for which new tasks are refused because too many wait.",
        )
        self._under_way = self._gauge(
            "gnomon_requests_under_way", "Requests that are being answered."
        )
        self._body_bytes = self._gauge(
            "gnomon_request_body_bytes", "Bytes of body_memory_bytes that bodies of requests hold."
        )
        self._pipe = self._gauge(
            "gnomon_pipe_up",
            "1 while the server that workers are reached through answers, by its kind.",
            "pipe",
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

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)

    def connections(self, use: PoolUse) -> None:
        """How the connections to the database are used."""
        self._connections.set(use)

    def refused(self, limit: str) -> None:
        """A request exceeds a limit."""
        self._refused.labels(limit).inc()

    def closed(self, reason: str, number: int) -> None:
        """So many connections were closed."""
        self._closed.labels(reason).inc(number)

    def full(self, is_full: bool) -> None:
        """Whether there is no room for new work."""
        self._full.set(is_full)

    def crowded(self, lanes: int) -> None:
        """For how many lanes new tasks are refused."""
        self._crowded.set(lanes)

    def pipe_seen(self, pipe: str, up: bool) -> None:
        """Whether the broker answers that workers are reached through."""
        self._pipe.labels(pipe).set(up)

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
