"""Calls suspects in child processes of the node, many in each, several processes at once.

A process that dies costs its node nothing. It is replaced after a while, since what functions leave
behind in it could kill those that come later; and at once where one ignores being told to stop.
"""

import asyncio
from collections.abc import Awaitable
from itertools import count

import structlog

from gnomon.clock import Clock
from gnomon.model.outcome import Loss, Outcome, OutcomeKind
from gnomon.model.task import DeliveryMode, TaskKey
from gnomon.node.run.quarantine.frames import Cancelled, Ended, Left
from gnomon.node.run.quarantine.placement import place
from gnomon.node.run.quarantine.process import ChildProcess, Died, End, Job, Newcomer, Unstarted
from gnomon.node.run.stacks import Interrupted
from gnomon.node.run.threads import LeftRunning
from gnomon.observe.events import ChildDied, ChildUnfit, Observer
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.context import TaskContext
from gnomon.settings import Settings

log = structlog.get_logger("gnomon.node.run")

_START_SECONDS = 60.0
_IDLE_SECONDS = 5.0  # after which a process without work is ended
_OLD_SECONDS = 60.0  # after which it gets no more
_MOST_CALLS = 1000
_RETIRED_SECONDS = 60.0  # for the others in a process where one ignores being told to stop
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # after a process could not be started


class Quarantine:
    """`Caller` for handlers whose tasks are suspects. Use as an async context manager: it owns the
    processes, and leaves none behind."""

    def __init__(self, settings: Settings, clock: Clock, emit: Observer) -> None:
        self._settings = settings
        self._clock = clock
        self._emit = emit
        self._limit = settings.targets.quarantine_processes
        self._patience = settings.node.timeout_grace_seconds / 2
        self._tick = min(0.5, settings.node.lease_seconds / 5)
        self._children: dict[ChildProcess, asyncio.Task[None]] = {}
        self._numbers = count(1)
        self._pause = _FIRST_PAUSE
        self._closed_until = float("-inf")

    async def __aenter__(self) -> "Quarantine":
        return self

    async def __aexit__(self, *_: object) -> None:
        tending = list(self._children.values())
        for child in list(self._children):
            child.close_by_node("its node has ended")
        if tending:
            await asyncio.wait(tending, timeout=_LONGEST_PAUSE)

    def is_open(self) -> bool:
        """Whether a suspect could be called now. Without a path children cannot find the app."""
        if self._settings.node.app is None:
            return False
        busy = sum(bool(child.members) for child in self._children)
        return busy < 2 * self._limit and self._clock.monotonic() >= self._closed_until

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """A wait before the call: the start of a process is not the function's time. From
        here on a place is kept for it: others that wait would otherwise be shown the same one."""
        newcomer = Newcomer(delivery)
        for each in self._children:
            each.expect_no_more(delivery.key)
        child = place(list(self._children), newcomer, self._limit)
        if child is None:
            if not self.is_open():
                return None  # the call will not be made
            child = self._new_child()
        child.expect(newcomer)
        return None if child.ready else _until_decided(child, delivery.key)

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        """None: the call was not made, since no place was kept for it, or its process is gone."""
        child = next((c for c in self._children if c.expects(delivery.key)), None)
        if child is None:
            return None
        if not child.ready or not child.takes_more:
            child.expect_no_more(delivery.key)
            return None
        job = Job(next(self._numbers), delivery, payload, run)
        child.give(job)
        try:
            end = await asyncio.shield(job.over)
        except asyncio.CancelledError:
            child.cancel(job)
            end = await asyncio.shield(job.over)  # the runner waits no longer than it must
            if isinstance(end, Died) and not end.blocked:
                raise
        return _came_to(job, end)

    # The processes

    def _new_child(self) -> ChildProcess:
        for idle in self._children:
            if not idle.members and not idle.fresh:
                idle.retire()
        child = ChildProcess(self._settings, self._clock)
        task = asyncio.get_running_loop().create_task(self._tend(child))
        self._children[child] = task
        return child

    async def _tend(self, child: ChildProcess) -> None:
        try:
            await self._serve(child)
        finally:
            child.close()
            await child.wait_gone()
            running = sum(job.started for job in child.jobs)
            died = child.conclude()
            del self._children[child]
        if running and not died.by_node:
            self._emit(ChildDied(how=died.how, tasks=running, alone=died.alone, pid=child.pid))

    async def _serve(self, child: ChildProcess) -> None:
        why = await self._started(child)
        if why is not None:
            self._closed_until = self._clock.monotonic() + self._pause
            self._emit(ChildUnfit(why, self._pause))
            self._pause = min(_LONGEST_PAUSE, self._pause * 2)
            return
        self._pause = _FIRST_PAUSE
        while not child.exited:
            child.changed.clear()
            child.ping()
            await self._clock.wait(child.changed, self._tick)
            child.forget_late()
            if self._is_over(child):
                return

    async def _started(self, child: ChildProcess) -> str | None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await child.start()
        except TimeoutError:
            return f"it was not ready within {_START_SECONDS:g} s"

    def _is_over(self, child: ChildProcess) -> bool:
        """Whether to end the process now."""
        now = self._clock.monotonic()
        jobs = child.jobs
        told = [job.told_at for job in jobs if job.told_at is not None]
        silent = child.unanswered * self._tick
        if silent > self._settings.node.lease_seconds or (
            told and silent > self._patience / 2 and now - min(told) > self._patience / 2
        ):
            child.close_as_blocked(f"it blocked the event loop of its process for {silent:.1f} s")
            return True
        ignored = child.left > 0 or any(now - at > self._patience for at in told)
        if not ignored:
            child.ignored_since = None
        elif child.ignored_since is None:
            child.retired = True
            child.ignored_since = now
        if child.given >= _MOST_CALLS or now - child.born_at > _OLD_SECONDS:
            child.retired = True
        # One that does not answer may be blocked, which is another matter: see above.
        if len(told) == len(jobs) and ignored and not child.unanswered:
            child.close_by_node("a function in it ignored being told to stop")
            return True
        if child.ignored_since is not None and now - child.ignored_since > _RETIRED_SECONDS:
            child.close_by_node("another function in it ignored being told to stop")
            return True
        return not child.members and (child.retired or now - child.idle_since > _IDLE_SECONDS)


async def _until_decided(child: ChildProcess, key: TaskKey) -> None:
    try:
        await child.decided.wait()
    except BaseException:
        child.expect_no_more(key)
        raise


def _came_to(job: Job, end: End) -> Outcome | None:
    match end:
        case Ended(outcome=outcome):
            return outcome
        case Unstarted():
            return None
        case Cancelled(where=where):
            raise Interrupted(where)
        case Left(where=where):
            raise LeftRunning(job.returned, where)
        case Died():
            return _lost(job, end)


def _lost(job: Job, died: Died) -> Outcome:
    if died.by_node:
        loss, error = Loss.NODE, f"the process that it ran in was ended: {died.how}"
    elif died.alone:
        loss, error = Loss.ALONE, f"it killed the process that it ran in, alone: {died.how}"
    else:
        loss = Loss.IN_GROUP
        others = "1 other task" if died.others == 1 else f"{died.others} other tasks"
        error = f"the process that it ran in with {others} died: {died.how}"
    if job.delivery.mode is DeliveryMode.AT_MOST_ONCE:
        error += "; at_most_once is never tried again"
    return Outcome(OutcomeKind.LOST, error=error, loss=loss, completed_by_handler=job.run.completed)
