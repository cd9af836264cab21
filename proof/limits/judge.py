"""What was seen against what was allowed. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from proof.limits.observer import Sample


class Allowed(NamedTuple):
    """A limit, and when it may still be made use of."""

    limit: int
    since: float
    until: float = float("inf")


class Limit:
    """What a bucket is limited to, as it was changed over time.

    More may be used as soon as the change could have been seen. Less is used once the nodes have
    heard of it, and what they had started by then has ended: `grace` later.
    """

    def __init__(self, limit: int, grace: float) -> None:
        self._grace = grace
        self._allowed = [Allowed(limit, 0.0)]

    def change(self, limit: int, began: float, done: float) -> None:
        self._allowed[-1] = self._allowed[-1]._replace(until=done + self._grace)
        self._allowed.append(Allowed(limit, began))

    def at(self, since: float, until: float) -> int:
        """The most that was allowed within a time."""
        return max(a.limit for a in self._allowed if a.since <= until and since <= a.until)

    @property
    def now(self) -> int:
        return self._allowed[-1].limit


class Finding(NamedTuple):
    """What was seen of one bucket."""

    bucket: str
    limit: str
    seen: int  # the most, by the observer
    rows: int  # the most, in the database
    samples: int
    over: int  # samples above what was allowed
    use: float  # of the limit, on average over time

    def readable(self) -> str:
        verdict = "holds" if self.over == 0 else f"EXCEEDED in {self.over} samples"
        return (
            f"{self.bucket:<6} limit {self.limit:<9} most {self.seen} called, {self.rows} running; "
            f"{self.samples} samples, {self.use:.0%} used: {verdict}"
        )


def over(samples: Iterable[Sample], limit: Limit) -> int:
    return sum(s.number > limit.at(s.at, s.at) for s in samples)


def most_within(moments: Sequence[float], seconds: float) -> int:
    """The most of these within any time of this length."""
    ordered = sorted(moments)
    most = first = 0
    for last, moment in enumerate(ordered):
        while ordered[first] <= moment - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
