"""Calls handlers with process=True: in child processes, one execution in each at a time.

A child is started when a call needs one, and stays for the next. One that goes on with a call after
it was told to stop is killed; the next call gets a new one.
"""

import asyncio
from collections.abc import Awaitable

import structlog

from gnomon.clock import Clock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.node.membership.lease import Lease
from gnomon.node.run.children.frames import Cancelled, Ended, Left
from gnomon.node.run.children.jobs import Died, End, Job, Newcomer, Unstarted
from gnomon.node.run.children.pool import ChildPool
from gnomon.node.run.children.process import ChildProcess
from gnomon.node.run.stacks import Interrupted
from gnomon.node.run.targets import Place
from gnomon.observe.events import Observer
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings import Settings

log = structlog.get_logger("gnomon.node.run")

_STOP_SECONDS = 1.0  # for a handler to end by itself, once it was told to stop
_LEAVE_SECONDS = 5.0  # for the app's lifespan to end, in a child that is idle
_NO_PATH = Outcome(
    OutcomeKind.FAILED,
    error="a handler with process=True needs an app that another process can import: make it an "
    "attribute of a module, and name it in node.app, such as shop:app",
)


class ProcessPool(ChildPool):
    """`Caller` for handlers with process=True."""

    def __init__(self, settings: Settings, clock: Clock, lease: Lease, emit: Observer) -> None:
        super().__init__(settings, clock, lease, emit)
        self._limit = settings.targets.most_processes
        self.place = Place("processes", self._limit)
        self._stop_seconds = min(_STOP_SECONDS, settings.node.timeout_grace_seconds / 4)

    async def __aenter__(self) -> "ProcessPool":
        return self

    async def __aexit__(self, *_: object) -> None:
        leaving = [task for child, task in self._children.items() if child.leave()]
        if leaving:
            await asyncio.wait(leaving, timeout=_LEAVE_SECONDS)
        await super().__aexit__()

    async def call(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> Outcome | None:
        """None: the call was not made, since no place was kept for it, or its process is gone."""
        if self._settings.node.app is None:
            return _NO_PATH
        begun = self._begin(delivery, payload, run)
        if begun is None:
            return None
        child, job = begun
        try:
            end = await asyncio.shield(job.over)
        except asyncio.CancelledError:
            child.cancel(job)
            end = await self._stopped(child, job)
        return _came_to(job, end)

    async def _stopped(self, child: ChildProcess, job: Job) -> End:
        """How a call ends that was told to stop: by itself within a moment, or with its process."""
        try:
            return await self._stopped_by_itself(child, job)
        except BaseException:
            child.close_by_node("its node stopped waiting for a handler in it")
            raise

    async def _stopped_by_itself(self, child: ChildProcess, job: Job) -> End:
        await asyncio.wait([job.over], timeout=self._stop_seconds)
        end = job.over.result() if job.over.done() else None
        if end is not None and not isinstance(end, Left):
            return end
        if isinstance(end, Left):
            await asyncio.wait([job.returned], timeout=self._stop_seconds)
        if not job.returned.done():
            child.close_by_node("a handler in it went on after it was told to stop")
        return Cancelled(job.number, None if end is None else end.where)

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        return None if self._settings.node.app is None else super().ready(delivery)

    def _place(self, _: Newcomer) -> ChildProcess | None:
        return next(
            (c for c in self._children if c.takes_more and not c.members and not c.left), None
        )

    def _may_start(self) -> bool:
        return not self._is_paused and sum(c.takes_more for c in self._children) < self._limit

    def _until_open(self) -> Awaitable[object]:
        """Else it would be released and claimed again at once."""
        wait = max(self._tick, self._closed_until - self._clock.monotonic())
        return self._clock.sleep(wait)

    def _tell_death(self, died: Died, running: int, pid: int | None) -> None:
        log.warning("the process of a handler died", how=died.how, tasks=running, process=pid)

    def _is_over(self, child: ChildProcess) -> bool:
        # It may be too busy to answer: only its own end, or its node, ends it.
        return child.retired and not child.members


def _came_to(job: Job, end: End) -> Outcome | None:
    match end:
        case Ended(outcome=outcome):
            return outcome
        case Unstarted():
            return None
        case Cancelled(where=where) | Left(where=where):
            raise Interrupted(where)
        case Died(how=how, by_node=by_node):
            if by_node:
                raise Interrupted(None)
            return Outcome(
                OutcomeKind.FAILED,
                error=f"the process that it ran in died: {how}",
                completed_by_handler=job.run.completed,
            )
