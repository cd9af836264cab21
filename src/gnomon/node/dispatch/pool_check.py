"""Keeps a node with a pool from running what is not in it.

What a node reads is asked for by its pool, and hints are judged by what is known of their flows. So
this is only the last look, at what a row says itself.
"""

from collections.abc import Iterable

from gnomon.model.pool import Pool, Work
from gnomon.model.task import TaskKey
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.pipe.envelope import Delivery, Report
from gnomon.store.ports.dispatch import Entry


class PoolCheck:
    """An `Admission`: takes nothing, and refuses what is for others."""

    def __init__(self, pool: Pool, flows: FlowBook) -> None:
        self._pool = pool
        self._flows = flows

    def admit(self, entry: Entry) -> bool:
        del entry
        return True

    def missed(self, keys: Iterable[TaskKey]) -> None:
        pass

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        pass

    def claimed(self, delivery: Delivery) -> bool:
        flow = self._flows.learn(delivery)  # it may come again, as a hint
        work = Work(flow.tenant_id, delivery.lane, flow.task_type, flow.queue)
        return self._pool.accepts(work)

    def ended(self, report: Report) -> None:
        pass
