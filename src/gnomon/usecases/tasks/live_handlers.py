"""The task types that living workers handle, as of a moment ago: for warnings, not refusals."""

from gnomon.model.fleet.pool import Pool, handled_for
from gnomon.model.tasks.task import Submission, Task
from gnomon.store.ports.roster import NodeKind, RosterStore

LOOK_SECONDS = 1.0


class LiveHandlers:
    """Keeps what the roster said. Until it has spoken, nobody is warned."""

    def __init__(self, roster: RosterStore) -> None:
        self._roster = roster
        self._pools: list[Pool] | None = None
        self._by_tenant: dict[str, frozenset[str] | None] = {}

    async def load(self) -> None:
        nodes = await self._roster.roster()
        pools = [node.pool for node in nodes if node.kind is not NodeKind.SESSION]
        if pools != self._pools:
            self._pools, self._by_tenant = pools, {}

    def warnings(self, submission: Submission | Task) -> list[str]:
        """What the submitter should know, though the task is accepted."""
        if not submission.target.by_handler:
            return []
        handled = self.handled(submission.tenant_id)
        if handled is None or submission.task_type in handled:
            return []
        told = f"no worker that handles the task type {submission.task_type!r} was seen"
        return [f"{told}: the task waits until one starts (`gnomon worker`)"]

    def handled(self, tenant_id: str) -> frozenset[str] | None:
        """The task types of a tenant that have a handler; None: any, or it is not known yet."""
        if self._pools is None:
            return None
        if tenant_id not in self._by_tenant:
            self._by_tenant[tenant_id] = handled_for(tenant_id, self._pools)
        return self._by_tenant[tenant_id]
