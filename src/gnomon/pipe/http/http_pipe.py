"""The pipe of a gateway, whose workers are sessions of remote processes.

Which session gets a task is decided before it is claimed, for its row names the session: `take`
chooses one that has credit, and `send` puts the claimed task into the queue of the session that it
was claimed for. Sessions that serve the same work are one group, so that choosing takes no longer
with more of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import Pool, Work
from gnomon.model.outcomes.quarantine import group_size
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import NEVER, Delivery, Report
from gnomon.pipe.http.groups import SessionGroups
from gnomon.pipe.http.session import Claimed, RemoteExecution, WorkerSession
from gnomon.pipe.meeting.frames import CARRIED_ANSWER_BYTES, MOST_CARRIED_TASKS
from gnomon.pipe.report_queue import ReportQueue

# A worker that was answered comes back at once. One that does not is given nothing more.
ABSENT_SECONDS = 2.0
AWAY_SECONDS = 10.0  # for which an answer is kept, to be given to the same poll again
CLEAR_SECONDS = 60.0  # that a session gets nothing, so that a suspect can be alone in it


class HttpPipe:
    """`Pipe` to worker sessions. `on_news` is told which session has something to be told."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        on_room: Callable[[], None],
        on_news: Callable[[WorkerSession], None],
    ) -> None:
        self.sessions: dict[UUID, WorkerSession] = {}
        self.running: dict[TaskKey, RemoteExecution] = {}  # delivered, and not reported
        self.yielding: dict[WorkerSession, int] = {}  # how many of those give way, by session
        # Whose payloads must be read first, and for whom.
        self.lacking: deque[tuple[WorkerSession, Delivery]] = deque()
        self.lacks = asyncio.Event()
        self.loaded_bytes = 0  # of payloads that were kept apart, and that no worker has yet
        self._loaded: dict[TaskKey, int] = {}
        self.delivered = self.accepted = self.refused = 0  # since the start
        self._monotonic = monotonic
        self._on_room = on_room
        self._on_news = on_news
        self._groups = SessionGroups()
        self._taken: dict[TaskKey, WorkerSession] = {}
        self._suspects: dict[TaskKey, WorkerSession] = {}
        self._room = 0
        self._reports = ReportQueue()
        self._unwritten = 0  # reports

    # Sessions

    @property
    def pools(self) -> frozenset[Pool]:
        """What the sessions serve."""
        return self._groups.pools

    def add(self, session: WorkerSession) -> None:
        self.sessions[session.incarnation] = session
        self._groups.add(session)

    def remove(self, session: WorkerSession) -> None:
        """Forget a session, and report what was claimed for it and not delivered."""
        session.closed = True
        session.offered = 0
        self.count(session)
        if self.sessions.get(session.incarnation) is session:
            del self.sessions[session.incarnation]
        self._groups.remove(session)
        for delivery in session.undelivered():
            self.report(Report(delivery))
        session.urgent.clear()
        session.others.clear()

    # Credit

    def room(self) -> int:
        return self._room

    def urgent_room(self) -> int:
        return self._room

    def free(self) -> int:
        return self._room

    def stranded(self, now: float) -> int:
        del now
        return 0

    def pace(self) -> None:
        """Withdraw the credit of sessions whose workers have not come back, and forget what they
        were answered."""
        now = self._monotonic()
        absent, away = now - ABSENT_SECONDS, now - AWAY_SECONDS
        for session in self.sessions.values():
            if session.answered is not None and session.answered_at < away:
                session.answered = None
            if session.counted and (
                (session.waiting is None and session.offered_at < absent)
                or session.trusted_until < now
            ):
                session.offered = 0
                self.count(session)

    def offer(self, session: WorkerSession, slots: int) -> None:
        """Its worker can take so many more than it holds."""
        now = self._monotonic()
        clearing = session.clearing_until > now and not session.is_empty
        session.offered = 0 if clearing or session.draining else slots
        session.offered_at = now
        self.count(session)
        if session.counted:
            self._on_room()

    def count(self, session: WorkerSession) -> None:
        """Its credit may have changed, or whether its worker waits."""
        trusted = session.trusted_until >= self._monotonic()
        usable = trusted and not session.closed and not session.alone
        credit = max(0, session.credit) if usable else 0
        self._room += credit - session.counted
        session.counted = credit
        self._groups.place(session, has_credit=credit > 0)

    def take(self, key: TaskKey, work: Work) -> bool:
        """Whether a session has credit for this; it is taken for the key."""
        if key in self._taken:
            return True
        session = self._groups.next_for(work)
        if session is None:
            return False
        # As `take_of`, and quicker: it has credit, which nothing but this takes from now on.
        session.taken += 1
        self._taken[key] = session
        session.counted -= 1
        self._room -= 1
        self._groups.place(session, has_credit=session.counted > 0)
        return True

    def take_suspect(self, key: TaskKey, work: Work, *, alone: bool) -> bool:
        """The same for a task that a session was lost with: for one that has no other such task;
        `alone`: for one that has nothing, and gets nothing else meanwhile."""
        if key in self._taken:
            return True
        fit = [session for session in self._groups.with_credit(work) if session.suspect is None]
        empty = [session for session in fit if session.is_empty] if alone else fit
        if not empty:
            if fit:
                least = min(fit, key=lambda session: len(session.held) + session.queued)
                least.clearing_until = self._monotonic() + CLEAR_SECONDS
                least.offered = 0
                self.count(least)
            return False
        session = empty[0]
        session.suspect, session.alone = key, alone
        self._suspects[key] = session
        self.take_of(key, session)
        return True

    def _end_suspect(self, key: TaskKey) -> None:
        session = self._suspects.pop(key, None)
        if session is not None and session.suspect == key:
            session.suspect, session.alone = None, False
            session.clearing_until = float("-inf")
            self.count(session)

    def take_of(self, key: TaskKey, session: WorkerSession) -> None:
        """Take the credit of this session for the key, whether it has any or not."""
        session.taken += 1
        self._taken[key] = session
        self.count(session)

    def taken_for(self, key: TaskKey) -> UUID | None:
        """The session that has taken a key."""
        session = self._taken.get(key)
        return None if session is None else session.incarnation

    def give_back(self, keys: Iterable[TaskKey]) -> None:
        """What was taken for these is free again."""
        for key in keys:
            session = self._taken.pop(key, None)
            if session is not None:
                self._end_suspect(key)
                session.taken -= 1
                self.count(session)
                if session.counted:
                    self._on_room()

    # Deliveries

    def send(self, deliveries: Sequence[Delivery]) -> None:
        changed: set[WorkerSession] = set()
        queued: set[WorkerSession] = set()
        for delivery in deliveries:
            taken = self._taken.pop(delivery.key, None)
            if taken is not None:
                taken.taken -= 1
                changed.add(taken)
            session = self.sessions.get(delivery.incarnation)
            if session is None or delivery.expired or delivery.start_by == NEVER:
                self.report(Report(delivery))
            elif delivery.losses and not self._fits(session, delivery):
                self.report(Report(delivery))  # nobody knew that it is a suspect
            elif delivery.payload_size is not None and delivery.payload is None:
                session.lacking += 1
                self.lacking.append((session, delivery))
                self.lacks.set()
            else:
                self._queue(session, delivery)
                queued.add(session)
        for each in changed:
            self.count(each)
        for each in queued:
            self._on_news(each)

    def _fits(self, session: WorkerSession, delivery: Delivery) -> bool:
        if delivery.key in self._suspects:
            return True
        if session.suspect is not None or group_size(delivery.losses, delivery.mode) == 1:
            return False
        session.suspect = delivery.key
        self._suspects[delivery.key] = session
        return True

    def loaded(self, session: WorkerSession, delivery: Delivery) -> None:
        """The payload of a delivery that lacked it has been read. Where the session is not the same
        any more, whoever has adopted it knows the delivery by its row."""
        session.lacking -= 1
        if session.closed:
            self.report(Report(delivery))
            return
        self._loaded[delivery.key] = size = len(delivery.payload or b"")
        self.loaded_bytes += size
        self._queue(session, delivery)
        self.count(session)
        self._on_news(session)

    def not_loaded(self, session: WorkerSession, report: Report) -> None:
        """It could not be read."""
        session.lacking -= 1
        self.count(session)
        self.report(report)

    def _queue(self, session: WorkerSession, delivery: Delivery) -> None:
        urgent = delivery.lane is Lane.CRITICAL
        (session.urgent if urgent else session.others).append(delivery)

    def deliver(self, session: WorkerSession, most_bytes: int) -> list[Delivery]:
        """What waits for a session, up to its offer, and to so many bytes of payloads: it is on its
        way to the worker from now on."""
        taken: list[Delivery] = []
        size, most = 0, session.offered
        if session.carried:
            most, most_bytes = min(most, MOST_CARRIED_TASKS), min(most_bytes, CARRIED_ANSWER_BYTES)
        for waiting in (session.urgent, session.others):
            while waiting and len(taken) < most and (size < most_bytes or not taken):
                delivery = waiting.take_first()
                size += len(delivery.payload or b"")
                taken.append(delivery)
        session.offered -= len(taken)
        self.delivered += len(taken)
        return taken

    def hold(self, session: WorkerSession, execution: RemoteExecution) -> None:
        """The worker of the session has it, as far as is known."""
        key = execution.delivery.key
        before = self.running.get(key)
        if before is not None:  # by an earlier claim: not the worker's any more
            self.drop(session, before)
        session.held[execution.claimed] = self.running[key] = execution
        if execution.delivery.payload_size is not None:
            self.forget_payload(execution)
        if execution.delivery.losses and key not in self._suspects:  # of another gateway
            self._suspects[key] = session
            session.suspect = key
        if execution.gives_way:
            self.yielding[session] = self.yielding.get(session, 0) + 1

    def forget_payload(self, execution: RemoteExecution) -> None:
        """Its worker has it for sure; or it is large, and is released where it gets lost on its
        way: workers that never confirm would fill the memory."""
        execution.adopted = True
        if execution.delivery.payload is not None:
            execution.delivery = msgspec.structs.replace(execution.delivery, payload=None)
            self._unload(execution.delivery.key)

    def _unload(self, key: TaskKey) -> None:
        self.loaded_bytes -= self._loaded.pop(key, 0)

    def drop(self, session: WorkerSession, execution: RemoteExecution) -> None:
        """It has it no longer."""
        claimed = execution.claimed
        if session.held.get(claimed) is not execution:
            return
        del session.held[claimed]
        if self.running.get(claimed[0]) is execution:
            del self.running[claimed[0]]
        session.orders.pop(claimed, None)
        if execution.gives_way:
            left = self.yielding.pop(session) - 1
            if left:
                self.yielding[session] = left

    def redeliver(self, session: WorkerSession, deliveries: Sequence[Delivery]) -> None:
        """Put back what was on its way to a worker, and has not reached it."""
        for delivery in reversed(deliveries):
            urgent = delivery.lane is Lane.CRITICAL
            (session.urgent if urgent else session.others).put_first(delivery)
        self.count(session)
        self._on_news(session)

    def recall(self, session: WorkerSession, claimed: Claimed) -> RemoteExecution | None:
        """What was taken for lost on its way, and has reached the worker all the same."""
        for waiting in (session.urgent, session.others):
            delivery = waiting.pop(claimed, None)
            if delivery is not None:
                execution = RemoteExecution(delivery, delivery.start_by, gives_way=False)
                self.hold(session, execution)
                return execution
        return None

    def unsent(self) -> list[Delivery]:
        unsent: list[Delivery] = []
        for session in self.sessions.values():
            unsent += session.undelivered()
            session.urgent.clear()
            session.others.clear()
            self.count(session)
        return unsent

    def late(self, now: float) -> list[Delivery]:
        late: list[Delivery] = []
        for session in self.sessions.values():
            before = len(late)
            for waiting in (session.urgent, session.others):
                while waiting and waiting.first.start_by < now:  # the oldest claim first
                    late.append(waiting.take_first())
            if len(late) > before:
                self.count(session)
        return late

    # Reports

    def report(self, report: Report) -> None:
        if self._suspects:
            self._end_suspect(report.delivery.key)
        if self._loaded:
            self._unload(report.delivery.key)
        self._reports.put(report)
        self._unwritten += 1

    async def reports(self, most: int, least: int = 1) -> list[Report]:
        return await self._reports.take(most, least)

    @property
    def is_busy(self) -> bool:
        """Whether reports wait to be written, or payloads to be read."""
        return bool(self._unwritten or self.lacking)

    def settled(self, reports: Sequence[Report]) -> None:
        """Its credit comes with its next poll, and not from here."""
        self._unwritten -= len(reports)
        self._on_room()

    def acknowledge(self, reports: Sequence[Report], *, accepted: bool) -> None:
        told: set[WorkerSession] = set()
        for report in reports:
            delivery = report.delivery
            session = self.sessions.get(delivery.incarnation)
            claimed = delivery.key, delivery.fence
            if session is None or claimed not in session.reporting:
                continue
            session.reporting.discard(claimed)
            session.receipts[claimed] = accepted
            if accepted:
                self.accepted += 1
            else:
                self.refused += 1
            told.add(session)
        for session in told:
            self._on_news(session)
