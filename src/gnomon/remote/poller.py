"""The poll loop: reports and free slots go up, deliveries and commands come down.

One poll counts at a time. While one only waits and there is something to say, a newer one is sent
beside it, and whatever the older one is answered is ignored: the gateway says it again.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import msgspec
import structlog

from gnomon.client.errors import ApiProblem
from gnomon.clock import Chance, Clock
from gnomon.model.errors import GnomonError, LeaseLost
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.node.membership.lease import Lease
from gnomon.node.run.worker import Worker
from gnomon.observe.events import Observer
from gnomon.pipe.http.messages import (
    MOST_HELD,
    MOST_REPORTS,
    MOST_SLOTS,
    Poll,
    PollAnswer,
    SessionOpened,
    StopOrder,
    TaskClaim,
    WorkerReport,
)
from gnomon.pipe.memory import MemoryPipe
from gnomon.remote.grants import StartGrants
from gnomon.remote.held import HeldDeliveries
from gnomon.remote.messages import delivery_of
from gnomon.remote.progress import EVERY_SECONDS, ProgressNotes
from gnomon.remote.telling import reported_event, taken_event

log = structlog.get_logger("gnomon.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
_MOST_UNDER_WAY = 2  # polls
_LAST_SECONDS = 1.0  # for an older poll to end, once a newer one is sent
_HURRIED_SECONDS = 0.05  # an empty answer that comes sooner is followed by a pause
_LOG_SECONDS = 60.0
_MOST_OVER = 4  # times as many deliveries are held, and not reported, as were asked for
# That a poll waits while a report is not acknowledged, or a question not answered: what they wait
# for may be stuck, and all that comes up meanwhile is said by the next one.
_UNSETTLED_SECONDS = 1.0


class PollCalls(Protocol):
    """The call of a gateway that this needs."""

    async def poll(self, session: SessionOpened, poll: Poll) -> PollAnswer:
        """Raises LeaseLost, ClientError and BadAnswer."""


class HeldSession(msgspec.Struct, frozen=True):
    """An open session, its lease, and the gateway that it is held with."""

    calls: PollCalls
    opened: SessionOpened
    lease: Lease


class Ends(msgspec.Struct, frozen=True):
    """What the poll loop calls when the session is to end."""

    on_lost: Callable[[], None]
    on_drain: Callable[[], None]


class PollBackoff:
    """Pauses that double, with jitter."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._failures = 0

    def next(self, least: float = 0.0) -> float:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * (1 << self._failures))
        self._failures = min(self._failures + 1, 16)
        return least + longest * (0.5 + self._chance() / 2)

    def over(self) -> None:
        self._failures = 0


class Poller:
    """The far end of a worker's pipe."""

    def __init__(
        self,
        session: HeldSession,
        pipe: MemoryPipe,
        held: HeldDeliveries,
        clock: Clock,
        chance: Chance,
        ends: Ends,
    ) -> None:
        self._calls = session.calls
        self._session = session.opened
        self._lease = session.lease
        self._pipe = pipe
        self._held = held
        self._clock = clock
        self._ends = ends
        self._backoff = PollBackoff(chance)
        self._hurried = PollBackoff(chance)
        self._news = asyncio.Event()
        self._sequence = 0
        self._epoch = session.opened.epoch
        self._pause = 0.0
        self._asked_for = 0  # deliveries, by the last poll
        self._under_way: list[asyncio.Task[None]] = []  # the oldest first
        self._most = _MOST_OVER * max(1, pipe.room())
        self._logged_at = float("-inf")
        self._failing = False
        self.grants = StartGrants(clock, self._news.set)

    def use(self, worker: Worker, progress: ProgressNotes, tell: Observer) -> None:
        """The worker whose pipe this is; `tell` hears what it takes and ends."""
        self._worker = worker
        self._progress = progress
        self._tell = tell

    async def run(self) -> None:
        """Poll until cancelled, or until the session has ended."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect())
            group.create_task(self._watch_progress())
            while not self._lease.lost:
                await self._make_way()
                self._news.clear()
                self._sequence += 1
                polling = group.create_task(self._exchange(self._poll()))
                self._under_way.append(polling)
                await self._until_next(polling, group)
                if self._pause:
                    await self._clock.sleep(self._pause)

    def say_now(self) -> None:
        """Poll again at once: something has changed."""
        self._news.set()

    # When to poll

    async def _collect(self) -> None:
        while True:
            self._held.reported(await self._pipe.reports(MOST_REPORTS))
            self._news.set()

    async def _watch_progress(self) -> None:
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            if self._progress.changed() or (self._asked_for == 0 and self._room() > 0):
                self._news.set()

    async def _until_next(self, polling: "asyncio.Task[None]", group: asyncio.TaskGroup) -> None:
        """Until it is answered; or there is something to say while it only waits. Where reports or
        questions are open it is answered soon."""
        if self._is_unsettled():
            await asyncio.wait([polling])
            return
        heard = group.create_task(self._news.wait())
        await asyncio.wait([polling, heard], return_when=asyncio.FIRST_COMPLETED)
        heard.cancel()

    def _is_unsettled(self) -> bool:
        return self._held.has_reports or bool(self.grants.asked())

    async def _make_way(self) -> None:
        """Give up the oldest poll where it does not end although a newer one was sent."""
        self._under_way = [each for each in self._under_way if not each.done()]
        while len(self._under_way) >= _MOST_UNDER_WAY:
            oldest = self._under_way.pop(0)
            await asyncio.wait([oldest], timeout=_LAST_SECONDS)
            oldest.cancel()

    # One poll

    async def _exchange(self, poll: Poll) -> None:
        """Send it, and take the answer, unless a newer one was sent meanwhile. Says in `_pause`
        how long to wait before the next."""
        asked_at = self._clock.monotonic()
        pause = 0.0
        try:
            answer = await self._calls.poll(self._session, poll)
            if poll.sequence < self._sequence:
                return
            new = self._take(poll, answer)
        except LeaseLost as error:
            log.warning("the session has ended", why=str(error))
            self._ends.on_lost()
            return
        except Exception as error:  # noqa: BLE001 - whatever it is: the next poll says all again
            self._failed(error)
            asked = error.retry_after if isinstance(error, ApiProblem) else None
            pause = self._backoff.next(min(asked or 0.0, LONGEST_PAUSE))
        else:
            self._worked()
            hurried = self._clock.monotonic() - asked_at < _HURRIED_SECONDS
            if hurried and not new:
                pause = self._hurried.next()
            else:
                self._hurried.over()
        if poll.sequence == self._sequence:
            self._pause = pause

    def _poll(self) -> Poll:
        self._pause = 0.0
        self._asked_for = self._room()
        longest = self._session.poll_seconds
        return Poll(
            sequence=self._sequence,
            epoch=self._epoch,
            slots=self._asked_for,
            wait_seconds=min(longest, _UNSETTLED_SECONDS) if self._is_unsettled() else longest,
            held=self._held.claims(),
            reports=cast("tuple[WorkerReport, ...]", tuple(self._held.to_send())),  # encoded
            begin=tuple(self.grants.asked()[:MOST_REPORTS]),
            progress=tuple(self._progress.changed()[:MOST_REPORTS]),
        )

    def _room(self) -> int:
        """How many more deliveries may come now: none while nothing may start."""
        if self._worker.draining or not self._lease.is_trusted(self._clock.monotonic()):
            return 0
        return max(0, min(self._pipe.room(), MOST_SLOTS, MOST_HELD - len(self._held)))

    # The answer

    def _take(self, poll: Poll, answer: PollAnswer) -> bool:
        """Do what it says; gives whether that is anything new."""
        new = bool(answer.acknowledged or answer.begun or answer.deliveries or answer.command)
        new = new or answer.epoch != self._epoch
        if answer.epoch == self._epoch:
            self._held.heard(len(poll.reports))
        else:  # of another gateway, which has heard nothing yet
            self._epoch = answer.epoch
            self._held.say_all_again()
        self._progress.told(poll.progress)
        self._settle(answer)
        self.grants.answered(answer.begun)
        self._deliver(answer)
        for order in answer.cancel:
            self._cancel(order)
        if answer.command == "drain":
            self._ends.on_drain()
        return new

    def _settle(self, answer: PollAnswer) -> None:
        settled, refused = self._held.acknowledged(answer.acknowledged)
        if settled:
            self._pipe.settled(settled)
            self._tell(reported_event(settled))
        if refused:
            log.warning(
                "reports were refused as stale: their tasks run elsewhere", refused=len(refused)
            )

    def _deliver(self, answer: PollAnswer) -> None:
        if not answer.deliveries:
            return
        now = self._clock.seconds()
        # What is far more than was asked for is not held, so that the gateway takes it back.
        room = min(self._most - self._held.unreported, MOST_HELD - len(self._held))
        few = answer.deliveries[: max(0, room)]
        new = self._held.take(delivery_of(each, self._session, now) for each in few)
        self._pipe.send(new)
        self._tell(taken_event(new, self._clock.now()))

    def _cancel(self, order: StopOrder) -> None:
        claim = TaskClaim(order.task_id, order.fence)
        self._held.say_again(claim)
        delivery = self._held.not_reported(claim)
        if delivery is not None:
            preempted = order.reason == "preempted"
            kind = OutcomeKind.PREEMPTED if preempted else OutcomeKind.CANCELLED
            self._worker.interrupt(delivery.key, order.reason, kind, order.fence)

    # Failures

    def _failed(self, error: Exception) -> None:
        self._failing = True
        now = self._clock.monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            log.warning(
                "the gateway cannot be polled: what runs goes on, and reports are kept",
                why=str(error),
                held=len(self._held),
                exc_info=None if isinstance(error, GnomonError) else error,
            )

    def _worked(self) -> None:
        self._backoff.over()
        if self._failing:
            self._failing = False
            self._logged_at = float("-inf")
            log.info("the gateway answers again")
