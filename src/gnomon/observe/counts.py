"""Counts of the tasks of one event: added up by kind when the first listener looks, for all.

An event is told for thousands of tasks a second, and several listeners count them: sorting each
into its bucket is done once.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from gnomon.model.insight.activity import delay_place
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane

# Seconds that executions take. A bound belongs to the bucket below it.
RUN_BOUNDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_run_place = partial(bisect_left, RUN_BOUNDS)

T = TypeVar("T")


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
    delays: Sequence[int]  # the bucket of each, by DELAY_BOUNDS
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
    runs: Sequence[int]  # the bucket of each one's run time, by RUN_BOUNDS
    seconds: float  # that they took together

    @property
    def number(self) -> int:
        return len(self.runs)


StartKind = tuple[str, str, Lane, bool]
EndKind = tuple[str, str, Lane, bool, OutcomeKind | None, bool, State]


def start_count(kind: StartKind, late: Sequence[float]) -> StartCount:
    """Of starts of one kind that were so late."""
    return StartCount(*kind, list(map(delay_place, late)), max(0.0, sum(late)))


def end_count(kind: EndKind, spent: Sequence[float]) -> EndCount:
    """Of executions of one kind that took so long."""
    return EndCount(*kind, list(map(_run_place, spent)), sum(spent))
