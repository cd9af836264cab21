"""Takes sessions over from other gateways, and lets those go that others have taken.

The tasks of a session that was taken over run on. The gateway before holds their permits for as
long as they do: it watches their rows, or, where it is dead, its permits are kept (see
gnomon.drop_dead_leases).
"""

from uuid import UUID

import structlog

from gnomon.clock import Clock
from gnomon.model.session_errors import WorkerSessionGone
from gnomon.model.tasks.task import TaskKey
from gnomon.node.claims import Claims
from gnomon.node.membership.lease import Lease
from gnomon.node.remote.conversation import Conversation
from gnomon.node.run.preemption_order import gives_way
from gnomon.pipe.envelope import NEVER, Delivery, Report
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.session import RemoteExecution, WorkerSession
from gnomon.store.ports.worker_sessions import AdoptedSession, HeldTask, KeptSession
from gnomon.store.postgres.dispatch.worker_sessions import PostgresWorkerSessions

log = structlog.get_logger("gnomon.gateway")


class Adoption:
    """Which sessions are this gateway's, and what runs on with its permits elsewhere."""

    def __init__(
        self,
        pipe: HttpPipe,
        conversation: Conversation,
        claims: Claims,
        store: PostgresWorkerSessions,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._pipe = pipe
        self._conversation = conversation
        self._claims = claims
        self.held = claims.held
        self.store = store
        self.lease = lease
        self._clock = clock
        self._departed: dict[TaskKey, RemoteExecution] = {}

    async def adopt(self, kept: KeptSession, epoch: str, seconds: float) -> WorkerSession:
        """Take a session over, with what runs on it, and renew it: whoever has renewed it before
        may be gone, and this gateway may lose its way to the store before the next beat. Raises
        WorkerSessionGone, StoreError."""
        asked_at = self._clock.monotonic()
        adopted = await self.store.adopt(kept.incarnation, self.lease.incarnation, seconds)
        if adopted is None:
            raise WorkerSessionGone(kept.incarnation)
        rows = await self._rows(kept.incarnation)
        before = self._pipe.sessions.get(kept.incarnation)
        session = WorkerSession(
            kept.incarnation, kept.name, kept.pool, kept.slots, kept.secret, epoch
        )
        if before is not None:
            session.reporting, session.receipts = before.reporting, before.receipts
            session.sequence = before.sequence
            self.let_go(before)
        found = (self._execution(session, row, adopted) for row in rows)
        executions = [execution for execution in found if execution is not None]
        self._claims.adopted([e.delivery for e in executions])
        self._conversation.take_over(session, executions)
        session.renewed(asked_at, seconds)
        session.draining = kept.draining
        self._pipe.add(session)
        log.info("adopted a worker session", session=kept.name, tasks=len(executions))
        return session

    async def _rows(self, incarnation: UUID) -> list[HeldTask]:
        """What runs on a session. Where this gateway may have a claim for it under way, that is
        answered first: its tasks would be taken both for what the worker had before, which is
        released where it does not have it, and for what is to be delivered."""
        if incarnation not in self._pipe.sessions:
            return await self.store.held([incarnation])
        async with self.held.claiming:
            return await self.store.held([incarnation])

    def let_go(self, session: WorkerSession) -> None:
        """It is over, or another gateway's. What it has may run on."""
        for execution in self._conversation.forget(session):
            self._departed[execution.delivery.key] = execution

    async def watch(self) -> int:
        """Let those go that are dead, or that another gateway has adopted; gives how many. And tell
        those to drain that shall."""
        known = list(self._pipe.sessions)
        if not known:
            return 0
        gone = 0
        for each in await self.store.changed(known, self.lease.incarnation):
            session = self._pipe.sessions.get(each.incarnation)
            if session is None:
                continue
            if each.dead or each.moved:
                log.info("a worker session is gone", session=session.name, dead=each.dead)
                self.let_go(session)
                gone += 1
            elif each.draining:
                self._conversation.drain(session)
        return gone

    async def look_at_leases(self, margin: float) -> int:
        """Learn of beats that went to other gateways: of sessions whose leases are about to run out
        as far as is known here. Gives of how many."""
        asked_at = self._clock.monotonic()
        soon = asked_at + margin
        known = self._pipe.sessions
        unheard = [each for each, s in known.items() if s.trusted_until < soon]
        if not unheard:
            return 0
        for incarnation, seconds in (await self.store.leases(unheard)).items():
            session = known.get(incarnation)
            if session is not None:
                session.trusted_until = max(session.trusted_until, asked_at + seconds - margin / 2)
                self._pipe.count(session)
        return len(unheard)

    async def follow_departed(self) -> int:
        """Return what tasks took that have ended elsewhere; gives how many."""
        if not self._departed:
            return 0
        before = dict(self._departed)
        rows = await self.store.held(list({e.delivery.incarnation for e in before.values()}))
        running = {(row.task.key, row.task.fence) for row in rows}
        ended = [
            execution
            for key, execution in before.items()
            if (key, execution.delivery.fence) not in running
            and self._departed.get(key) is execution
        ]
        for execution in ended:
            del self._departed[execution.delivery.key]
        self._claims.settled([Report(execution.delivery) for execution in ended])
        return len(ended)

    def _execution(
        self, session: WorkerSession, row: HeldTask, adopted: AdoptedSession
    ) -> RemoteExecution | None:
        """What runs by a row; None where its report is being written. What another gateway has had
        meanwhile is never delivered again from here: that one may release it still, by a poll
        that came late."""
        key, fence = row.task.key, row.task.fence
        if (key, fence) in session.reporting:
            return None
        departed = self._departed.get(key)
        if departed is not None and departed.delivery.fence == fence:
            del self._departed[key]
            execution = departed
            if not adopted.was_own:
                self._pipe.forget_payload(execution)
        else:
            execution = _execution_of(row)
            execution.adopted = True
        execution.begun = execution.begun or row.task.begun
        if row.task.cancel_requested:
            execution.stop = "cancelled"
        return execution


def _execution_of(row: HeldTask) -> RemoteExecution:
    delivery = _delivery_of(row)
    return RemoteExecution(delivery, row.started_at, gives_way=gives_way(delivery))


def _delivery_of(row: HeldTask) -> Delivery:
    """As far as its end is decided by it."""
    task = row.task
    return Delivery(
        key=task.key,
        fence=task.fence,
        incarnation=task.incarnation,
        attempt=task.attempt,
        retries_left=task.retries_left,
        losses=task.losses,
        target=task.target,
        payload=None,
        payload_size=None,
        timeout_seconds=row.timeout_seconds,
        retry_policy=task.retry_policy,
        task_type=task.task_type,
        lane=task.lane,
        scheduled_for=row.started_at,
        start_by=NEVER,
        idempotency_key=None,
        expired=False,
        mode=task.mode,
        preemptible=row.preemptible,
        flow=task.flow,
        recurring=task.recurring,
        origin=task.origin,
    )
