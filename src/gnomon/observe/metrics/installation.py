"""Metrics of the whole installation, shown by the one node that looks."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gnomon.model.insight.overview import InstallationOverview

_SINGLE = {
    "gnomon_hottest_shard_ratio": (
        "hottest_shard",
        "Due tasks of the shard that has most, against the mean of all shards.",
    ),
    "gnomon_limiter_use_ratio": ("limiter_use", "The highest use of any limiter, from 0 to 1."),
    "gnomon_limiters_full": ("limiters_full", "Limiters, by key, that are used up."),
    "gnomon_feed_backlog": (
        "feed_backlog",
        "Outcomes that are not yet published. Up to 10 000 of each feed are counted.",
    ),
    "gnomon_feeds_behind": (
        "feeds_behind",
        "Feeds whose first outcome has waited for a minute, or that have a gap.",
    ),
    "gnomon_partitions_ahead_days": (
        "partitions_ahead",
        "Days from today on for which all tables have their partitions.",
    ),
    "gnomon_replication_lag_seconds": (
        "replication_lag",
        "How far the last of the standbys is behind. Absent where there is none, or no right.",
    ),
    "gnomon_database_bytes": ("database_bytes", "The size of the database."),
    "gnomon_installation_looked_timestamp_seconds": ("at", "When all of this was looked at."),
}
_STATES = {
    "ready": "ready",  # up to 100 of a shard
    "scheduled": "scheduled",
    "running": "running",
    "dead_lettered": "dead",
}


class InstallationMetrics(Collector):
    """What was seen last; nothing while another node looks."""

    def __init__(self) -> None:
        self.seen: InstallationOverview | None = None

    def collect(self) -> Iterator[Metric]:
        seen = self.seen
        tasks = GaugeMetricFamily(
            "gnomon_tasks",
            "Tasks of all tenants, by state. Counts are capped: 100 ready and 40 scheduled ones of "
            "each of 256 shards, 10 000 of other states.",
            labels=("state",),
        )
        oldest = GaugeMetricFamily(
            "gnomon_oldest_due_seconds", "How long the first due task has waited.", labels=("lane",)
        )
        batches = GaugeMetricFamily(
            "gnomon_batches",
            "Batches of all tenants that are open, or kept after their members have ended. Up to "
            "10 000 of each are counted.",
            labels=("state",),
        )
        unheld = GaugeMetricFamily(
            "gnomon_chore_unheld_seconds",
            "For how long a chore of the installation has had no holder; 0 while it has one.",
            labels=("chore",),
        )
        if seen is not None:
            for state, field in _STATES.items():
                _add(tasks, (state,), getattr(seen, field))
            _add(batches, ("open",), seen.batches_open)
            _add(batches, ("ended",), seen.batches_ended)
            for lane, seconds in (seen.oldest_due or {}).items():
                oldest.add_metric((lane.name,), seconds)
            for chore, seconds in (seen.chores_unheld or {}).items():
                unheld.add_metric((chore,), seconds)
        yield from (tasks, oldest, batches, unheld)
        for name, (field, text) in _SINGLE.items():
            family = GaugeMetricFamily(name, text)
            _add(family, (), None if seen is None else getattr(seen, field))
            yield family


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)
