"""Keeps a node with a pool from running what is not in it.

What a node reads is asked for by its pool, and hints are judged by what is known of their flows. So
this is only the last look, at what a row says itself.
"""

from gnomon.model.pool import Pool, Work
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.node.start_checks import StartCheck
from gnomon.pipe.envelope import Delivery


class PoolCheck(StartCheck):
    """Takes nothing, and refuses what is for others."""

    def __init__(self, pool: Pool, flows: FlowBook) -> None:
        self._pool = pool
        self._flows = flows

    def claimed(self, delivery: Delivery) -> bool:
        flow = self._flows.learn(delivery)  # it may come again, as a hint
        work = Work(flow.tenant_id, delivery.lane, flow.task_type, flow.queue)
        return self._pool.accepts(work)
