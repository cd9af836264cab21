"""What the node makes of what handlers return and raise, and where it says that they were."""

import asyncio
import re
import threading
import time
from typing import Any

import pytest
from tests.unit.node.worker_world import World, working
from tests.unit.sdk.claimed import context, in_thread
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.outcomes.verdict import VerdictKind, decide
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.node.run import stacks
from gnomon.sdk.app import CallNext, Gnomon
from gnomon.sdk.executing.context import MAX_RESULT_BYTES, TaskContext, stored_result
from gnomon.sdk.executing.failure import MAX_TRACEBACK_BYTES, traceback_of
from gnomon.sdk.signals import Reject, Retry, Snooze


async def outcome_of(world: World, name: str, timeout: float = 60.0) -> Outcome:
    async with working(world):
        world.send(name, 1, timeout=timeout)
        await world.reported(1)
        world.gate.set()
        world.thread_gate.set()
    outcome = world.reports[0].outcome
    assert outcome is not None
    return outcome


def inner(number: int) -> float:
    return 1 / number


async def divide(payload: Any) -> float:
    return inner(0)


def divide_in_a_thread(payload: Any) -> float:
    return inner(0)


@pytest.mark.parametrize("handler", [divide, divide_in_a_thread])
async def test_a_failure_has_its_traceback_from_the_handler_on(handler: Any) -> None:
    outcome = await outcome_of(World(None, handler), handler.__name__)
    assert outcome.error == "ZeroDivisionError: division by zero"
    lines = (outcome.traceback or "").splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(f", in {handler.__name__}")
    assert lines[2].strip() == "return inner(0)"
    assert any(line.endswith(", in inner") for line in lines)
    assert lines[-1] == "ZeroDivisionError: division by zero"


async def test_a_success_and_a_snooze_have_none() -> None:
    assert (await outcome_of(World(), "work")).traceback is None
    assert (await outcome_of(World(), "snooze")).traceback is None


async def test_a_rejection_has_one_and_is_not_retried() -> None:
    async def refuse(payload: Any) -> None:
        raise Reject("no use")

    outcome = await outcome_of(World(None, refuse), "refuse")
    assert (outcome.error, outcome.retryable) == ("Reject: no use", False)
    assert "in refuse" in (outcome.traceback or "")


@pytest.mark.parametrize(
    ("raised", "kind", "told", "retryable", "wait"),
    [
        ([Reject("no")], OutcomeKind.FAILED, "Reject: no", False, None),
        ([ValueError("v"), Snooze(1), Reject("no")], OutcomeKind.FAILED, "Reject: no", False, None),
        ([ValueError("v"), Retry(after=9)], OutcomeKind.FAILED, "ExceptionGroup: ", True, None),
        ([Retry("a"), Retry("b", after=2), Snooze(9)], OutcomeKind.FAILED, "Retry: b", True, 2.0),
        (
            [Snooze(3), ExceptionGroup("inner", [Snooze(7), Snooze(5)])],
            OutcomeKind.SNOOZED,
            None,
            True,
            7.0,
        ),
    ],
)
async def test_signals_in_a_group_decide_as_those_raised_alone(
    raised: list[Exception], kind: OutcomeKind, told: str | None, retryable: bool, wait: float
) -> None:
    async def fan_out(payload: Any) -> None:
        raise ExceptionGroup("several", raised)

    outcome = await outcome_of(World(None, fan_out), "fan_out")
    assert (outcome.kind, outcome.retryable, outcome.retry_after) == (kind, retryable, wait)
    assert (outcome.error or "").startswith(told or "")
    assert (outcome.error is None) is (told is None)
    assert ("in fan_out" in (outcome.traceback or "")) is (kind is OutcomeKind.FAILED)


async def test_arguments_that_do_not_fit_are_rejected_by_name() -> None:
    async def typed(count: int) -> None: ...

    outcome = await outcome_of(World(None, typed), "typed")
    assert outcome.kind is OutcomeKind.FAILED
    assert not outcome.retryable
    assert "count" in (outcome.error or "")
    assert outcome.traceback is None, "none of it is the user's code"


async def wait_inside(event: asyncio.Event) -> None:
    await event.wait()


async def waits(payload: Any) -> None:
    await wait_inside(asyncio.Event())


def sleeps(payload: Any) -> None:
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        time.sleep(0.01)


async def test_a_timeout_shows_what_the_coroutine_waited_for() -> None:
    outcome = await outcome_of(World(None, waits), "waits", 0.05)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    shown = outcome.traceback or ""
    assert shown.startswith("Where it was when it was told to stop (most recent call last):")
    assert shown.index("in waits") < shown.index("in wait_inside") < shown.index("event.wait()")


async def test_what_leads_from_middleware_to_the_handler_is_left_out() -> None:
    app = Gnomon()

    @app.middleware
    async def around(ctx: TaskContext, call_next: CallNext) -> object:
        return await call_next()

    app.task(waits)
    execution = app.execute("waits", b"null", context(), in_thread)
    running = asyncio.create_task(execution)
    await asyncio.sleep(0)
    shown = stacks.of_coroutine(execution) or ""
    running.cancel()
    places = re.findall(r"in (\w+)\n", shown)
    assert places == ["around", "waits", "wait_inside", "wait"]


async def test_a_stop_iteration_of_a_thread_has_its_traceback() -> None:
    def take_next(payload: Any) -> object:
        return next(iter(()))

    outcome = await outcome_of(World(None, take_next), "take_next")
    assert outcome.error == "RuntimeError: the handler raised StopIteration"
    assert "return next(iter(()))" in (outcome.traceback or "")


async def test_a_timeout_shows_what_the_thread_was_at() -> None:
    outcome = await outcome_of(World(None, sleeps), "sleeps", 0.05)
    assert outcome.kind is OutcomeKind.TIMED_OUT
    lines = (outcome.traceback or "").splitlines()
    assert lines[1].endswith(", in sleeps"), lines
    assert "Worker" not in (outcome.traceback or "")


async def test_one_that_ignores_its_cancellation_shows_where_it_goes_on() -> None:
    outcome = await outcome_of(World(), "hang", 0.05)
    assert "ignored its cancellation" in (outcome.error or "")
    assert "in hang" in (outcome.traceback or "")


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_handler_sees_its_deadline_and_that_it_was_told_to_stop(in_thread: bool) -> None:
    seen: list[bool] = []
    left: list[float] = []
    over = threading.Event()

    def watch(payload: Any, ctx: TaskContext) -> None:
        left.append(ctx.remaining)
        while not ctx.cancelled:
            time.sleep(0.005)
        seen.append(ctx.cancelled)
        over.wait()  # what returns in time has succeeded

    async def watch_async(payload: Any, ctx: TaskContext) -> None:
        left.append(ctx.remaining)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)

    handler: Any = watch if in_thread else watch_async
    outcome = await outcome_of(World(None, handler), handler.__name__, 0.2)
    over.set()
    assert outcome.kind is OutcomeKind.TIMED_OUT
    assert 0 < left[0] <= 0.2

    async def told() -> bool:
        return seen == [True]

    await eventually(told)


class Standing:
    retries_left = 1
    retry_policy = RetryPolicy(base_seconds=60.0, max_seconds=60.0, jitter=False)
    losses = 0
    mode = None
    target = PythonTarget("f")


@pytest.mark.parametrize(("after", "delay"), [(0.5, 0.5), (7200, 7200.0), (None, 60.0)])
async def test_a_retry_waits_as_long_as_it_says(after: float | None, delay: float) -> None:
    async def again(payload: Any) -> None:
        raise Retry("busy", after=after)

    outcome = await outcome_of(World(None, again), "again")
    assert outcome.kind is OutcomeKind.FAILED
    assert (outcome.error or "").startswith("Retry: busy")
    standing: Any = Standing()
    verdict = decide(outcome, standing, 0.5)
    assert (verdict.kind, verdict.delay, verdict.spends) == (VerdictKind.RETRY, delay, True)
    standing.retries_left = 0
    assert decide(outcome, standing, 0.5).kind is VerdictKind.DEAD_LETTER


async def test_a_retry_that_asks_for_nonsense_is_a_failure() -> None:
    class Odd(Retry):
        def __init__(self) -> None:
            self.seconds = float("nan")

    async def again(payload: Any) -> None:
        raise Odd

    outcome = await outcome_of(World(None, again), "again")
    assert (outcome.retry_after, outcome.overrides_policy) == (None, False)
    assert (outcome.error or "").startswith("Odd: a retry waits between 0")


async def test_a_handler_that_is_not_there_is_named() -> None:
    outcome = await outcome_of(World(), "nobody")
    assert (outcome.error or "").startswith("this node has no handler 'nobody' (it has: cancel_the")


def deep(levels: int, text: str) -> None:
    if levels == 0:
        raise ValueError(text)
    [deep, lambda *a: deep(*a)][levels % 2](levels - 1, text)


@pytest.mark.parametrize("levels", [0, 200])
def test_a_traceback_is_bounded_and_storable(levels: int) -> None:
    with pytest.raises(ValueError, match="end") as raised:
        deep(levels, "\x00\udcff" + "é" * 100_000 + "the end")
    text = traceback_of(raised.value) or ""
    assert len(text.encode()) <= MAX_TRACEBACK_BYTES
    assert "\x00" not in text
    assert text.startswith("Traceback (most recent call last)")
    assert "bytes and more left out" in text
    assert text.endswith("the end")


class Panic(BaseException):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise Panic


def test_an_error_that_cannot_be_told_has_no_traceback_or_one() -> None:
    with pytest.raises(Unspeakable) as raised:
        raise Unspeakable
    text = traceback_of(raised.value)
    assert text is None or "Unspeakable" in text


def test_a_result_is_kept_or_what_is_wrong_with_it() -> None:
    assert stored_result({"a": [1]}) == '{"a":[1]}'
    assert stored_result("x" * (MAX_RESULT_BYTES - 2)) == '"' + "x" * (MAX_RESULT_BYTES - 2) + '"'
    assert "65536 are kept" in stored_result("x" * MAX_RESULT_BYTES)
    assert "cannot be kept as JSON" in stored_result(object())
