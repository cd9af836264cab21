"""The pipe of a node that runs its own workers: queues in memory."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from gnomon.model.outcomes.outcome import Outcome
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.early_deliveries import EarlyDeliveries
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.report_queue import ReportQueue

_CRITICAL = Lane.CRITICAL
_MANY = 250  # reports: enough to claim for
_MOST_BYTES = 32 * 1024 * 1024  # of results that wait to be written while more is claimed
_AT_ONCE = 50  # offered deliveries that are taken together: one by one they cost more
_MOST_SURPLUS = 12_000  # deliveries that are claimed beyond the room
_MOST_SURPLUS_BYTES = 32 * 1024 * 1024  # of payloads that are held ahead of their time


class MemoryPipe:
    """`SlotPipe` within one event loop. `slots` and `prefetch` bound what is claimed and not
    reported; `settling`, what may be reported and not settled beside, so that claiming, running
    and settling go on at once. Reports with results that take much memory are not counted so.

    Prefetching pays while slots become free by the dozen. Where they stay busy, it would only keep
    tasks from other nodes: so `pace` cuts it down to what has ended lately.

    What is held ahead of its time may be more than there is room for: such a *surplus* takes up no
    room. At its time it is offered to the slots, behind all else that waits for them, and whoever
    has offered it takes back what does not start soon. Reports are not read meanwhile, for 0.3 s at
    the most: writing them would keep the others from starting.

    `reserved` of the slots are never given to anything but CRITICAL deliveries, which come before
    all others and may use the rest as well.
    """

    def __init__(
        self,
        slots: int,
        on_room: Callable[[], None],
        prefetch: int = 0,
        reserved: int = 0,
        settling: int = 0,
    ) -> None:
        self._slots = slots
        self._reserved = reserved
        self._most_others = slots - reserved
        self._prefetch = prefetch
        self._ahead = prefetch
        self._ended = 0
        self._settling = settling
        self._reported = 0  # and not settled
        self._reported_bytes = 0  # of their results
        self._unannounced = 0  # reported since there was said to be room
        self._on_room = on_room
        self._outstanding = 0  # sent and not settled
        self._outstanding_urgent = 0  # those of them that are CRITICAL
        self._busy = 0  # slots, with CRITICAL deliveries that are not reported
        self._busy_others = 0
        self._urgent: deque[Delivery] = deque()
        self._others: deque[Delivery] = deque()
        self._held = EarlyDeliveries()  # counted as outstanding but for a surplus, and in no slot
        self._held_urgent = 0  # those of them that are CRITICAL
        self._surplus = 0  # of the others, how many are beyond the room
        self._offered = EarlyDeliveries()  # surplus that a slot may start
        self._begun: list[Delivery] = []  # offered ones that slots took, and nobody was told of
        self._taken_surplus = 0  # that slots have taken, and that may not be settled
        self._returned = 0  # surplus that did not start, and is not settled
        self._idle: deque[asyncio.Future[None]] = deque()
        self._reports = ReportQueue()

    def room(self) -> int:
        return self._unclaimed() + self._ahead

    def urgent_room(self) -> int:
        return max(0, self.room()) + max(0, self._reserved - self._outstanding_urgent)

    def free(self) -> int:
        return max(0, self._unclaimed())

    def stranded(self, now: float) -> int:
        if not self._urgent:
            return 0
        waiting = sum(not d.expired and d.start_by >= now for d in self._urgent)
        return max(0, waiting - (self._slots - self._busy - self._busy_others))

    def pace(self) -> None:
        busy = self._unclaimed() + self._counted() <= 0  # what is held runs in no slot
        self._ahead = min(self._prefetch, self._ended) if busy else self._prefetch
        self._ended = 0

    def send(self, deliveries: Sequence[Delivery]) -> None:
        self._outstanding += len(deliveries)
        self._outstanding_urgent += self._enqueue(deliveries)

    def _enqueue(self, deliveries: Sequence[Delivery]) -> int:
        """Gives how many are CRITICAL."""
        urgent = [d for d in deliveries if d.lane is _CRITICAL]
        if urgent:
            self._urgent.extend(urgent)
            self._others.extend(d for d in deliveries if d.lane is not _CRITICAL)
        else:
            self._others.extend(deliveries)
        self._wake_one()  # which wakes the next, and may do with many before that
        return len(urgent)

    # Ahead of their time

    def early_room(self) -> int:
        return self.room() - max(1, self._slots // 4)

    def surplus_room(self) -> int:
        if self._unclaimed() + self._counted() <= self._slots // 2:
            return 0  # it would wait for what runs
        if self._reported_bytes > _MOST_BYTES:
            return 0
        if self._held.bytes + self._offered.bytes >= _MOST_SURPLUS_BYTES:
            return 0
        unsettled = max(0, self._outstanding - self._slots - self._prefetch)
        surplus = self._surplus + len(self._offered) + self._returned
        return max(0, _MOST_SURPLUS - surplus - unsettled)

    def hold(self, deliveries: Sequence[Delivery], *, surplus: bool = False) -> None:
        urgent = _critical(deliveries)
        room = 0 if surplus else self.early_room()
        beyond = max(0, len(deliveries) - max(urgent, room))
        self._held.add(deliveries)
        self._held_urgent += urgent
        self._surplus += beyond
        self._outstanding += len(deliveries) - beyond
        self._outstanding_urgent += urgent

    def next_start(self) -> float | None:
        return self._held.first()

    def startable(self, now: float) -> list[Delivery]:
        return self._held.due(now)

    def start(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        counted = self._counted() - self._held_urgent
        if self._surplus and not self._held_urgent and deliveries == self._held.all():
            return self._start_all(counted)
        started = self._held.remove(deliveries)
        urgent = _critical(started)
        self._held_urgent -= urgent
        beyond = len(started) - urgent - counted
        if beyond > 0:
            started, surplus = _parted(started, beyond)
            self._surplus -= beyond
            self._offer(surplus)
        self._enqueue(started)
        return started

    def _start_all(self, counted: int) -> list[Delivery]:
        """All that is held: thousands are not moved one by one."""
        before, self._offered, self._held = self._offered, self._held, EarlyDeliveries()
        self._surplus = 0
        started = self._offered.pop(counted)
        if before:
            self._offered.add(before.all())
        else:
            self._reports.pause()
        self._enqueue(started)
        return started

    def _offer(self, surplus: list[Delivery]) -> None:
        if not self._offered:  # where something was, reports may be read again for a reason
            self._reports.pause()
        self._offered.add(surplus)

    def offered(self) -> int:
        return len(self._offered) + len(self._begun)

    def waiting(self) -> int:
        return len(self._urgent) + len(self._others) + len(self._offered)

    def begun(self) -> list[Delivery]:
        begun, self._begun = self._begun, []
        return begun

    def unstarted(self) -> list[Delivery]:
        return self.take_back(self._offered.all())

    def take_back(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        held, offered = self._held.remove(deliveries), self._offered.remove(deliveries)
        urgent = _critical(held)
        self._held_urgent -= urgent
        beyond = min(len(held) - urgent, self._surplus)  # whichever they were
        self._surplus -= beyond
        self._returned += beyond + len(offered)
        if not self._offered:
            self._reports.resume()
        return self._taken_back(held + offered)

    def held(self, key: TaskKey, fence: int | None = None) -> list[Delivery]:
        return self._held.of(key, fence) + self._offered.of(key, fence)

    def _counted(self) -> int:
        """How many take up room and are held."""
        return len(self._held) - self._surplus

    async def receive(self) -> Delivery:
        was_woken = False
        while (delivery := self.take()) is None:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            try:
                await idle
            except asyncio.CancelledError:
                # The wake-up that reached this slot belongs to another one now.
                if idle.done() and not idle.cancelled():
                    self._wake_one()
                raise
            was_woken = True
        if was_woken and self._has_next():  # one that gets nothing would only wake others like it
            self._wake_one()
        return delivery

    def _has_next(self) -> bool:
        """Whether one more slot would get something."""
        if self._urgent:
            return True
        return self._busy_others < self._most_others and bool(self._others or self._may_offer())

    def _may_offer(self) -> bool:
        return bool(self._offered) and self._reported_bytes <= _MOST_BYTES

    def take(self) -> Delivery | None:
        if self._urgent:
            self._busy += 1
            return self._urgent.popleft()
        if self._busy_others < self._most_others:
            if self._others:
                self._busy_others += 1
                return self._others.popleft()
            if self._may_offer():
                return self._take_offered()
        return None

    def _take_offered(self) -> Delivery:
        """The first of what is offered. The next come with it, as far as slots are free for them:
        they are offered no longer, and start at once."""
        taken = self._offered.pop(min(_AT_ONCE, self._most_others - self._busy_others))
        self._outstanding += len(taken)
        self._taken_surplus += len(taken)
        self._begun += taken
        if not self._offered:
            self._reports.resume()
        self._others.extend(taken)
        self._busy_others += 1
        return self._others.popleft()

    def unsent(self) -> list[Delivery]:
        unsent = [*self._urgent, *self._others]
        self._urgent.clear()
        self._others.clear()
        early = self._held.all() + self._offered.all()
        return self._taken_back(unsent) + self.take_back(early)

    def late(self, now: float) -> list[Delivery]:
        late: list[Delivery] = []
        for waiting in (self._urgent, self._others):
            while waiting and waiting[0].start_by < now:  # the oldest claim first
                late.append(waiting.popleft())
        early = self._held.late(now) + self._offered.late(now)
        if not self._offered:
            self._reports.resume()
        return self._taken_back(late) + (self.take_back(early) if early else [])

    def report(self, report: Report) -> None:
        # No idle slot is woken for the one that is free now: it comes back by itself, or another
        # is made in its place.
        if report.delivery.lane is _CRITICAL:
            self._busy -= 1
        else:
            self._busy_others -= 1
        outcome = report.outcome
        self._reported += 1
        if outcome is not None:
            self._ended += 1
            if outcome.result is not None or outcome.response_body is not None:
                self._reported_bytes += _size(outcome)
                if self._reported_bytes > _MOST_BYTES:
                    self._reports.resume()
        self._reports.put(report)
        self._unannounced += 1
        if self._unannounced >= _MANY and self._settling:
            self._unannounced = 0
            self._on_room()

    async def reports(self, most: int, least: int = 1) -> list[Report]:
        batch = await self._reports.take(most, least)
        if self._settling:
            self._unannounced = 0
            self._on_room()
        return batch

    def settled(self, reports: Sequence[Report]) -> None:
        self._outstanding -= len(reports)
        if self._returned:  # which had not been added
            unstarted = [report.outcome for report in reports].count(None)
            beyond = min(unstarted, self._returned)
            self._returned -= beyond
            self._outstanding += beyond
        self._outstanding_urgent -= _critical([report.delivery for report in reports])
        self._reported = max(0, self._reported - len(reports))
        self._taken_surplus = max(0, self._taken_surplus - len(reports))
        if self._reported_bytes:
            outcomes = [report.outcome for report in reports]
            self._reported_bytes -= sum(_size(each) for each in outcomes if each is not None)
            if self._may_offer():  # again: idle slots have not been told
                self._wake_one()
        self._on_room()

    def acknowledge(self, reports: Sequence[Report], *, accepted: bool) -> None:
        """Slots keep nothing that they have reported."""

    def _unclaimed(self) -> int:
        """Slots that are not kept, and that nothing was claimed for; what was claimed ahead makes
        it negative. CRITICAL deliveries fill the kept ones first."""
        kept = max(0, self._reserved - self._outstanding_urgent)
        reported = max(0, self._reported - self._returned)
        settling = min(reported, self._settling + self._taken_surplus)
        if self._reported_bytes > _MOST_BYTES:
            settling = 0
        return self._slots - self._outstanding + settling - kept

    def _taken_back(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Count them like those in slots: whoever takes them back will report them, too."""
        urgent = _critical(deliveries)
        self._busy += urgent
        self._busy_others += len(deliveries) - urgent
        return deliveries

    def _wake_one(self) -> bool:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return True
        return False


def _critical(deliveries: Sequence[Delivery]) -> int:
    return sum([d.lane is _CRITICAL for d in deliveries])  # a generator takes twice as long


def _parted(deliveries: list[Delivery], last: int) -> tuple[list[Delivery], list[Delivery]]:
    """All but the last that are not CRITICAL, and those."""
    if not _critical(deliveries):
        return deliveries[:-last], deliveries[-last:]
    others = [d for d in deliveries if d.lane is not _CRITICAL][-last:]
    parted = {id(d) for d in others}
    return [d for d in deliveries if id(d) not in parted], others


def _size(outcome: Outcome) -> int:
    """Bytes that it keeps in memory, by and large."""
    result, body = outcome.result, outcome.response_body
    return (0 if result is None else len(result)) + (0 if body is None else len(body))
