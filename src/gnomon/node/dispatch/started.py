"""Tells who listens which tasks were claimed."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from gnomon.model.task import TaskKey
from gnomon.observe.events import StartCount, TaskBatch, TasksStarted, TaskStarted
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
        if now is None:
            return
        # By the number in its id: keys compare more slowly, and this is done for every task.
        due = {e.key.id.int: e.due_at for e in entries}
        for delivery in deliveries:
            key = delivery.key
            due_at = due.get(key.id.int)
            if due_at is None or delivery.expired or delivery.start_by == NEVER:
                continue
            delay = (now - due_at).total_seconds()
            yield StartCount(key.tenant_id, delivery.task_type, delivery.lane, delay)

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

    return TasksStarted(TaskBatch(tasks), TaskBatch(runs), TaskBatch(counts))
