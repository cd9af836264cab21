"""A worker without a store, its handlers, and all that it reports."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

import msgspec
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock
from gnomon.model.errors import StoreUnavailable
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.node.membership.lease import Lease
from gnomon.node.run.payloads import Payloads
from gnomon.node.run.runner import Runner
from gnomon.node.run.starter import Starter
from gnomon.node.run.targets import Callers
from gnomon.node.run.targets.python import PythonCaller
from gnomon.node.run.worker import Worker
from gnomon.node.start_checks import StartChecks
from gnomon.observe.events import Event, nobody
from gnomon.pipe.envelope import Delivery, FencedKey, Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.signals import Snooze
from gnomon.testing.contracts.pipe import a_delivery

SLOTS = 2
PATIENCE = 0.2
PAYLOAD_MEMORY = 10
ASKS: dict[str, Any] = {"mode": DeliveryMode.AT_MOST_ONCE}
APART: dict[str, Any] = {"payload": None, "payload_size": PAYLOAD_MEMORY}


class World:
    """A worker of two slots, its handlers, and all that it reports."""

    def __init__(
        self, checks: StartChecks | None = None, /, *functions: Callable[..., Any]
    ) -> None:
        self.clock = SystemClock()
        self.reports: list[Report] = []
        self.events: list[Event] = []
        self.begun: list[str] = []
        self.slots: list[asyncio.Task[Any]] = []  # that ran `work` or `wait`, in turn
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()  # the store, for consent or for a payload
        self.answered = asyncio.Event()  # what the store was asked
        self.consented_at: float | None = None
        self.payload: bytes | StoreUnavailable | None = b"{}"
        self.stubborn = False  # the store answers even whoever was told to stop
        self.fetching = 0
        self.may_begin = True  # a handler that has waited
        self.thread_gate = threading.Event()
        self.pipe = MemoryPipe(SLOTS, lambda: None, prefetch=100)
        self.app = app = Gnomon()
        own: tuple[Callable[..., Any], ...] = (
            self.hang, self.hang_in_thread, self.work, self.wait, self.fail_when_told, self.snooze,
            self.complete_and_hang, self.complete_and_wait, self.complete_when_told,
            self.cancel_the_slot,
        )  # fmt: skip
        for function in (*own, *functions):
            app.task(function)
        self.python = PythonCaller(app, SLOTS, lambda: self.may_begin)
        one = self.python  # no webhooks are called
        self.callers = Callers(one, one, one, one, one, one)
        troubles = Troubles(self.clock, nobody)
        self.runner = Runner(
            self.callers,
            Payloads(self._payload, PAYLOAD_MEMORY, troubles),
            self.clock,
            PATIENCE,
            self.events.append,
            checks,
        )
        self.lease = Lease(UUID(int=0), 3600.0)
        self.lease.renewed(self.clock.monotonic())
        starter = Starter(self._begin, troubles)
        self.worker = Worker(self.pipe, self.runner, starter, self.lease, self.clock, SLOTS)

    async def hang(self, payload: Any) -> str:
        self.begun.append("hang")
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    def hang_in_thread(self, payload: Any) -> str:
        self.begun.append("hang_in_thread")
        self.thread_gate.wait(60)
        return "late"

    async def work(self, payload: Any) -> str:
        self.begun.append("work")
        self._keep_slot()
        return "done"

    async def wait(self, payload: Any) -> str:
        self.begun.append("wait")
        self._keep_slot()
        await self.gate.wait()
        return "waited"

    async def fail_when_told(self, payload: Any) -> None:
        try:
            await self.wait(payload)
        except asyncio.CancelledError:
            raise ValueError("no way to stop") from None

    async def snooze(self, payload: Any) -> None:
        raise Snooze(1.0)

    async def complete_and_hang(self, payload: Any, run: TaskContext) -> None:
        run.completed = True
        await self.hang(payload)

    async def complete_and_wait(self, payload: Any, run: TaskContext) -> None:
        run.completed = True
        await self.gate.wait()

    async def complete_when_told(self, payload: Any, run: TaskContext) -> None:
        try:
            await self.wait(payload)
        finally:
            run.completed = True

    def _keep_slot(self) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        self.slots.append(slot)

    async def cancel_the_slot(self, payload: Any) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        slot.cancel()
        await asyncio.Event().wait()

    async def _payload(self, key: TaskKey) -> bytes | None:
        self.asked.set()
        self.fetching += 1
        while not self.answered.is_set():
            try:
                await self.answered.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
        self.fetching -= 1
        if isinstance(self.payload, StoreUnavailable):
            raise self.payload
        return self.payload

    async def _begin(self, deliveries: Sequence[Delivery]) -> set[FencedKey]:
        self.asked.set()
        await self.answered.wait()
        self.consented_at = self.clock.seconds()
        return {(delivery.key, delivery.fence) for delivery in deliveries}

    def send(self, function: str, *numbers: int, timeout: float = 0.1, **values: Any) -> None:
        self.pipe.send([self.delivery(function, n, timeout, **values) for n in numbers])

    def delivery(self, function: str, number: int, timeout: float, **values: Any) -> Delivery:
        start_by = self.clock.seconds() + 3600
        given = {"payload": b"{}", "start_by": start_by, **values}
        return msgspec.structs.replace(
            a_delivery(number),
            target=PythonTarget(function),
            timeout_seconds=timeout,
            **given,
        )

    async def reported(self, count: int) -> None:
        """So many reports, and no more."""

        async def look() -> bool:
            return len(self.reports) >= count

        await eventually(look)
        assert len(self.reports) == count

    def numbers(self) -> list[int]:
        """Of what was reported, in that order."""
        return [report.delivery.key.id.int for report in self.reports]

    async def has_begun(self, count: int) -> None:
        async def look() -> bool:
            return len(self.begun) == count

        await eventually(look)

    async def told(self, kind: type[Event], count: int) -> None:
        async def look() -> bool:
            return sum(isinstance(e, kind) for e in self.events) == count

        await eventually(look)

    async def collect(self) -> None:
        while True:
            self.reports += await self.pipe.reports(100)

    def errors(self) -> set[tuple[OutcomeKind, str | None]]:
        return {(r.outcome.kind, r.outcome.error) for r in self.reports if r.outcome is not None}


@asynccontextmanager
async def working(world: World) -> AsyncIterator[None]:
    running = asyncio.create_task(world.worker.run())
    collecting = asyncio.create_task(world.collect())
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        collecting.cancel()
        await asyncio.wait([running, collecting])
        world.python.__exit__()


async def executed(world: World, function: str, **values: Any) -> Report:
    """Send the one task that the worker of this world is to execute; gives what it reports."""
    async with working(world):
        world.send(function, 1, timeout=60.0, **values)
        await world.reported(1)
    return world.reports[0]


class LateConnection:
    """A dependency of a handler that may not begin any more once it is made."""

    def __init__(self) -> None:
        self.ended: list[str] = []  # the errors that ended it

    @contextmanager
    def made(self, world: World) -> Iterator[str]:
        world.may_begin = False
        try:
            yield "connection"
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


def slots_now() -> int:
    """Coroutines that are slots of a worker, hung ones included."""
    return sum("Worker._slot" in repr(task) for task in asyncio.all_tasks())
