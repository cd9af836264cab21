"""Turns, medians, spread, and what a handful of ratios says. Pure."""

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import TypeVar

import msgspec

T = TypeVar("T")
CONFIDENCE = 0.95


class Interval(msgspec.Struct, frozen=True):
    """Where the true median lies, with this confidence."""

    low: float
    high: float
    confidence: float

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high


class Summary(msgspec.Struct, frozen=True):
    """What several rounds gave."""

    median: float
    low: float
    high: float
    rounds: int

    @property
    def spread(self) -> float:
        """How far apart the rounds are, as a share of their median."""
        return (self.high - self.low) / abs(self.median) if self.median else 0.0


def turns(contenders: Sequence[T], rounds: int) -> list[list[T]]:
    """Who comes when. Every round has all of them, each begins with the next one, and every second
    runs backwards: nobody is always first, nor always behind the same neighbour."""
    count = len(contenders)
    return [
        [contenders[(number + step * (-1) ** number) % count] for step in range(count)]
        for number in range(rounds)
    ]


def summary(values: Sequence[float]) -> Summary:
    return Summary(median(values), min(values), max(values), len(values))


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The narrowest pair of order statistics around the median that holds the true one with at
    least this confidence (the sign test's interval, which asks nothing of the distribution). With
    fewer than six values there is none: then it is the lowest and the highest, and `confidence`
    says how little that means."""
    ordered = sorted(values)
    count = len(ordered)
    best = 0
    for cut in range(count // 2):
        if _coverage(count, cut) >= confidence:
            best = cut
    return Interval(ordered[best], ordered[count - 1 - best], _coverage(count, best))


def _coverage(count: int, cut: int) -> float:
    """How probable it is that the true median lies between the values with `cut` outside of them
    on each side."""
    outside = sum(comb(count, below) for below in range(cut + 1)) * 0.5**count
    return max(0.0, 1 - 2 * outside)
