"""Tells who listens which tasks were claimed."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import starmap

from gnomon.model.tasks.task import TaskKey
from gnomon.observe.counts import Counted, StartCount, StartKind, start_count
from gnomon.observe.events import TaskBatch, TasksStarted, TaskStarted
from gnomon.pipe.envelope import NEVER, Delivery
from gnomon.store.ports.dispatch import Entry


def started_event(
    entries: Sequence[Entry], deliveries: Sequence[Delivery], now: datetime | None
) -> TasksStarted:
    """Of what was claimed at `now`, by its entries. Those that must not start are left out."""

    def tasks() -> Iterator[TaskStarted]:
        return _started({e.key: e for e in entries})

    def runs() -> Iterator[TaskStarted]:
        recurring = {e.key: e for e in entries if e.recurring}
        return _started(recurring) if recurring else iter(())

    def counts() -> Iterator[StartCount]:
        return iter(()) if now is None else _counted(_paired(entries, deliveries), now)

    def _started(due: dict[TaskKey, Entry]) -> Iterator[TaskStarted]:
        for delivery in deliveries:
            entry = due.get(delivery.key)
            if entry is None or now is None or delivery.expired or delivery.start_by == NEVER:
                continue
            yield TaskStarted(
                key=delivery.key,
                task_type=delivery.task_type,
                lane=delivery.lane,
                attempt=delivery.attempt,
                due_at=entry.due_at,
                started_at=now,
            )

    return TasksStarted(TaskBatch(tasks), TaskBatch(runs), Counted(counts))


def _paired(
    entries: Sequence[Entry], deliveries: Sequence[Delivery]
) -> Iterable[tuple[Entry, Delivery]]:
    """Deliveries are in the order of their entries."""
    if len(entries) == len(deliveries):
        return zip(entries, deliveries, strict=True)
    known = {e.key: e for e in entries}
    return ((known[d.key], d) for d in deliveries if d.key in known)


def _counted(claimed: Iterable[tuple[Entry, Delivery]], now: datetime) -> Iterator[StartCount]:
    """Done for every task, so as little as can be: most batches are of one kind."""
    kinds: dict[StartKind, list[float]] = {}
    last_type, last_tenant, last_lane, last_recurring = "", "", None, False
    delays: list[float] = []
    for entry, delivery in claimed:
        if delivery.expired or delivery.start_by == NEVER:
            continue
        tenant, task_type, lane = delivery.key.tenant_id, delivery.task_type, delivery.lane
        recurring = delivery.recurring
        if (
            task_type != last_type
            or lane is not last_lane
            or recurring is not last_recurring
            or tenant != last_tenant
        ):
            last_type, last_tenant, last_lane = task_type, tenant, lane
            last_recurring = recurring
            delays = kinds.setdefault((tenant, task_type, lane, recurring), [])
        delays.append((now - entry.due_at).total_seconds())
    return starmap(start_count, kinds.items())
