"""Runs what is async. asyncio is imported late: it is a fifth of what `gnomon --help` may take."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """For a command that is over soon."""
    import asyncio

    return asyncio.run(work)


def serve(work: Coroutine[Any, Any, None]) -> None:
    """For a process that stays: on uvloop, where there is one."""
    import asyncio

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> "Callable[[], asyncio.AbstractEventLoop]":
    try:
        import uvloop
    except ImportError:  # Windows has none
        import asyncio

        return asyncio.new_event_loop
    return uvloop.new_event_loop
