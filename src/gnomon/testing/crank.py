"""A real node, stepped by hand from one moment that matters to the next.

Nothing of the node is replaced but its clock: its planner plans, its scanner reads, its dispatcher
claims, its slots run handlers and its recorder settles, on a real PostgreSQL. What a node repeats
after some time is done here when the rows say that it is due; between two moments at which anything
is, the clock jumps. While handlers run, it stands still.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import asyncpg

from gnomon.chores import Service
from gnomon.clock import SystemClock
from gnomon.node.node import Node
from gnomon.observe.events import RunSkipped, TasksSettled, TasksStarted
from gnomon.testing import turned_clock
from gnomon.testing.errors import NothingRuns
from gnomon.testing.virtual_clock import VirtualClock, whole_milliseconds

# What there is to do now, and the next moment at which there is more. A task of a handler that the
# app does not have is due for nobody. $1 now, $2 until when fires are planned, $3 handlers, $4 the
# seconds that a row counts as running after its timeout.
_LOOK = """
SELECT
    EXISTS (SELECT FROM gnomon.cron_job WHERE next_fire_at <= $2) AS plans,
    EXISTS (
        SELECT FROM gnomon.task
        WHERE state = 0 AND due_at <= $1 AND coalesce(target ->> 'function' = ANY ($3), true)
    ) AS due,
    EXISTS (SELECT FROM gnomon.task WHERE state = 3) AS queued,
    EXISTS (SELECT FROM gnomon.workflow_run WHERE state < 10)
        OR EXISTS (SELECT FROM gnomon.batch_note)
        OR EXISTS (SELECT FROM gnomon.batch WHERE step OR (state = 0 AND deadline <= $1))
        AS workflows,
    (SELECT min(due_at) FROM gnomon.task WHERE state = 0 AND due_at > $1) AS next_due,
    (SELECT min(next_fire_at) FROM gnomon.cron_job WHERE next_fire_at > $2) - ($2 - $1)
        AS next_plan,
    least(
        (SELECT min(deadline) FROM gnomon.workflow_run WHERE state = 0 AND deadline > $1),
        (SELECT min(due_at) FROM gnomon.workflow_node WHERE step = -1 AND due_at > $1),
        (SELECT min(deadline) FROM gnomon.batch WHERE state = 0 AND deadline > $1)
    ) AS next_step,
    (SELECT min(run_until) FROM gnomon.task WHERE state = 1) - make_interval(secs => $4)
        AS deadline
"""
# Seconds between looks at what is due and may not start yet, because of a limit, say; or the
# twentieth part of the time that it has waited.
_SHORTEST_STEP = 0.1
_STEP_PART = 0.05
_MOST_AT_ONE_MOMENT = 1_000_000
_A_WHILE = timedelta(seconds=10)
_WATCH_SECONDS = 0.02  # of real time, between looks for what handlers submit while they run


class Look(NamedTuple):
    """What the rows say at one moment."""

    plans: bool
    due: bool
    queued: bool  # runs of cron jobs that wait for others to end
    workflows: bool  # runs of workflows that have not ended, or batches with something to do
    next_due: datetime | None
    next_plan: datetime | None
    next_step: datetime | None  # of a workflow: a deadline, or the end of a wait
    deadline: datetime | None  # of the running handler that times out first

    @property
    def next(self) -> datetime | None:
        moments = (self.next_due, self.next_plan, self.next_step)
        return min((moment for moment in moments if moment is not None), default=None)


class CrankPace(NamedTuple):
    """Facts that the crank needs of the node's settings, and of the test's."""

    plan_ahead: timedelta
    grace_seconds: float
    patience: float  # real seconds for handlers, before the clock goes on without them


class Crank:
    """Turns a node that has joined. Its slots and its recorder run by themselves."""

    def __init__(
        self,
        node: Node,
        clock: VirtualClock,
        connection: "asyncpg.Connection[Any]",
        handlers: list[str],
        pace: CrankPace,
    ) -> None:
        self._node = node
        self._clock = clock
        self._connection = connection
        self._handlers = handlers
        self._pace = pace
        self._services = {service.name: service.once for service in node.services}
        self._turning = asyncio.Lock()
        self._settled = asyncio.Event()
        self._progress = 0  # claims, and runs that were skipped
        self._left_running = 0  # handlers that the clock has gone on without
        self._real = SystemClock()
        self._background: list[asyncio.Task[Any]] = []

    def observe(self, event: object) -> None:
        """Told by the node."""
        if isinstance(event, TasksSettled):
            self._settled.set()
            self._left_running = 0  # one of them may have waited for this
        elif isinstance(event, TasksStarted | RunSkipped):
            self._progress += 1

    @asynccontextmanager
    async def running(self, listen: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """The parts of the node that need no turning."""
        node = self._node
        background = [
            node.worker.run(),
            node.chores.run(Service("record", self._services["record"])),
            node.chores.run(Service("listen", listen)),
        ]
        loop = asyncio.get_running_loop()
        self._background = [loop.create_task(each) for each in background]
        try:
            yield
        finally:
            node.worker.interrupt_all("the test has ended")
            for task in self._background:
                task.cancel()
            # A handler that ignores its cancellation is waited for by the node's clock.
            while (await asyncio.wait(self._background, timeout=_WATCH_SECONDS))[1]:
                self._clock.set(self._clock.now() + _A_WHILE)

    async def register(self) -> None:
        """Make the app's task types and cron jobs known, as a worker does when it starts."""
        await self._once("register")

    async def drain(self) -> None:
        """Do all that is due now, and what that submits in turn."""
        async with self._turning:
            await self._once("directory")
            while (look := await self._do_what_is_due()).deadline is not None:
                # A handler goes on for longer than is waited for: it is timed out.
                await self._set(self._step_towards(look, look.deadline))

    async def advance(self, target: datetime) -> None:
        """Go on to a moment, doing on the way all that becomes due."""
        async with self._turning:
            await self._once("directory")
            kept_since = self._clock.now()  # what is due and may not start
            while True:
                before = self._progress
                look = await self._do_what_is_due()
                if self._progress > before or not look.due:
                    kept_since = self._clock.now()
                moment = self._next(look, kept_since)
                if moment is None or moment > target:
                    break
                await self._set(moment)
            await self._set(target)

    def _next(self, look: Look, kept_since: datetime) -> datetime | None:
        """The next moment at which there may be something to do."""
        now = self._clock.now()
        moments = [look.next, look.deadline and self._step_towards(look, look.deadline)]
        if look.due:
            kept = (now - kept_since).total_seconds()
            moments.append(now + timedelta(seconds=max(_SHORTEST_STEP, kept * _STEP_PART)))
        return min((moment for moment in moments if moment is not None), default=None)

    def _step_towards(self, look: Look, deadline: datetime) -> datetime:
        """The deadline of a handler or, once that has passed, the time that it gets to stop."""
        if deadline > self._clock.now():
            return min(deadline, look.next or deadline)
        return self._clock.now() + timedelta(seconds=self._pace.grace_seconds)

    async def _set(self, moment: datetime) -> None:
        moment = whole_milliseconds(moment)
        if moment > self._clock.now():
            await turned_clock.set_to(self._connection, moment)
            self._clock.set(moment)

    async def _look(self) -> Look:
        now, pace = self._clock.now(), self._pace
        row = await self._connection.fetchrow(
            _LOOK, now, now + pace.plan_ahead, self._handlers, pace.grace_seconds
        )
        assert row is not None
        return Look(*row.values())

    async def _do_what_is_due(self) -> Look:
        """Everything that can be done at this moment; gives what the rows say after it."""
        for _ in range(_MOST_AT_ONE_MOMENT):
            look = await self._look()
            if look.workflows:
                await self._once("workflow-steps")
                look = await self._look()
            if look.plans:
                await self._once("plan")
            elif not await self._start(look) and not await self._wait_for_handlers():
                if self._node.held:
                    return await self._look()  # some handlers are left to run
                if look.deadline is None:
                    return look
                # Else the last of them was settled after the look.
        raise NothingRuns(
            f"there is always more to do at {self._clock.now().isoformat()}: a handler may submit, "
            "or snooze, without end; or a cron job cannot be planned, as the log says"
        )

    async def _start(self, look: Look) -> bool:
        """Start what is due; gives whether anything was."""
        await self._once("start-queued")
        if look.queued:
            await self._once("look-for-queued")
        if not look.due:
            return False
        before = self._progress
        # What the node knows already; else what it finds; else what a limit lets it start.
        for service in ("tick", "repair", "permits"):
            await self._once(service)
            await self._once("tick")
            await self._once("dispatch")
            if self._progress > before:
                return True
        return False

    async def _wait_for_handlers(self) -> bool:
        """Wait until one of the handlers that run has ended, or has submitted what can start; gives
        whether one has."""
        self._left_running = min(self._left_running, self._node.held)
        if self._settled.is_set():
            self._settled.clear()
            return True
        began = self._real.monotonic()
        while self._node.held > self._left_running:
            if await self._real.wait(self._settled, _WATCH_SECONDS):
                self._settled.clear()
                return True
            if await self._start(await self._look()):
                return True
            self._check_alive()
            if self._real.monotonic() - began >= self._pace.patience:
                self._left_running = self._node.held
        return False

    def _check_alive(self) -> None:
        for task in self._background:
            if task.done():
                task.result()  # raises what the node died of

    async def _once(self, name: str) -> None:
        pause = await self._node.chores.run_once(name, self._services[name])
        if pause is not None:
            raise NothingRuns(f"the node's {name} fails: see the log for the reason")
