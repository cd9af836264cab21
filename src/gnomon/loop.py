"""Runs what is async. asyncio is imported late: it is a fifth of what `gnomon --help` may take."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")
_LAST_SECONDS = 1.0  # for what is left when the work has ended


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """For a command that is over soon."""
    import asyncio

    return asyncio.run(work)


def serve(work: Coroutine[Any, Any, None]) -> None:
    """For a process that stays: on uvloop, where there is one. It ends when the work does, and not
    when some other task or callback stops the loop. At its end it waits for nobody who ignores
    being told to stop, as `asyncio.run` would for ever."""
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
            "something that a function left behind tried to end the process",
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
    """Tell all that is left to stop. Whether it does."""
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
