"""Makes tasks of a session give way to CRITICAL ones that it has no slot for."""

from gnomon.node.dispatch.preemption import preempted_event
from gnomon.node.dispatch.session_check import evictable
from gnomon.node.remote.conversation import Conversation
from gnomon.node.run.preemption_order import rank
from gnomon.observe.events import Observer
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.session import RemoteExecution, WorkerSession


class SessionPreemption:
    """One running task of the same session for each CRITICAL delivery that waits for it: never a
    second one for the same, however long the first takes to end."""

    def __init__(self, pipe: HttpPipe, conversation: Conversation, emit: Observer) -> None:
        self._pipe = pipe
        self._conversation = conversation
        self._emit = emit

    def room(self) -> int:
        """Over all sessions: which of them can take it is found out when it is chosen."""
        return sum(max(0, evictable(session)) for session in self._pipe.yielding)

    def run_once(self) -> int:
        """Have as many tasks end as are needed now, as far as there are any; gives how many."""
        ended = 0
        for session in [s for s in self._pipe.yielding if len(s.urgent) > s.offered]:
            stopping = sum(e.stop is not None for e in session.held.values())
            wanted = len(session.urgent) - session.offered - stopping
            for execution in _order(session)[: max(0, wanted)]:
                self._conversation.stop(execution.delivery.key, "preempted")
                self._emit(preempted_event(execution.delivery))
                ended += 1
        return ended


def _order(session: WorkerSession) -> list[RemoteExecution]:
    fit = [e for e in session.held.values() if e.stop is None and e.gives_way]
    fit.sort(key=lambda e: rank(e.delivery, e.started_at), reverse=True)
    return fit
