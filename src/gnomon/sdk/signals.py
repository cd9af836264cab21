"""Exceptions by which a handler says what is to become of its task."""

from collections.abc import Iterator

from gnomon.model.duration import Duration, seconds_of
from gnomon.model.tasks.retry import LONGEST_RETRY_AFTER, LONGEST_WAIT

SNOOZES = f"a snooze lasts between 0 and {LONGEST_WAIT:.0f} s"
RETRIES = f"a retry waits between 0 and {LONGEST_RETRY_AFTER:.0f} s"


class Snooze(Exception):
    """Raise it to be called again later, without using up a retry."""

    def __init__(self, after: Duration) -> None:
        self.seconds = _bounded(after, LONGEST_WAIT, SNOOZES)
        super().__init__(f"snoozed for {self.seconds:g} s")

    def __reduce__(self) -> tuple[type, tuple[float], dict[str, object]]:
        return type(self), (self.seconds,), self.__dict__


class Reject(Exception):
    """Raise it when no retry can help: the task becomes a dead letter at once."""


class Retry(Exception):
    """Raise it to fail, and to be called again after this time at the earliest. It uses up a
    retry; without `after` the retry policy alone says when."""

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        self.seconds = None if after is None else _bounded(after, LONGEST_RETRY_AFTER, RETRIES)
        wait = "" if self.seconds is None else f"in {self.seconds:g} s"
        super().__init__(": ".join(part for part in (reason, wait) if part))


def signal_in(error: BaseException) -> BaseException:
    """What an error says is to become of the task: the error itself, or the signal that decides of
    those in a group, such as an `asyncio.TaskGroup` raises. A Reject decides, as no retry can help;
    else any failure, and then there is no signal; else a Retry, then a Snooze, the longest one."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [*_leaves(error)]
    for each in found:
        if isinstance(each, Reject):
            return each
    if not all(isinstance(each, Retry | Snooze) for each in found):
        return error
    retries = [each for each in found if isinstance(each, Retry)]
    return max(retries or found, key=_wait)


def _leaves(group: BaseException) -> Iterator[BaseException]:
    waiting = [group]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)
        else:
            yield one


def _wait(signal: BaseException) -> float:
    """Of a subclass it may be anything."""
    seconds = getattr(signal, "seconds", None)
    return float(seconds) if isinstance(seconds, int | float) else -1.0


def _bounded(duration: Duration, most: float, rule: str) -> float:
    try:
        seconds = seconds_of(duration)
    except ValueError as error:
        raise ValueError(f"{rule}; {error}") from None
    if seconds > most:
        raise ValueError(f"{rule}; got {duration!r}")
    return seconds
