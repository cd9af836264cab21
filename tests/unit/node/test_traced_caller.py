"""Spans around executions: who gets one, where it belongs, and what it costs the others."""

import asyncio
import sys
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from tests.collector import Collector, Received, collecting
from tests.unit.model.test_origin import PARENT, SPAN, TRACE

from gnomon.clock import SystemClock, new_id
from gnomon.model.outcomes.outcome import SUCCESS, Outcome
from gnomon.model.targets.target import PythonTarget, Target
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.targets import Place
from gnomon.node.run.targets.traced import TracedCaller
from gnomon.observe.tracing import Tracing, execution_ids
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings import TracingSettings

SAMPLED = Origin("order-7", PARENT)


class Plain:
    """A caller that does nothing."""

    least_room = 1.0

    def __init__(self, hangs: bool = False) -> None:
        self.called: list[Delivery] = []
        self._hangs = hangs

    def place(self, _: Target) -> Place | None:
        return None

    def ready(self, _: Delivery) -> Awaitable[object] | None:
        return None

    async def call(self, delivery: Delivery, _: bytes | None, __: TaskContext) -> Outcome:
        self.called.append(delivery)
        if self._hangs:
            await asyncio.Event().wait()
        return SUCCESS


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


class World:
    def __init__(self, collector: Collector, began: datetime | None = None) -> None:
        self.collector = collector
        self.asked: list[int] = []
        self.began = began
        settings = TracingSettings(exporter="otlp", endpoint=collector.url)
        self.tracing = Tracing(settings, lambda _result, _number: None)

    def caller(self, plain: Plain) -> TracedCaller:
        return TracedCaller(plain, self.tracing, SystemClock(), self._start_of)

    async def _start_of(self, _: TaskKey, attempt: int) -> datetime | None:
        self.asked.append(attempt)
        if self.began is None:
            raise OSError("the database is away")
        return self.began

    def spans(self) -> list[Received]:
        self.tracing.close()
        return self.collector.spans


def delivery(origin: Origin | None, age: float = 0.0, attempt: int = 1) -> Delivery:
    made = datetime.now(UTC) - timedelta(seconds=age)
    return Delivery(
        TaskKey("acme", new_id(made)), 1, UUID(int=1), attempt, 3, 0, PythonTarget("f"), None,
        None, 30.0, RetryPolicy(), "mail", Lane.LOW, made.timestamp(), 0.0, None, False,
        origin=origin,
    )  # fmt: skip


async def run(caller: Any, task: Delivery) -> Any:
    return await caller.call(task, None, TaskContext(task))


@pytest.mark.parametrize("origin", [None, Origin("order-7")])
async def test_a_task_in_no_sampled_trace_has_no_span_and_costs_one_call(
    collector: Collector, origin: Origin | None
) -> None:
    world, plain, task = World(collector), Plain(), delivery(origin)
    alone = await _python_calls(plain, task)
    around = await _python_calls(world.caller(plain), task)
    # Of a task with an origin, whether it has a trace is asked.
    assert around - alone <= (1 if origin is None else 3)
    assert plain.called == [task] * 2
    assert world.spans() == []


async def _python_calls(caller: Any, task: Delivery) -> int:
    calls, context = 0, TaskContext(task)

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        await caller.call(task, None, context)
    finally:
        sys.setprofile(None)
    return calls


async def test_a_retry_within_the_minute_links_to_the_execution_before_it(
    collector: Collector,
) -> None:
    world, task = World(collector), delivery(SAMPLED, attempt=2)
    await run(world.caller(Plain()), task)
    (span,) = world.spans()
    assert (span.trace_id, span.parent_id) == (TRACE, SPAN)
    assert span.links == [(TRACE, execution_ids(task.key.id, 1).span_id, "execution_before")]
    assert world.asked == []


@pytest.mark.parametrize("before_late", [True, False])
async def test_a_late_retry_links_to_the_execution_before_it_wherever_that_was(
    collector: Collector, before_late: bool
) -> None:
    task = delivery(SAMPLED, age=7200, attempt=3)
    world = World(collector, datetime.now(UTC) - timedelta(seconds=60 if before_late else 7190))
    await run(world.caller(Plain()), task)
    (span,) = world.spans()
    own, before = execution_ids(task.key.id, 3), execution_ids(task.key.id, 2)
    assert (span.trace_id, span.span_id, span.parent_id) == (own.trace_id, own.span_id, "")
    assert span.links == [
        (TRACE, SPAN, "submission"),
        (before.trace_id if before_late else TRACE, before.span_id, "execution_before"),
    ]
    assert world.asked == [2]


async def test_a_late_retry_runs_without_the_link_where_the_database_is_away(
    collector: Collector,
) -> None:
    world = World(collector)
    assert await run(world.caller(Plain()), delivery(SAMPLED, age=7200, attempt=3)) is SUCCESS
    (span,) = world.spans()
    assert span.links == [(TRACE, SPAN, "submission")]


@pytest.mark.parametrize("late", [True, False])
async def test_an_execution_that_is_stopped_says_how(collector: Collector, late: bool) -> None:
    world, task, plain = World(collector), delivery(SAMPLED), Plain(hangs=True)
    context = TaskContext(task)
    clock = SystemClock()
    context.begin(clock.seconds() + (-1 if late else 100), clock.seconds)
    calling = asyncio.ensure_future(world.caller(plain).call(task, None, context))
    while not plain.called:
        await asyncio.sleep(0)
    context.tell_to_stop()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    (span,) = world.spans()
    kind = "timed_out" if late else "cancelled"
    assert (span.failed, span.status, span.attributes["gnomon.outcome"]) == (True, kind, kind)
