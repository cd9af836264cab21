"""Whatever a function raises, returns or leaves on the loop fails its own try, and no more."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.node.worker_world import SLOTS, World, slots_now, working

from gnomon.loop import serve
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.retry import LONGEST_WAIT
from gnomon.sdk.executing.context import stored_result
from gnomon.sdk.signals import Snooze


class Panic(BaseException):
    """As an extension written in Rust raises it when it panics, and gevent for a timeout."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise Panic("not even its text")


class Endless(Exception):
    def __str__(self) -> str:
        return "x" * 5_000_000


class NoText(Exception):
    def __str__(self) -> Any:
        return 3  # noqa: PLE0307 - that is the point


class Odd(Snooze):
    def __init__(self) -> None:
        self.seconds = float("nan")


class Awkward(Snooze):
    def __init__(self) -> None:
        self.seconds: Any = "soon"


ERRORS: list[tuple[BaseException, str]] = [
    (Panic("broken"), "Panic: broken"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (SystemExit(3), "SystemExit: 3"),
    (GeneratorExit(), "GeneratorExit"),
    (BaseExceptionGroup("two", [Panic("a"), ValueError("b")]), "BaseExceptionGroup: two (2 sub"),
    (BaseExceptionGroup("one", [KeyboardInterrupt()]), "BaseExceptionGroup: one (1 sub"),
    (asyncio.CancelledError(), "CancelledError"),
    (StopAsyncIteration(), "StopAsyncIteration"),
    (ValueError("\ud800 and \x00"), "ValueError: \ufffd and \ufffd"),
    (Unspeakable(), "Unspeakable (its text cannot be had: Panic)"),
    (NoText(), "NoText (its text cannot be had: TypeError)"),
    (Endless(), "Endless: xxx"),
    (Odd(), "Odd: a snooze lasts between 0"),
    (Awkward(), "Awkward: a snooze lasts between 0"),
]


def raising(error: BaseException) -> list[Callable[..., Any]]:
    async def on_the_loop(payload: Any) -> None:
        raise error

    async def in_a_future(payload: Any) -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, error)
        await future

    def in_a_thread(payload: Any) -> None:
        raise error

    return [on_the_loop, in_a_future, in_a_thread]


@pytest.mark.parametrize("where", ["on_the_loop", "in_a_future", "in_a_thread"])
@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda value: type(value).__name__)
async def test_it_fails_its_own_try(error: BaseException, text: str, where: str) -> None:
    world = World(None, *raising(error))
    async with working(world):
        world.send(where, *range(2 * SLOTS), timeout=60.0)
        await world.reported(2 * SLOTS)
        world.send("work", 10)
        await world.reported(2 * SLOTS + 1)
        assert slots_now() == SLOTS
    outcomes = [report.outcome for report in world.reports[:-1]]
    for outcome in outcomes:
        assert outcome is not None
        assert outcome.kind is OutcomeKind.FAILED
        assert outcome.error is not None
        assert outcome.error.startswith(text)
        assert len(outcome.error) <= 2000
        outcome.error.encode()


@pytest.mark.parametrize("seconds", [0, 0.25, 1, LONGEST_WAIT])
async def test_a_snooze_lasts_as_long_as_was_asked_for(seconds: float) -> None:
    world = World(None, *raising(Snooze(seconds)))
    async with working(world):
        world.send("on_the_loop", 1)
        await world.reported(1)
    (outcome,) = (report.outcome for report in world.reports)
    assert outcome is not None
    assert (outcome.kind, outcome.retry_after) == (OutcomeKind.SNOOZED, float(seconds))


@pytest.mark.parametrize("seconds", [-0.001, LONGEST_WAIT + 1, float("nan"), float("inf")])
def test_no_other_snooze_can_be_asked_for(seconds: float) -> None:
    with pytest.raises(ValueError, match="a snooze lasts between 0"):
        Snooze(seconds)


async def test_one_that_panics_when_it_is_told_to_stop_has_timed_out_or_failed() -> None:
    async def panic_when_told(payload: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise Panic("while stopping")

    world = World(None, panic_when_told)
    async with working(world):
        world.send("panic_when_told", 1, timeout=0.05)
        await world.reported(1)
        world.send("work", 10)
        await world.reported(2)
        assert slots_now() == SLOTS
    assert (OutcomeKind.FAILED, "Panic: while stopping") in world.errors()


class Untold:
    """Something that cannot be made JSON, and says so in its own way."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def keys(self) -> Any:
        raise self._error

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise self._error


@pytest.mark.parametrize(
    "result", [Untold(Panic("no")), Untold(Endless()), {1: Untold(Unspeakable())}, "\ud800"]
)
def test_a_result_that_cannot_be_encoded_is_a_note(result: Any) -> None:
    note = stored_result(result)
    assert "cannot be kept as JSON" in note
    assert len(note) < 3000
    note.encode()


def exit_in_a_task() -> None:
    async def leave() -> None:
        sys.exit(5)

    asyncio.get_running_loop().create_task(leave())


def exit_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 5)


def interrupt_in_a_callback() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(interrupt)


def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()


@pytest.mark.parametrize(
    "leave", [exit_in_a_task, exit_in_a_callback, interrupt_in_a_callback, stop_the_loop]
)
def test_what_a_function_leaves_on_the_loop_does_not_end_the_process(
    leave: Callable[[], None],
) -> None:
    ended = []

    async def work() -> None:
        for _ in range(3):
            leave()
            for _ in range(10):
                await asyncio.sleep(0)
        ended.append("well")

    serve(work())
    assert ended == ["well"]


def test_what_the_work_itself_raises_still_ends_the_process() -> None:
    async def work() -> None:
        sys.exit(7)

    with pytest.raises(SystemExit, match="7"):
        serve(work())
