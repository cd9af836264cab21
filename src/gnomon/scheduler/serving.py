"""Keeps a node with a pool from running what is not in it.

What a node reads is asked for by its pool, and hints are judged by what is known of their flows. So
this is only the last look, at what a row says itself.
"""

from collections.abc import Iterable

from gnomon.model.pool import Pool, Work
from gnomon.model.task import TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.port import Entry


class Serving:
    """An `Admission`: takes nothing, and refuses what is for others."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def admit(self, entry: Entry) -> bool:
        del entry
        return True

    def missed(self, keys: Iterable[TaskKey]) -> None:
        pass

    def claimed(self, delivery: Delivery) -> bool:
        key, lane = delivery.key, delivery.lane
        return self._pool.accepts(Work(key.tenant_id, lane, delivery.task_type, delivery.queue))

    def ended(self, report: Report) -> None:
        pass
