"""Runs coroutines. asyncio is imported late: it takes a fifth of the time for `gnomon --help`."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")
_LAST_SECONDS = 1.0  # for tasks that are left when the work has ended


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run the coroutine of a short command."""
    import asyncio

    return asyncio.run(work)


async def unless(stop: Coroutine[Any, Any, object], work: Coroutine[Any, Any, object]) -> bool:
    """Run the work, and cancel it as soon as `stop` returns. Returns whether the work ended."""
    import asyncio

    try:
        async with asyncio.TaskGroup() as group:
            working, stopping = group.create_task(work), group.create_task(stop)
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            working.cancel()  # changes nothing once it has ended
            stopping.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors.exceptions[0].__cause__
    return not working.cancelled()


def serve(work: Coroutine[Any, Any, None]) -> None:
    """Run a long-lived process, on uvloop where there is one. It ends when the work does, and not
    when another task or callback stops the loop. At its end it does not wait for tasks that
    ignore cancellation, as `asyncio.run` would for ever."""
    import asyncio

    runner = asyncio.Runner(loop_factory=_loop_factory())
    task = runner.get_loop().create_task(work)
    try:
        while not task.done():
            _run_on(runner, task)
        task.result()
    finally:
        if runner.run(_all_ended()):
            runner.close()


def _run_on(runner: "asyncio.Runner", work: "asyncio.Task[None]") -> None:
    """Run the loop until the work is done, or a stray error stops the loop: asyncio lets SystemExit
    and KeyboardInterrupt out of whichever task or callback raises them, and `stop` ends it, too."""
    import structlog

    try:
        runner.run(_done(work))
    except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
        if work.done() or work.cancelling() or runner.get_loop().is_closed():
            raise
        structlog.get_logger("gnomon").error(
            "a task or callback that a function left behind tried to end the process",
            why=type(error).__name__,
        )


async def _done(work: "asyncio.Task[None]") -> None:
    """Wait for the work. Ctrl-C cancels this wait, and with it the work."""
    import asyncio

    try:
        await asyncio.wait([work])
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait([work])
        raise


async def _all_ended() -> bool:
    """Cancel all tasks that are left. Returns whether they ended."""
    import asyncio

    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=_LAST_SECONDS)
    return not left


def _loop_factory() -> "Callable[[], asyncio.AbstractEventLoop]":
    try:
        import uvloop
    except ImportError:  # Windows has none
        import asyncio

        return asyncio.new_event_loop
    return uvloop.new_event_loop
