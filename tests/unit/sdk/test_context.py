"""The context of an execution: what it tells the handler, and what the handler tells it."""

import asyncio
import contextvars
import logging
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.unit.sdk.claimed import ID, context, executed, in_thread

from gnomon.model.tasks.task import DeliveryMode
from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import MAX_PROGRESS_CHARACTERS, Progress, TaskContext, current
from gnomon.sdk.signals import Retry, Snooze


def test_it_tells_about_the_execution() -> None:
    ctx = context("greet")
    assert (ctx.task_id, ctx.tenant_id, ctx.task_type) == (ID, "default", "greet")
    assert (ctx.attempt, ctx.retries_left, ctx.fence, ctx.node) == (1, 3, 7, UUID(int=2))
    assert ctx.scheduled_for == datetime.fromtimestamp(1_800_000_000, UTC)
    assert ctx.idempotency_key == "k-1"
    assert ctx.mode is DeliveryMode.AT_LEAST_ONCE
    assert not ctx.cancelled


def test_the_time_that_is_left_runs_out() -> None:
    ctx = context()
    assert (ctx.deadline, ctx.remaining) == (None, float("inf"))
    now = 100.0
    ctx.begin(130.0, lambda: now)
    assert ctx.deadline == datetime.fromtimestamp(130, UTC)
    assert ctx.remaining == 30.0
    now = 140.0
    assert ctx.remaining == 0.0


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf")])
def test_progress_is_a_fraction(fraction: float) -> None:
    ctx = context()
    with pytest.raises(ValueError, match="progress is a fraction between 0 and 1"):
        ctx.progress(fraction)
    assert ctx.reported is None


def test_the_latest_progress_is_kept_as_it_can_be_stored() -> None:
    ctx = context()
    ctx.progress(0)
    ctx.progress(0.4, "a\0b")
    assert ctx.reported == Progress(0.4, "a\N{REPLACEMENT CHARACTER}b")
    ctx.progress(1, "x" * 1000)
    assert ctx.reported == Progress(1.0, "x" * MAX_PROGRESS_CHARACTERS)


async def test_a_function_in_a_thread_can_see_that_it_is_to_stop() -> None:
    app = Gnomon()
    begun = threading.Event()
    told = context("work")

    @app.task
    def work(ctx: TaskContext) -> str:
        begun.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        return "stopped"

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(app.execute("work", None, told, in_thread))
        await asyncio.to_thread(begun.wait)
        told.tell_to_stop()
    assert running.result() == "stopped"


async def test_its_logger_names_the_task(caplog: pytest.LogCaptureFixture) -> None:
    app = Gnomon()

    @app.task
    async def work(ctx: TaskContext) -> None:
        ctx.logger.info("halfway")

    with caplog.at_level(logging.INFO):
        await executed(app, "work")
    (record,) = caplog.records
    about: dict[str, Any] = vars(record)
    assert (about["task_id"], about["task_type"], about["attempt"]) == (str(ID), "work", 1)
    assert record.getMessage() == "halfway"


async def test_executions_at_once_each_have_their_own_current_context() -> None:
    app = Gnomon()
    both = asyncio.Barrier(2)

    @app.task
    async def work(ctx: TaskContext) -> bool:
        async with both:
            return current.get() is ctx

    ran = await asyncio.gather(executed(app, "work"), executed(app, "work"))
    assert all(each is True for each in ran)
    assert current.get() is None


def test_an_execution_that_is_dropped_ends_quietly() -> None:
    """Whoever drops it may be in another context than the one that began it."""
    app = Gnomon()

    @app.task
    async def work() -> None:
        await asyncio.Future(loop=loop)

    loop = asyncio.new_event_loop()
    running = app.execute("work", None, context(), in_thread)
    contextvars.copy_context().run(running.send, None)
    running.close()
    loop.close()
    assert current.get() is None


@pytest.mark.parametrize("after", [30, 0.5, "30s", "1h30m"])
def test_signals_take_durations_as_people_write_them(after: Any) -> None:
    seconds = {"30s": 30.0, "1h30m": 5400.0}.get(after, after)
    assert Snooze(after).seconds == seconds
    assert Retry("later", after=after).seconds == seconds


@pytest.mark.parametrize("after", [-1, float("nan"), 3e9, "31d", "soon", True, None])
def test_a_snooze_has_its_limits(after: Any) -> None:
    with pytest.raises(ValueError, match="a snooze lasts between 0 and"):
        Snooze(after)


def test_a_retry_says_why_and_when() -> None:
    assert (str(Retry()), Retry().seconds) == ("", None)
    assert str(Retry("busy")) == "busy"
    assert str(Retry("busy", after=5)) == "busy: in 5 s"
    assert str(Retry(after=5)) == "in 5 s"
    with pytest.raises(ValueError, match="a retry waits between 0 and 86400 s"):
        Retry(after="2d")
