"""Calls in a child process that are told as begun, and then may not be: both sides of its pipes."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.settings import settings_with

from gnomon import Gnomon
from gnomon.clock import SystemClock
from gnomon.model.targets.target import PythonTarget
from gnomon.node.membership.lease import Lease
from gnomon.node.run.children.child import ChildRun, NodeTrust, Server, Wire
from gnomon.node.run.children.frames import (
    CallFrame,
    Started,
    ToNode,
    Uncalled,
    framed,
    frames_to_node,
)
from gnomon.node.run.children.jobs import Job, Unstarted
from gnomon.node.run.children.process import ChildProcess
from gnomon.node.run.targets.python import PythonCaller
from gnomon.sdk.executing.context import TaskContext
from gnomon.testing.contracts.pipe import a_delivery

# The node's side


async def test_one_that_was_not_called_is_no_company_for_another() -> None:
    """Whoever runs alone when the process dies has killed it."""
    child = ChildProcess(settings_with(), SystemClock(), Lease(UUID(int=0), 3600.0))
    jobs = []
    for number in (1, 2, 3):
        delivery = a_delivery(number)
        jobs.append(Job(number, delivery, None, TaskContext(delivery)))
        child.give(jobs[-1])
    told: list[ToNode] = [Started(1), Uncalled(1), Uncalled(2), Started(3)]
    child.pipe_data_received(1, b"".join(framed(each) for each in told))
    died = child.conclude()
    assert [job.over.result() for job in jobs] == [Unstarted(), Unstarted(), died]
    assert (died.alone, died.others) == (True, 0)


# The child's side


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    yield source, sink
    os.close(source)
    os.close(sink)


async def test_one_that_is_cancelled_after_a_refusal_was_not_called(pipe: tuple[int, int]) -> None:
    called, refused = [], asyncio.Event()
    app, trust, clock = Gnomon(), NodeTrust(), SystemClock()
    trust.until = clock.monotonic() + 3600.0

    @app.middleware
    async def lingering(_: TaskContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        trust.until = clock.monotonic()
        try:
            return await call_next()
        finally:
            refused.set()
            await asyncio.Event().wait()

    @app.task
    async def work(payload: Any) -> None:
        called.append(payload)

    source, sink = pipe
    delivery = msgspec.structs.replace(a_delivery(1), target=PythonTarget("work"))
    wire = Wire(source, sink)
    with PythonCaller(app, 1, trust.holds) as caller:
        server, run = Server(wire, caller, trust, 3600.0), ChildRun(delivery, 1, wire)
        made = asyncio.create_task(server._make(CallFrame(1, delivery, b"{}", trust.until), run))
        await refused.wait()
        made.cancel()
        await made
    told: list[ToNode] = list(frames_to_node().feed(os.read(source, 1 << 16)))
    assert told == [Started(1), Uncalled(1)]
    assert called == []
