"""Progress of long submissions: a callable of the caller's, or a bar on the terminal."""

import sys
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from gnomon.client.exchange import BatchProgress

Report: TypeAlias = Callable[[BatchProgress], object]
Progress: TypeAlias = Report | bool | None


@contextmanager
def shown(progress: Progress, tasks: object) -> Iterator[Report | None]:
    """The callable to report to, while it lasts. A bar has an end where the tasks can be counted
    beforehand."""
    if progress is not True:
        yield progress or None
        return
    bar = _bar()
    if bar is None:
        yield None
        return
    total = len(tasks) if isinstance(tasks, Sized) else None
    with bar:
        row = bar.add_task("submitting", total=total)
        yield lambda done: bar.update(row, completed=done.submitted)


def _bar() -> Any:
    """A bar of Rich; None where Rich is not installed, or nobody would see it."""
    if not sys.stdout.isatty():
        return None
    try:  # by name: a program that only submits need not have it
        rich = import_module("rich.progress")
    except ImportError:
        return None
    return rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.completed:,.0f} tasks"),
        rich.TimeElapsedColumn(),
    )
