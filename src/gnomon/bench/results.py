"""What a measure gives: values beside their targets, and an account of the tasks it used."""

from collections.abc import Sequence
from typing import Literal

import msgspec


class BenchError(Exception):
    """A measure that cannot be trusted, or could not be made at all."""


class Aim(msgspec.Struct, frozen=True):
    """What a value should be."""

    bound: float
    better: Literal["higher", "lower"]

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.better == "higher" else value <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.better == "higher" else "≤"
        return f"{sign} {number(self.bound)}"


def at_least(bound: float) -> Aim:
    return Aim(bound, "higher")


def at_most(bound: float) -> Aim:
    return Aim(bound, "lower")


class Measure(msgspec.Struct, frozen=True):
    """One line of the table. No value: it could not be measured, and `note` says why."""

    name: str  # stable, for machines
    title: str
    value: float | None
    unit: str = ""
    target: Aim | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.value is None or self.target is None:
            return None
        return self.target.met_by(self.value)


class TaskTally(msgspec.Struct, frozen=True):
    """What became of the tasks of one measure. A rate counts only if nothing was lost."""

    measure: str
    submitted: int
    completed: int  # in the archive as COMPLETED, or stored where nothing is to run
    early: int = 0
    repeated: int = 0

    def check(self) -> None:
        if (self.completed, self.early, self.repeated) != (self.submitted, 0, 0):
            raise BenchError(
                f"{self.measure}: of {self.submitted} tasks {self.completed} were completed, "
                f"{self.early} began early, {self.repeated} ran more than once"
            )


class Findings(msgspec.Struct):
    """All that a run found out so far."""

    measures: list[Measure] = []
    tallies: list[TaskTally] = []

    def add(self, measures: Sequence[Measure], *tallies: TaskTally) -> None:
        for tally in tallies:
            tally.check()
        self.measures += measures
        self.tallies += tallies

    def value(self, name: str) -> float | None:
        return next((m.value for m in self.measures if m.name == name), None)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest rank: always a value that was seen."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def number(value: float) -> str:
    """12 345 or 1.23: as many digits as can mean something."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.3g}"
