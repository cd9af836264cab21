"""Counts of the tasks of one event: added up by kind when the first listener looks, for all.

An event is told for thousands of tasks a second, and several listeners count them: sorting each
into its bucket is done once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from gnomon.model.insight.activity import DELAY_BOUNDS
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane

# Seconds that executions take. A bound belongs to the bucket below it.
RUN_BOUNDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)

T = TypeVar("T")

Bucket = tuple[int, int]  # its place among the bounds, and how many it holds


class Counted(Generic[T]):
    """What an event counts: made once, if anybody looks."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make = make
        self._made: tuple[T, ...] | None = None

    def __iter__(self) -> Iterator[T]:
        if self._made is None:
            self._made = tuple(self._make())
        return iter(self._made)


class StartCount(NamedTuple):
    """Starts of one kind, as far as they are counted."""

    tenant_id: str
    task_type: str
    lane: Lane
    recurring: bool  # runs of cron jobs
    number: int
    delays: Sequence[Bucket]  # by DELAY_BOUNDS
    seconds: float  # that they were late together


class EndCount(NamedTuple):
    """Executions of one kind that have ended alike, as far as they are counted."""

    tenant_id: str
    task_type: str
    lane: Lane
    recurring: bool
    outcome: OutcomeKind | None
    internal: bool  # one that did not succeed failed within Gnomon, and not at its target
    state: State
    number: int
    runs: Sequence[Bucket]  # of their run times, by RUN_BOUNDS
    seconds: float  # that they took together


StartKind = tuple[str, str, Lane, bool]
EndKind = tuple[str, str, Lane, bool, OutcomeKind | None, bool, State]


def by_kind(columns: Sequence[Sequence[Any]], values: list[float]) -> dict[Any, list[float]]:
    """Values by their kinds, where each column holds a part of the kind of each value. Most batches
    are of one kind, and looking at whole columns for that is quicker than at every value."""
    if values and all(column.count(column[0]) == len(column) for column in columns):
        return {tuple(column[0] for column in columns): values}
    kinds: dict[Any, list[float]] = {}
    for kind, value in zip(zip(*columns, strict=True), values, strict=True):
        kinds.setdefault(kind, []).append(value)
    return kinds


def start_count(kind: StartKind, late: Sequence[float]) -> StartCount:
    """Of starts of one kind that were so late."""
    return StartCount(*kind, len(late), buckets(late, DELAY_BOUNDS), max(0.0, sum(late)))


def end_count(kind: EndKind, spent: Sequence[float]) -> EndCount:
    """Of executions of one kind that took so long."""
    return EndCount(*kind, len(spent), buckets(spent, RUN_BOUNDS), sum(spent))


def buckets(values: Iterable[float], bounds: Sequence[float]) -> list[Bucket]:
    """The buckets that are not empty. A bound belongs to the bucket below it."""
    ordered = sorted(values)
    if len(ordered) == 1:  # as where many tenants have few
        return [(bisect_left(bounds, ordered[0]), 1)]
    found: list[Bucket] = []
    counted, number = 0, len(ordered)
    while counted < number:
        place = bisect_left(bounds, ordered[counted])
        end = number if place == len(bounds) else bisect_right(ordered, bounds[place], counted)
        found.append((place, end - counted))
        counted = end
    return found
