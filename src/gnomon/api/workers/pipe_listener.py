"""Answers the calls of workers that come through a broker, by the application that answers HTTP.

So keys, roles, bounds and errors are the same. A broker being away is a trouble of a chore: it is
retried, and `explain`, `doctor`, events and metrics tell of it. Polls that wait are hung up, so
that nothing more is claimed for workers that cannot be reached.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection
from itertools import count
from typing import NamedTuple

import msgspec
import structlog
from litestar.types import ASGIApp

from gnomon.api.http.answers.problems import Problem, busy, problem
from gnomon.api.workers.carried_call import CarriedCall, fault, refusal
from gnomon.chores import Troubles
from gnomon.clock import Clock, new_incarnation
from gnomon.model.errors import BrokenInvariant, LeaseLost
from gnomon.pipe.http.messages import MOST_BODY_BYTES
from gnomon.pipe.meeting.frames import (
    UNREADABLE,
    PipeAnswer,
    PipeCall,
    encoded,
    gateway_channel,
    is_worker_channel,
)
from gnomon.pipe.meeting.link import (
    MOST_ASKED,
    MOST_OFFERED,
    MessageTooLarge,
    PipeLink,
    PipeUnavailable,
    UnfitBroker,
    link_to,
)
from gnomon.settings import PipeSettings

log = structlog.get_logger("gnomon.api")

TELL_SECONDS = 10.0  # between two lines in the log
_REMEDY = "see to {}; its workers are given nothing until it answers, and connect by themselves"
_LONGEST_PAUSE = 1.0
# Each has an answer, and the link has room for all of them, for what is offered and for its own.
_MOST_CALLS = MOST_ASKED - MOST_OFFERED - 100
_SHARES = 4  # of the bytes, of which a channel with several calls has one
_read = msgspec.msgpack.Decoder(PipeCall).decode


class PipeBounds(NamedTuple):
    """What calls that are under way may take together, those that wait to be refused included."""

    calls: int
    bytes: int  # of the calls, and of answers until they are sent
    largest: int = MOST_BODY_BYTES  # that a poll may have

    @property
    def share(self) -> int:
        """Bytes of a channel with several calls: two polls of a worker fit at any time."""
        return max(self.bytes // _SHARES, 2 * self.largest)


class PipeListener:
    """The end of the pipe in an API process: the `LinkEnd` of a gateway."""

    is_gateway = True
    largest_tried = False

    def __init__(
        self,
        app: ASGIApp,
        settings: PipeSettings,
        clock: Clock,
        troubles: Troubles,
        on_change: Callable[[bool], None],
        bounds: PipeBounds,
    ) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._troubles = troubles
        self._on_change = on_change  # told whether the broker can be reached
        self._place = settings.place
        self._bounds = bounds._replace(calls=min(bounds.calls, _MOST_CALLS))
        self._calls: dict[str, set[CarriedCall]] = {}  # by the channel of their answers
        self._under_way = self._held = 0  # calls, and their bytes
        self._numbers = count(1)
        self._refused, self._told_at = 0, -math.inf
        self._begin: Callable[[PipeCall, int], None] = _nobody
        self._refuse: Callable[[PipeCall, Problem], None] = _nobody

    async def run(self) -> None:
        """Answer calls, through one connection after the other."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._serve(group)
                except (BrokenInvariant, LeaseLost):
                    raise
                except PipeUnavailable as error:
                    pause = self._noted(error)
                except Exception as error:  # noqa: BLE001 - calls that are under way are answered
                    pause = self._troubles.note(self._place.chore, error)
                await self._clock.sleep(pause)

    def _noted(self, error: PipeUnavailable) -> float:
        """The seconds to wait before it is tried again."""
        chore, remedy = self._place.chore, _REMEDY.format(self._place.label)
        pause = self._troubles.note(chore, error, remedy=remedy)
        if isinstance(error, UnfitBroker):
            return self._troubles.postpone(chore)
        return min(pause, _LONGEST_PAUSE)

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        """One connection, to its end. Raises PipeUnavailable, and what nobody has thought of."""
        channel = gateway_channel(self._settings.namespace, str(new_incarnation()))
        link = link_to(self._settings, channel, self._clock, self)

        def begin(call: PipeCall, size: int) -> None:
            made = CarriedCall(call, next(self._numbers), size)
            self._enter(call.answer_to, made)  # at once: its task may be hung up before it starts
            task = group.create_task(self._answer(link, call, made))
            task.add_done_callback(lambda _: self._leave(call.answer_to, made))

        def refuse(call: PipeCall, found: Problem) -> None:
            link.offer(call.answer_to, encoded(refusal(call, found)))

        self._begin, self._refuse = begin, refuse
        try:
            await link.run()
        finally:
            self._on_change(False)
            self.gone(list(self._calls))

    # What the link tells

    def ready(self) -> None:
        where = self._settings.where
        log.info(f"remote workers are heard through {self._place.label}", where=where)
        self._troubles.over(self._place.chore)
        self._on_change(True)

    def hear(self, frame: bytes) -> None:
        try:
            call = _read(frame)
        except UNREADABLE:
            return  # of nobody who waits for an answer
        if not is_worker_channel(self._settings.namespace, call.answer_to):
            return
        found = fault(call) or self._excess(call.answer_to, len(frame))
        if found is None:
            self._begin(call, len(frame))
        else:
            self._refuse(call, found)

    def beaten(self, gateway: str) -> None:
        """Others are well."""

    def watched(self) -> Collection[str]:
        return self._calls.keys()

    def gone(self, channels: Collection[str]) -> None:
        """Hang up: their workers wait no more."""
        for channel in channels:
            for call in self._calls.get(channel, ()):
                call.closed.set()

    # Calls

    def _excess(self, channel: str, size: int) -> Problem | None:
        """Why there is no room for a call of so many bytes, if there is none."""
        if size > self._bounds.bytes:
            return problem(413, f"a call has at most {self._bounds.bytes} bytes")
        own = self._calls.get(channel)
        if own and size + sum(each.size for each in own) > self._bounds.share:
            self._tell_refused("too many bytes of one worker")
            return busy("too many bytes of this worker are in progress; try again")
        if self._under_way < self._bounds.calls and self._held + size <= self._bounds.bytes:
            return None
        self._tell_refused("too many")
        return busy(f"too many calls through {self._place.label} are in progress; try again")

    def _tell_refused(self, what: str) -> None:
        self._refused += 1
        now = self._clock.monotonic()
        if now >= self._told_at + TELL_SECONDS:
            log.warning(
                f"refused calls through {self._place.label}: {what} are in progress",
                refused=self._refused, calls=self._under_way, held_bytes=self._held,
            )  # fmt: skip
            self._refused, self._told_at = 0, now

    def _enter(self, channel: str, call: CarriedCall) -> None:
        self._calls.setdefault(channel, set()).add(call)
        self._under_way += 1
        self._held += call.size

    def _leave(self, channel: str, call: CarriedCall) -> None:
        self._calls[channel].discard(call)
        if not self._calls[channel]:
            del self._calls[channel]
        self._under_way -= 1
        self._held -= call.size

    async def _answer(self, link: PipeLink, call: PipeCall, made: CarriedCall) -> None:
        try:
            answer = await made.answered(self._app)
        except Exception:  # as the HTTP server does
            log.exception("a call through a broker failed")
            answer = PipeAnswer(call.number, 500, {}, b"")
        self._held += len(answer.body)
        made.size += len(answer.body)
        # Where it cannot be sent, the link ends by the same, and the worker asks again.
        with contextlib.suppress(PipeUnavailable):
            await self._send(link, call, answer)

    async def _send(self, link: PipeLink, call: PipeCall, answer: PipeAnswer) -> None:
        """Or say that it is too large: its worker would wait for it in vain. Raises
        PipeUnavailable."""
        try:
            await link.publish(call.answer_to, encoded(answer))
        except MessageTooLarge as error:
            size = len(answer.body)
            log.error("an answer is too large for the broker", bytes=size, why=str(error))  # noqa: TRY400
            found = problem(500, f"{self._place.label} does not take the answer of {size} bytes")
            link.offer(call.answer_to, encoded(refusal(call, found)))


def _nobody(_call: PipeCall, _what: object) -> None:
    """There is no connection."""
