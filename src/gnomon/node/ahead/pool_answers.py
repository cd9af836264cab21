"""Knows which entries a pool may accept: it is asked once for all that are alike to it."""

from gnomon.model.fleet.pool import Pool, Work
from gnomon.model.tasks.priority import Lane
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.store.ports.dispatch import Entry

_MOST_KEPT = 10_000

# A tenant, where it matters, its lane, type and queue if they are known, and by what it is run.
_Kind = tuple[str, Lane, str | None, str | None, bool]


class PoolAnswers:
    """What a pool says of works. Thousands of tenants have the same few, and a pool that names no
    tenants says the same of all of them."""

    def __init__(self, pool: Pool, flows: FlowBook) -> None:
        self._pool = pool
        self._flows = flows
        self._names_tenants = any(each.tenants for each in (pool, *pool.any_of))
        self._answers: dict[_Kind, bool] = {}

    def may_accept(self, entry: Entry) -> bool:
        """Whether it may be in the pool, as far as is known of its flow."""
        flow, key = self._flows.known(entry), entry.key
        tenant_id = key.tenant_id if self._names_tenants else ""
        task_type, queue = (None, None) if flow is None else (flow.task_type, flow.queue)
        kind = (tenant_id, entry.lane, task_type, queue, entry.by_handler)
        answer = self._answers.get(kind)
        if answer is None:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            answer = self._answers[kind] = self._pool.may_accept(self.work_of(entry))
        return answer

    def work_of(self, entry: Entry) -> Work:
        flow = self._flows.known(entry)
        tenant_id, lane, by_handler = entry.key.tenant_id, entry.lane, entry.by_handler
        if flow is None:
            return Work(tenant_id, lane, by_handler=by_handler)
        return Work(tenant_id, lane, flow.task_type, flow.queue, by_handler)
