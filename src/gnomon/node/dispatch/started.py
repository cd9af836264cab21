"""Tells who listens which tasks were claimed."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import compress, starmap

from gnomon.model.tasks.task import TaskKey
from gnomon.observe.counts import Counted, StartCount, by_kind, start_count
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
        return iter(()) if now is None else _counted(entries, deliveries, now)

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


def _counted(
    entries: Sequence[Entry], deliveries: Sequence[Delivery], now: datetime
) -> Iterator[StartCount]:
    if len(entries) != len(deliveries):  # else they are in the order of their entries
        known = {e.key: e for e in entries}
        deliveries = [d for d in deliveries if d.key in known]
        entries = [known[d.key] for d in deliveries]
    late = [(now - e.due_at).total_seconds() for e in entries]
    startable = [not d.expired and d.start_by != NEVER for d in deliveries]
    if not all(startable):
        late, deliveries = list(compress(late, startable)), list(compress(deliveries, startable))
    columns = (
        [d.key.tenant_id for d in deliveries],
        [d.task_type for d in deliveries],
        [d.lane for d in deliveries],
        [d.recurring for d in deliveries],
    )
    return starmap(start_count, by_kind(columns, late).items())
