"""Counts of tasks, each with a bound: what is beyond it is not counted."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from gnomon.model.tasks.flow import Flow
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane

MOST_COUNTED = 10_000


class CappedCount(msgspec.Struct, frozen=True):
    """A number; capped: there are so many at the least."""

    count: int = 0
    capped: bool = False

    def plus(self, count: int, *, more: bool) -> "CappedCount":
        total = self.count + count
        return CappedCount(min(total, MOST_COUNTED), self.capped or more or total > MOST_COUNTED)


class Load(msgspec.Struct, frozen=True):
    """The tasks that are due or running, and how long the first of those that are due has been."""

    ready: CappedCount = CappedCount()
    running: CappedCount = CappedCount()
    oldest_ready_seconds: float | None = None

    def with_ready(self, count: int, age: float | None, *, more: bool) -> "Load":
        ages = [known for known in (self.oldest_ready_seconds, age) if known is not None]
        ready = self.ready.plus(count, more=more)
        return Load(ready, self.running, max(ages, default=None))

    def with_running(self, count: int, *, more: bool) -> "Load":
        running = self.running.plus(count, more=more)
        return Load(self.ready, running, self.oldest_ready_seconds)


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a tenant by status; what is due and running by lane, task type and queue."""

    statuses: Mapping[Status, CappedCount]
    lanes: Mapping[Lane, Load]
    task_types: Mapping[str, Load]
    queues: Mapping[str | None, Load]


class DueFlow(msgspec.Struct, frozen=True):
    """A flow, and how many of its tasks are due and wait."""

    flow: Flow
    due: int
    more: bool  # there are more than were counted


class DueFlows(msgspec.Struct, frozen=True):
    """The flows of a tenant that have due tasks."""

    flows: Sequence[DueFlow]
    more: bool = False  # there are more flows

    def waiting(self, concerned: Callable[[Flow], bool]) -> CappedCount:
        """How many due tasks of these flows wait."""
        total = CappedCount(0, self.more)
        for each in self.flows:
            if concerned(each.flow):
                total = total.plus(each.due, more=each.more)
        return total
