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
    """For a process that stays: on uvloop, where there is one. At its end it waits for nobody who
    ignores being told to stop, as `asyncio.run` would for ever."""
    import asyncio

    runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        runner.run(work)
    finally:
        if runner.run(_all_ended()):
            runner.close()


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
