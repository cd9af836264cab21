"""Exceptions by which a handler says what is to become of its task."""

from gnomon.model.duration import Duration, seconds_of
from gnomon.model.retry import LONGEST_RETRY_AFTER, LONGEST_WAIT

SNOOZES = f"a snooze lasts between 0 and {LONGEST_WAIT:.0f} s"
RETRIES = f"a retry waits between 0 and {LONGEST_RETRY_AFTER:.0f} s"


class Snooze(Exception):
    """Raise it to be called again later, without using up a retry."""

    def __init__(self, after: Duration) -> None:
        self.seconds = _bounded(after, LONGEST_WAIT, SNOOZES)
        super().__init__(f"snoozed for {self.seconds:g} s")


class Reject(Exception):
    """Raise it when no retry can help: the task becomes a dead letter at once."""


class Retry(Exception):
    """Raise it to fail, and to be called again after this time at the earliest. It uses up a
    retry; without `after` the retry policy alone says when."""

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        self.seconds = None if after is None else _bounded(after, LONGEST_RETRY_AFTER, RETRIES)
        wait = "" if self.seconds is None else f"in {self.seconds:g} s"
        super().__init__(": ".join(part for part in (reason, wait) if part))


def _bounded(duration: Duration, most: float, rule: str) -> float:
    try:
        seconds = seconds_of(duration)
    except ValueError as error:
        raise ValueError(f"{rule}; {error}") from None
    if seconds > most:
        raise ValueError(f"{rule}; got {duration!r}")
    return seconds
