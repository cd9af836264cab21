"""Hears the polls of sessions, and answers them.

One poll of a session counts at a time: the one with the highest sequence. It waits until there is
something to say, or its time is over. What an answer has said is taken for lost if the next poll
does not bear it out, and is said again: so an answer may be lost, and nothing with it.
"""

import asyncio
from collections.abc import Callable, Container, Iterable

from gnomon.clock import Clock
from gnomon.model.fleet.pool import Pool
from gnomon.model.tasks.task import TaskKey
from gnomon.node.remote.delivery_gate import DeliveryGate
from gnomon.node.remote.wording import delivered_task, outcome_of, progress_text, times_of
from gnomon.node.run.preemption_order import gives_way
from gnomon.node.run.starter import Starter
from gnomon.pipe.envelope import Report
from gnomon.pipe.http.http_pipe import HttpPipe
from gnomon.pipe.http.messages import (
    DeliveredTask,
    Poll,
    PollAnswer,
    ReportReceipt,
    StartGrant,
    StopOrder,
    StopReason,
    WorkerReport,
)
from gnomon.pipe.http.session import Claimed, RemoteExecution, WorkerSession

_SAY_AGAIN_SECONDS = 2.0


class Conversation:
    """Speaks with all sessions of a gateway. Without a wait: whatever must be asked of the store is
    asked by services."""

    def __init__(
        self,
        pipe: HttpPipe,
        starter: Starter,
        gate: DeliveryGate,
        let_in: Callable[[Pool], None],
        clock: Clock,
        answer_bytes: int,
    ) -> None:
        self.pipe = pipe
        self._starter = starter
        self._gate = gate
        self._let_in = let_in  # what was set aside for want of a session that serves this
        self._clock = clock
        self._answer_bytes = answer_bytes
        self._told: set[WorkerSession] = set()  # have news, perhaps
        self._stopping = False

    # A poll

    def hear(self, session: WorkerSession, poll: Poll) -> "PollAnswer | PendingPoll":
        """Hear a poll. The answer, or a wait for it."""
        answered = session.answered
        if answered is not None and answered.sequence == poll.sequence:
            return answered  # it was lost
        if poll.sequence < session.sequence:
            return _nothing(session, poll)
        self._end_waiting(session)
        session.sequence, session.answered = poll.sequence, None
        self._hear(session, poll)
        if session.epoch != poll.epoch:
            return self._resynced(session, poll)
        if self._stopping or session.closed:
            return _nothing(session, poll)
        self.pipe.offer(session, poll.slots)
        if session.counted:
            self._let_in(session.pool)
        if self._has_news(session) or poll.wait_seconds == 0:
            return self._answer(session)
        session.waiting = asyncio.get_running_loop().create_future()
        self.pipe.count(session)
        return PendingPoll(self, session, session.waiting, poll.wait_seconds)

    def time_over(self, session: WorkerSession, waiting: "asyncio.Future[PollAnswer]") -> None:
        """Answer a poll that has waited for as long as it may."""
        if session.waiting is waiting and not waiting.done():
            waiting.set_result(self._answer(session))

    def hang_up(self, session: WorkerSession, waiting: "asyncio.Future[PollAnswer]") -> None:
        """Nobody waits for the answer any more: nothing is for the session until its worker comes
        back."""
        if session.waiting is waiting:
            self._end_waiting(session)
            self.pipe.offer(session, 0)

    def _resynced(self, session: WorkerSession, poll: Poll) -> PollAnswer:
        """The worker does not know what this gateway has told it: so nothing follows from what it
        holds, and what it can take is asked again."""
        self.pipe.offer(session, 0)
        session.answered = None
        return PollAnswer(sequence=poll.sequence, epoch=session.epoch)

    def end_all(self) -> None:
        """Answer all polls now, and from now on at once."""
        self._stopping = True
        for session in list(self.pipe.sessions.values()):
            self._end_waiting(session)
            self.pipe.offer(session, 0)

    def _end_waiting(self, session: WorkerSession) -> None:
        waiting, session.waiting = session.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(PollAnswer(sequence=session.sequence, epoch=session.epoch))

    # What a poll says

    def _hear(self, session: WorkerSession, poll: Poll) -> None:
        tenant_id = session.tenant_id
        reported = {(TaskKey(tenant_id, r.task_id), r.fence): r for r in poll.reports}
        has = {(TaskKey(tenant_id, c.task_id), c.fence) for c in poll.held}
        unheld = has.difference(session.held)  # reported before, or not its own any more
        synced = session.epoch == poll.epoch
        if synced:
            session.synced = True
            self._forget_receipts(session, unheld, reported)
            if len(has) - len(unheld) < len(session.held):
                self._deliver_again(session, session.held.keys() - has - reported.keys())
            self._order_stops(session, unheld.difference(reported))
        else:  # it does not know what is said here: it reports all again
            known = session.receipts.items()
            session.receipts = {c: accepted for c, accepted in known if accepted or c in reported}
        session.said.clear()
        now = self._clock.seconds()
        for claimed, report in reported.items():
            self._report(session, claimed, report, now)
        if synced:
            self._confirm(session)
        asked = {(TaskKey(tenant_id, c.task_id), c.fence) for c in poll.begin}
        for claimed in session.grants.keys() - asked:
            del session.grants[claimed]
        session.unsaid_grants = bool(session.grants)
        for claimed in asked - session.grants.keys() - session.asking:
            self._ask(session, claimed)
        for each in poll.progress:
            execution = session.held.get((TaskKey(tenant_id, each.task_id), each.fence))
            if execution is not None:
                execution.progress = (each.fraction, progress_text(each.message))

    def _forget_receipts(
        self, session: WorkerSession, unheld: set[Claimed], reported: Container[Claimed]
    ) -> None:
        """A worker has the receipt of what it neither holds nor reports any more. It is told once
        that a report was refused: what it holds all the same is lost."""
        session.receipts = {
            claimed: accepted
            for claimed, accepted in session.receipts.items()
            if claimed in reported
            or (claimed in unheld and (accepted or claimed not in session.said))
        }

    def _deliver_again(self, session: WorkerSession, missing: set[Claimed]) -> None:
        """Deliver again what has not reached the worker."""
        lost = [e for claimed, e in session.held.items() if claimed in missing and not e.begun]
        for execution in lost:
            self.pipe.drop(session, execution)
            if execution.adopted:
                self.pipe.report(Report(execution.delivery))
        again = [execution.delivery for execution in lost if not execution.adopted]
        if again:
            self.pipe.redeliver(session, again)

    def _order_stops(self, session: WorkerSession, unheld: set[Claimed]) -> None:
        """Stop what is to end, and what the worker has and is not its own any more."""
        written = [claimed for claimed, accepted in session.receipts.items() if accepted]
        lost = unheld.difference(session.reporting).difference(written)
        session.orders = dict.fromkeys(lost, "lost")
        stopped = {c: e.stop for c, e in session.held.items() if e.stop is not None}
        session.orders |= stopped
        due = self._may_say_again(session.orders_said_at)
        session.unsaid_orders = bool(session.orders) and (due or session.unsaid_orders)

    def _confirm(self, session: WorkerSession) -> None:
        """What was delivered, and is not on its way any more, has reached the worker."""
        for claimed in session.unconfirmed:
            execution = session.held.get(claimed)
            if execution is not None and not execution.adopted:
                self.pipe.forget_payload(execution)
        session.unconfirmed.clear()

    def _report(
        self, session: WorkerSession, claimed: Claimed, report: WorkerReport, now: float
    ) -> None:
        if claimed in session.reporting or session.receipts.get(claimed):
            return  # heard before: it is being written, or its receipt is about to be said
        execution = session.held.get(claimed) or self.pipe.recall(session, claimed)
        if execution is None:
            if claimed not in session.receipts:
                session.receipts[claimed] = False
                self.pipe.refused += 1
            return
        self.pipe.drop(session, execution)
        session.reporting.add(execution.claimed)
        outcome = outcome_of(report, execution)
        if outcome is None:
            self.pipe.report(Report(execution.delivery))
            return
        times = times_of(report, execution, now)
        made = Report(execution.delivery, outcome, *times)
        self._gate.called(made)
        self.pipe.report(made)

    def _ask(self, session: WorkerSession, claimed: Claimed) -> None:
        execution = session.held.get(claimed)
        if execution is None:
            session.grants[claimed] = False
            session.unsaid_grants = True
            return
        session.asking.add(claimed)

        def answered(consent: "asyncio.Future[bool]") -> None:
            session.asking.discard(claimed)
            granted = not consent.cancelled() and consent.result()
            execution.begun = execution.begun or granted
            session.grants[claimed] = granted
            session.unsaid_grants = True
            self.tell(session)

        self._starter.ask(execution.delivery).add_done_callback(answered)

    # What is said

    def tell(self, session: WorkerSession) -> None:
        """There may be something to say to it: said together with all else that comes up in this
        turn of the loop."""
        if not self._told:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._told.add(session)

    def _tell_all(self) -> None:
        told, self._told = self._told, set()
        for session in told:
            waiting = session.waiting
            if waiting is not None and not waiting.done() and self._has_news(session):
                answer = self._answer(session)
                waiting.set_result(answer)

    def _has_news(self, session: WorkerSession) -> bool:
        return bool(
            (session.offered > 0 and (session.urgent or session.others))
            or session.receipts.keys() - session.said
            or session.unsaid_grants
            or session.unsaid_orders
            or (session.draining and self._may_say_again(session.drain_said_at))
        )

    def _may_say_again(self, said_at: float) -> bool:
        """Again and again, for an answer may have been lost; but not as fast as a worker can poll
        that does not obey."""
        return said_at + _SAY_AGAIN_SECONDS <= self._clock.monotonic()

    def _answer(self, session: WorkerSession) -> PollAnswer:
        """All that there is to say; it is the answer to the poll that waits."""
        session.waiting = None
        answer = PollAnswer(
            sequence=session.sequence,
            epoch=session.epoch,
            deliveries=self._deliver(session),
            acknowledged=[
                ReportReceipt(key.id, fence, accepted)
                for (key, fence), accepted in session.receipts.items()
            ],
            begun=[
                StartGrant(key.id, fence, granted)
                for (key, fence), granted in session.grants.items()
            ],
            cancel=[
                StopOrder(key.id, fence, reason) for (key, fence), reason in session.orders.items()
            ],
            command="drain" if session.draining else None,
        )
        session.said = set(session.receipts)
        session.unsaid_grants = session.unsaid_orders = False
        now = self._clock.monotonic()
        if session.orders:
            session.orders_said_at = now
        if session.draining:
            session.drain_said_at = now
        session.answered, session.answered_at = answer, now
        self.pipe.count(session)
        return answer

    def _deliver(self, session: WorkerSession) -> list[DeliveredTask]:
        now, is_open = self._clock.seconds(), self._gate.is_open(session)
        deliveries: list[DeliveredTask] = []
        for delivery in self.pipe.deliver(session, self._answer_bytes):
            barred = self._gate.barred(session, delivery, now, is_open=is_open)
            if barred is not None:
                self.pipe.report(barred)
                continue
            execution = RemoteExecution(delivery, now, gives_way=gives_way(delivery))
            self.pipe.hold(session, execution)
            session.unconfirmed.add(execution.claimed)
            deliveries.append(delivered_task(delivery, now))
        return deliveries

    # Stopping

    def drain(self, session: WorkerSession) -> None:
        """Have its worker take nothing more, and leave."""
        if not session.draining:
            session.draining = True
            self.pipe.offer(session, 0)
            self.tell(session)

    def stop(self, key: TaskKey, reason: StopReason) -> bool:
        """Have a running task end; False where it does not run here."""
        execution = self.pipe.running.get(key)
        if execution is None:
            return False
        session = self.pipe.sessions.get(execution.delivery.incarnation)
        if session is not None and execution.stop is None:
            execution.stop = reason
            session.orders[key, execution.delivery.fence] = reason
            session.unsaid_orders = True
            self.tell(session)
        return True

    def take_over(self, session: WorkerSession, executions: Iterable[RemoteExecution]) -> None:
        """A session of another gateway has these; or it was this gateway's before, and its next
        poll tells whether it has what was on its way then."""
        for execution in executions:
            self.pipe.hold(session, execution)
            if not execution.adopted:
                session.unconfirmed.add(execution.claimed)

    def forget(self, session: WorkerSession) -> list[RemoteExecution]:
        """It is over, or another gateway has it; gives what it had."""
        self._end_waiting(session)
        self.pipe.remove(session)
        had = list(session.held.values())
        for execution in had:
            self.pipe.drop(session, execution)
        return had


class PendingPoll:
    """A poll that waits for something to be said."""

    def __init__(
        self,
        conversation: Conversation,
        session: WorkerSession,
        answer: "asyncio.Future[PollAnswer]",
        seconds: float,
    ) -> None:
        self._conversation = conversation
        self._session = session
        self._answer = answer
        self._seconds = seconds

    async def wait(self) -> PollAnswer:
        """The answer: as soon as there is one, or when the time is over."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(
            self._seconds, self._conversation.time_over, self._session, self._answer
        )
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.hang_up()
            raise
        finally:
            timer.cancel()

    def hang_up(self) -> None:
        """The client has gone."""
        self._conversation.hang_up(self._session, self._answer)


def _nothing(session: WorkerSession, poll: Poll) -> PollAnswer:
    return PollAnswer(sequence=poll.sequence, epoch=session.epoch)
