"""Metrics of one tenant: what became of its tasks today, and how many there are.

Sums grow from midnight (UTC) on, and begin again at the next one, as a counter does whose process
was started anew: readers of counters know how to take that.
"""

from datetime import datetime, timedelta

from gnomon.model.insight.activity import ALL_TYPES, Counts
from gnomon.model.tasks.priority import Lane
from gnomon.observe.metrics.tenant import TenantSeries
from gnomon.store.ports.insight.activity import ActivityRange
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.tasks.task_store import PostgresTasks

MOST_TYPES = 50
_DAY = timedelta(days=1)


async def tenant_metrics(
    activity: PostgresActivity, tasks: PostgresTasks, tenant_id: str, now: datetime
) -> TenantSeries:
    """All of them, by lane, and the busiest types of today."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    within = ActivityRange(midnight, midnight + _DAY, _DAY)
    lanes = {}
    for lane in Lane:
        points = await activity.points(tenant_id, within, ALL_TYPES, lane)
        lanes[lane] = points[0].counts if points else Counts()
    types = await activity.types(tenant_id, within, None)
    types.sort(key=lambda each: (-each.counts.weight, each.task_type or ""))
    stats = await tasks.stats(tenant_id, TaskFilter())
    return TenantSeries(
        tenant_id=tenant_id,
        lanes=lanes,
        types={each.task_type: each.counts for each in types[:MOST_TYPES] if each.task_type},
        tasks={status.lower(): count.count for status, count in stats.statuses.items()},
        oldest_due={lane: load.oldest_ready_seconds or 0.0 for lane, load in stats.lanes.items()},
    )
