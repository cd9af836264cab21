"""The page of metrics and the registries name the same metrics, with the same labels."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from tests.unit.observe.test_execution_metrics import ended, settled, started

from gnomon.model.insight.activity import Counts
from gnomon.model.insight.overview import InstallationOverview
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.observe.events import ChoreFailed, Event
from gnomon.observe.metrics.api import ApiMetrics
from gnomon.observe.metrics.gateway import GatewayMetrics
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.metrics.tenant import TenantSeries, collected
from gnomon.observe.node_events import InstallationSeen, RoomSeen, SessionsSeen

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
NAMED = re.compile(r"`(gnomon_\w+)(?:\{([\w,]*)\})?`")
SEEN = InstallationOverview(
    at=1.0, ready=1, scheduled=1, running=1, dead=1, oldest_due={Lane.LOW: 1.0}, hottest_shard=1.0,
    limiter_use=0.5, limiters_full=0, partitions_ahead=8, replication_lag=0.1, database_bytes=9,
    chores_unheld={"prune": 0.0}, batches_open=1, batches_ended=1, feed_backlog=1, feeds_behind=1,
)  # fmt: skip
TENANT = TenantSeries(
    tenant_id="a",
    lanes={Lane.LOW: Counts()},
    types={"t": Counts()},
    tasks={"ready": 1},
    oldest_due={Lane.LOW: 0.0},
)
EVENTS: list[Event] = [
    started(0.1), settled(ended(OutcomeKind.SUCCEEDED, State.COMPLETED)),
    InstallationSeen(SEEN), RoomSeen(1, 2), ChoreFailed("x"),
]  # fmt: skip


def shown(families: Iterable[Metric]) -> Iterator[tuple[str, frozenset[str]]]:
    for family in families:
        for sample in family.samples:
            name = sample.name
            if family.type == "histogram":
                name = re.sub("_(bucket|count|sum)$", "", name)
            if name.startswith("gnomon_"):
                yield name, frozenset(sample.labels) - {"le"}


def test_the_page_names_what_is_shown_and_nothing_else() -> None:
    node, api = NodeMetrics(), ApiMetrics()
    for event in EVENTS:
        node(event)
    api.nodes({"alive": 1})
    api.pipe_seen("redis", True)
    gateway = CollectorRegistry()
    GatewayMetrics(gateway)(SessionsSeen(sessions=1, waiting=0, delivered=1, accepted=1, refused=1))
    families = [
        *node.registry.collect(),
        *api.registry.collect(),
        *gateway.collect(),
        *collected(TENANT),
    ]
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `gnomon_")]
    named = {
        (name, frozenset(labels.split(",")) if labels else frozenset())
        for row in rows
        for name, labels in NAMED.findall(row.split(" | ")[0])
    }
    assert named == set(shown(families))
