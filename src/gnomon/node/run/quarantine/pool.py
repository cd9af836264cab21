"""Calls suspects in child processes of the node, many in each, several processes at once.

A process that dies costs its node nothing. It is replaced after a while, since what handlers leave
behind in it could kill those that come later; and at once where one ignores being told to stop.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Loss, Outcome, OutcomeKind
from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.node.run.children.frames import Cancelled, Ended, Left
from gnomon.node.run.children.jobs import Died, End, Job, Newcomer, Unstarted
from gnomon.node.run.children.pool import ChildPool
from gnomon.node.run.children.process import ChildProcess
from gnomon.node.run.quarantine.placement import place
from gnomon.node.run.stacks import Interrupted
from gnomon.node.run.threads import LeftRunning
from gnomon.observe.events import ChildDied, Observer
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings import Settings

_IDLE_SECONDS = 5.0  # after which a process without work is ended
_OLD_SECONDS = 60.0  # after which it gets no more
_MOST_CALLS = 1000
_RETIRED_SECONDS = 60.0  # for the others in a process where one ignores being told to stop


_MOST_KILLERS = 100  # that nobody has told of yet


class Killer(NamedTuple):
    """A task that has killed the process that it ran in, alone."""

    key: TaskKey
    task_type: str
    how: str


class Quarantine(ChildPool):
    """`Caller` for handlers whose tasks are suspects."""

    def __init__(self, settings: Settings, clock: Clock, lease: Lease, emit: Observer) -> None:
        super().__init__(settings, clock, lease, emit)
        self._limit = settings.targets.quarantine_processes
        self._patience = settings.node.timeout_grace_seconds / 2
        self.killers: deque[Killer] = deque(maxlen=_MOST_KILLERS)

    async def __aenter__(self) -> "Quarantine":
        return self

    def is_open(self) -> bool:
        """Whether a suspect could be called now. Without a path children cannot find the app."""
        if self._settings.node.app is None:
            return False
        busy = sum(bool(child.members) for child in self._children)
        return busy < 2 * self._limit and not self._is_paused

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        """None: the call was not made, since no place was kept for it, or its process is gone."""
        begun = self._begin(delivery, payload, run)
        if begun is None:
            return None
        child, job = begun
        child.retired = child.retired or job.group_size == 1
        try:
            end = await asyncio.shield(job.over)
        except asyncio.CancelledError:
            child.cancel(job)
            end = await asyncio.shield(job.over)  # the runner waits no longer than it must
            if isinstance(end, Died) and not end.blocked:
                raise
        if isinstance(end, Died) and end.alone and not end.by_node:
            self.killers.append(Killer(delivery.key, delivery.task_type, end.how))
        return _came_to(job, end)

    def _place(self, newcomer: Newcomer) -> ChildProcess | None:
        return place(list(self._children), newcomer, self._limit)

    def _may_start(self) -> bool:
        if not self.is_open():
            return False
        for idle in self._children:
            if not idle.members and not idle.fresh:
                idle.retire()
        return True

    def _tell_death(self, died: Died, running: int, pid: int | None) -> None:
        self._emit(ChildDied(how=died.how, tasks=running, alone=died.alone, pid=pid))

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
            child.close_by_node("a handler in it ignored being told to stop")
            return True
        if child.ignored_since is not None and now - child.ignored_since > _RETIRED_SECONDS:
            child.close_by_node("another handler in it ignored being told to stop")
            return True
        return not child.members and (child.retired or now - child.idle_since > _IDLE_SECONDS)


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
