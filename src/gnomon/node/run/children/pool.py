"""Child processes that are started when they are needed, and replaced when they die."""

import asyncio
from collections.abc import Awaitable
from itertools import count

from gnomon.clock import Clock
from gnomon.model.tasks.task import TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.node.run.children.jobs import Died, Job, Newcomer
from gnomon.node.run.children.process import ChildProcess
from gnomon.observe.events import ChildUnfit, Observer
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings import Settings

_START_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # after a process could not be started


class ChildPool:
    """The calls that are made in children, in two steps: `ready` keeps a place for one and starts a
    process where it must, `call` makes it. Use as an async context manager: it owns the processes,
    and leaves none behind. They begin nothing once the lease may be over."""

    def __init__(self, settings: Settings, clock: Clock, lease: Lease, emit: Observer) -> None:
        self._settings = settings
        self._clock = clock
        self._lease = lease
        self._emit = emit
        self._tick = min(0.5, settings.node.lease_seconds / 5)
        self._children: dict[ChildProcess, asyncio.Task[None]] = {}
        self._numbers = count(1)
        self._pause = _FIRST_PAUSE
        self._closed_until = float("-inf")

    async def __aexit__(self, *_: object) -> None:
        tending = list(self._children.values())
        for child in list(self._children):
            child.close_by_node("its node has ended")
        if tending:
            await asyncio.wait(tending, timeout=_LONGEST_PAUSE)

    # Which child makes a call, and when a child is ended

    def _place(self, newcomer: Newcomer) -> ChildProcess | None:
        """The child that is to make the call; None: a new one."""
        raise NotImplementedError

    def _may_start(self) -> bool:
        """Whether one more may be started."""
        raise NotImplementedError

    def _is_over(self, child: ChildProcess) -> bool:
        """Whether to end a child now. Asked again and again while it serves."""
        raise NotImplementedError

    def _tell_death(self, died: Died, running: int, pid: int | None) -> None:
        """A child has died of what it ran."""
        raise NotImplementedError

    # Calls

    def ready(self, delivery: Delivery) -> Awaitable[object] | None:
        """A wait before the call: the start of a process is not the handler's time. From here on a
        place is kept for it: others that wait would otherwise be shown the same one."""
        newcomer = Newcomer(delivery)
        for each in self._children:
            each.expect_no_more(delivery.key)
        child = self._place(newcomer)
        if child is None:
            if not self._may_start():
                return self._until_open()
            child = self._new_child()
        child.expect(newcomer)
        return None if child.ready else _until_decided(child, delivery.key)

    def _until_open(self) -> Awaitable[object] | None:
        """A wait for one that cannot be called now, and will be released after it."""
        return None

    def _begin(
        self, delivery: Delivery, payload: bytes | None, run: TaskContext
    ) -> tuple[ChildProcess, Job] | None:
        """Have the call made. None: no place was kept for it, or its process is gone."""
        child = next((c for c in self._children if c.expects(delivery.key)), None)
        if child is None:
            return None
        if not child.ready or not child.takes_more:
            child.expect_no_more(delivery.key)
            return None
        job = Job(next(self._numbers), delivery, payload, run)
        child.give(job)
        return child, job

    @property
    def _is_paused(self) -> bool:
        """Whether the last process could not be started, a short while ago."""
        return self._clock.monotonic() < self._closed_until

    # The processes

    def _new_child(self) -> ChildProcess:
        child = ChildProcess(self._settings, self._clock, self._lease)
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
            self._tell_death(died, running, child.pid)

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


async def _until_decided(child: ChildProcess, key: TaskKey) -> None:
    try:
        await child.decided.wait()
    except BaseException:
        child.expect_no_more(key)
        raise
