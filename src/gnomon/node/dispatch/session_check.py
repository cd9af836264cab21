"""Keeps a gateway from claiming what none of its sessions can take now.

A claimed task names the session that runs it, so the session is chosen before the claim. While no
session that handles a flow has credit, the flow is set aside, on this gateway alone.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from gnomon.fairness.ready_queue import Flow as FlowId
from gnomon.model.fleet.pool import Pool, Work
from gnomon.model.outcomes.quarantine import group_size
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.node.start_checks import StartCheck
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.session import WorkerSession
from gnomon.store.ports.dispatch import Entry

# Many flows may wait for one session. Letting all of them in for each slot that is free would cost
# more than the tasks.
_LET_IN_AT_ONCE = 32

Kind = tuple[str, str | None]  # a tenant and a task type


def evictable(session: WorkerSession) -> int:
    """How many CRITICAL tasks more it can take, if others end for them."""
    leaving = sum(e.stop is not None or e.gives_way for e in session.held.values())
    return leaving + min(0, session.credit)


class SessionCheck(StartCheck):
    """Takes credit of a session for every task."""

    def __init__(
        self, pipe: HttpPipe, flows: FlowBook, agenda: Agenda, look_up: Callable[[], None]
    ) -> None:
        self._pipe = pipe
        self._flows = flows
        self._agenda = agenda
        self._look_up = look_up  # the flows that are not known
        self._aside: dict[Kind, dict[FlowId, Work]] = {}

    def admit(self, entry: Entry) -> bool:
        key = entry.key
        flow = self._flows.known(entry)
        if flow is None:
            if self._flows.is_stale(entry):
                return True  # it cannot be claimed, and is got rid of by trying
            self._flows.find(entry)
            self._look_up()
            return False
        work = Work(key.tenant_id, entry.lane, flow.task_type, flow.queue, entry.by_handler)
        if entry.losses:
            return self._pipe.take_suspect(key, work, alone=group_size(entry.losses) == 1)
        if self._pipe.take(key, work) or (entry.lane is Lane.CRITICAL and self._evict(key, work)):
            return True
        aside = self._aside.setdefault((key.tenant_id, flow.task_type), {})
        aside[key.tenant_id, entry.flow] = work
        return False

    def _evict(self, key: TaskKey, work: Work) -> bool:
        """Whether a session can take it once another task of its has ended."""
        for session in self._pipe.yielding:
            if session.pool.accepts(work) and evictable(session) > 0:
                self._pipe.take_of(key, session)
                return True
        return False

    def missed(self, keys: Iterable[TaskKey]) -> None:
        self._pipe.give_back(keys)

    def unanswered(self, keys: Iterable[TaskKey]) -> None:
        # What was claimed all the same is released, by its session.
        self._pipe.give_back(keys)

    def let_in(self, pool: Pool) -> None:
        """A session that serves this has credit."""
        handlers = pool.handlers or ()
        for tenant_id in pool.tenants:
            if len(handlers) <= len(self._aside):
                kinds: list[Kind] = [(tenant_id, each) for each in handlers]
            else:
                kinds = [k for k in self._aside if k[0] == tenant_id and k[1] in handlers]
            for kind in kinds:
                if kind in self._aside:
                    self._let_in(kind)

    def look_again(self) -> None:
        """Some that were set aside may be taken by now, by any session."""
        if self._pipe.room() or self._pipe.yielding:
            for kind in list(self._aside):
                self._let_in(kind)

    def _let_in(self, kind: Kind) -> None:
        aside = self._aside[kind]
        flows = list(islice(aside, _LET_IN_AT_ONCE))
        for flow in flows:
            del aside[flow]
        if not aside:
            del self._aside[kind]
        self._agenda.let_in(flows)
