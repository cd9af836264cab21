"""Keeps a node with a pool from running what is not in it.

What a node reads is asked for by its pool, and hints are judged by what is known of their flows. So
this is only the last look, at what a row says itself.
"""

from collections.abc import Sequence

from gnomon.model.fleet.pool import Pool, Work
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.flow_book import MOST_KNOWN, FlowBook
from gnomon.node.start_checks import StartCheck
from gnomon.pipe.envelope import Delivery


class PoolCheck(StartCheck):
    """Takes nothing, and refuses what is for others."""

    def __init__(self, pool: Pool, flows: FlowBook) -> None:
        self._pool = pool
        self._flows = flows
        self._by_kind = not pool.has_lists and not pool.handlers
        # Tenant, flow and lane of what was accepted: all that a pool asks for is the same there.
        self._accepted: set[tuple[str, int, Lane]] = set()

    def refused(self, deliveries: Sequence[Delivery]) -> list[TaskKey]:
        if self._by_kind:  # as most nodes: the type says nothing
            serves = self._pool.kinds
            return [d.key for d in deliveries if not serves[d.target.by_handler]]
        accepted = self._accepted
        return [
            d.key
            for d in deliveries
            if (d.key.tenant_id, d.flow, d.lane) not in accepted and not self.claimed(d)
        ]

    def claimed(self, delivery: Delivery) -> bool:
        flow = self._flows.learn(delivery)  # it may come again, as a hint
        by_handler = delivery.target.by_handler
        work = Work(flow.tenant_id, delivery.lane, flow.task_type, flow.queue, by_handler)
        accepts = self._pool.accepts(work)
        if accepts and delivery.flow != UNKNOWN_FLOW:
            if len(self._accepted) >= MOST_KNOWN:
                self._accepted.clear()
            self._accepted.add((delivery.key.tenant_id, delivery.flow, delivery.lane))
        return accepts
