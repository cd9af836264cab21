"""Retries: how long a failed task waits before its next execution."""

import math
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec

LONGEST_WAIT = 30 * 24 * 3600.0
LONGEST_RETRY_AFTER = 24 * 3600.0

# A double ends at 2**1023; the longest base, 30 days, is below 2**22.
_MOST_DOUBLINGS = 1000

_DELTA_SECONDS = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
# RFC 9110 5.6.7: the form to send, and two old ones that a recipient must still understand.
_HTTP_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")

_Wait = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)]


class Backoff(StrEnum):
    """How the wait grows from one retry to the next."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class RetryPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The retries of a task, as its submitter wants them."""

    max_retries: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    base_seconds: _Wait = 1.0
    max_seconds: _Wait = 60.0
    jitter: bool = True
    retry_client_errors: bool = False

    def delay(self, retry: int, chance: float) -> float:
        """Seconds before retry number `retry` (the first is 1); `chance` is in [0, 1).

        With jitter the wait is uniform between nothing and the bound ("full jitter"): tasks that
        failed together, because their receiver went down, do not come back together.
        """
        bound = self.bound(retry)
        return bound * chance if self.jitter else bound

    def bound(self, retry: int) -> float:
        """The longest wait before retry number `retry`."""
        match self.backoff:
            case Backoff.EXPONENTIAL:
                wait = math.ldexp(self.base_seconds, min(retry - 1, _MOST_DOUBLINGS))
            case Backoff.LINEAR:
                wait = self.base_seconds * retry
            case Backoff.FIXED:
                wait = self.base_seconds
        return min(self.max_seconds, wait)


def retry_delay(policy: RetryPolicy, retry: int, chance: float, retry_after: float | None) -> float:
    """The policy's delay, or the receiver's Retry-After where that is longer.

    The receiver knows when it can work again, so its wish may exceed the policy's `max_seconds`:
    an execution before that is wasted on both sides. It is capped at 24 hours, because the header
    is input from outside: one wrong date or unit in it must not park a task for years, where its
    owner would take it for lost.
    """
    delay = policy.delay(retry, chance)
    return delay if retry_after is None else max(delay, min(retry_after, LONGEST_RETRY_AFTER))


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Seconds from `now` that a Retry-After header asks for; None where it makes no sense.

    Fractions are not in the standard, but are sent and mean one thing only.
    """
    value = value.strip()
    if _DELTA_SECONDS.fullmatch(value):
        return max(0.0, float(value))
    moment = _http_date(value)
    return None if moment is None else max(0.0, (moment - now).total_seconds())


def _http_date(value: str) -> datetime | None:
    for form in _HTTP_DATES:
        try:
            return datetime.strptime(value, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
