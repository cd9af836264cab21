"""Tells how a task ended, and what can be done about a dead letter. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.task import Resolution, Task

_SHOWN = 200  # characters of an error


def ending(task: Task) -> str:
    """One sentence about a task that has ended, or is a dead letter."""
    match task.status:
        case Status.COMPLETED:
            return f"It has completed, {_tries(task)}."
        case Status.CANCELLED:
            begun = f" at attempt {task.attempt}" if task.attempt else " before it ran"
            return f"It was cancelled{begun}."
        case Status.EXPIRED:
            return "It expired: it had not started in time."
        case _:
            return _dead(task)


def _dead(task: Task) -> str:
    if task.resolution is Resolution.ARCHIVED:
        return "It was a dead letter, and was archived."
    if task.resolution is Resolution.DISCARDED:
        return "It was a dead letter, and was discarded."
    tried = "It failed once" if task.attempt == 1 else f"It failed {task.attempt} times"
    why = _shortened(task.last_error or "")
    last = f"; the last error is: {why}" if why else ""
    return f"{tried}, and is not retried by itself any more{last}"


def ending_facts(task: Task, executions: Sequence[Execution]) -> Iterator[str]:
    """The facts about an ending: what became of the last executions, and where it failed."""
    counts = Counter(each.outcome for each in executions)
    if counts:
        yield "last executions: " + ", ".join(f"{count} {name}" for name, count in counts.items())
    raised = next((each.traceback for each in reversed(executions) if each.traceback), None)
    if raised:
        yield f"raised in {_place(raised)}; `gnomon tasks show {task.task_id}` has the traceback"
    if task.status is not Status.DEAD_LETTERED or task.resolution is not None:
        return
    left = task.retry_policy.max_retries + 1 - len(executions)
    if executions and left > 0:
        yield "it was not retried to the end: its error is one that a retry cannot help"


def remedies(task: Task) -> Iterator[str]:
    """What can be done about a dead letter."""
    if task.status is not Status.DEAD_LETTERED or task.resolution is not None:
        return
    yield f"to run it again as it is: gnomon dead retry {task.task_id}"
    yield "to change it: submit it anew with another payload or target, and archive this one"
    yield f"to be done with it: gnomon dead archive {task.task_id}, or dead discard"


def _place(traceback: str) -> str:
    """The innermost place that a traceback names, without its indentation."""
    places = [line.strip() for line in traceback.splitlines() if line.startswith('  File "')]
    return places[-1] if places else traceback.strip().splitlines()[0]


def _tries(task: Task) -> str:
    return "at the first attempt" if task.attempt <= 1 else f"at attempt {task.attempt}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
