"""Figures of a campaign that are shown, and decide nothing: delays in calm and around faults, how
long faults were felt, and what the repeated starts came from. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from proof.campaigns.checker import Delay as Started
from proof.campaigns.expectations import Limits, cases, surplus
from proof.campaigns.history import Fault, History
from proof.campaigns.plot import Delay, percentile

CALM = "calm"
_SLOT = 0.25  # seconds, of the map of faults over time
_FELT = 1.0  # seconds: a start later than this is felt
# Whichever of the faults that were near can do most harm is taken for the cause.
_HARM = (
    "kill",
    "crash_point",
    "pause",
    "black_hole",
    "failover",
    "postgres_immediate",
    "postgres_fast",
    "delay",
    "lost_answer",
    "cut",
)


class Spread(NamedTuple):
    """How delays are spread, in seconds."""

    tasks: int
    p50: float
    p99: float
    most: float


class Felt(NamedTuple):
    """For how long faults of one kind were felt: until the last start that they made late."""

    faults: int
    felt: int
    p50: float
    most: float


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    most = ordered[-1] if ordered else 0.0
    return Spread(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), most)


def since(began_at: float, started: Iterable[Started]) -> list[Delay]:
    """The delays, in seconds since the beginning."""
    return [Delay(s.due_at - began_at, s.started_at - s.due_at) for s in started]


def by_circumstance(
    started: Sequence[Started], faults: Iterable[Fault], lease: float
) -> dict[str, Spread]:
    """Delays of tasks that were due in calm, and of those due while a fault lasted or within a
    lease afterwards, by its kind. With many faults a task counts for several kinds."""
    kinds: dict[int, set[str]] = {}
    for fault in faults:
        if not fault.took_effect:
            continue
        for slot in range(_slot(fault.at), _slot(fault.healed_at + lease) + 1):
            kinds.setdefault(slot, set()).add(fault.kind)
    values: dict[str, list[float]] = {CALM: []}
    for each in started:
        for kind in kinds.get(_slot(each.due_at), (CALM,)):
            values.setdefault(kind, []).append(each.started_at - each.due_at)
    return {kind: spread(values[kind]) for kind in sorted(values, key=lambda k: (k != CALM, k))}


def _slot(at: float) -> int:
    return math.floor(at / _SLOT)


def felt(started: Iterable[Started], faults: Sequence[Fault], lease: float) -> dict[str, Felt]:
    """From a fault to the last late start of a task that was due while it lasted, or within a
    lease afterwards. Where others were near, it may have been them."""
    late = sorted((s.due_at, s.started_at) for s in started if s.started_at - s.due_at > _FELT)
    seconds: dict[str, list[float]] = {}
    for fault in faults:
        if fault.took_effect:
            until = fault.healed_at + lease
            near = [start - fault.at for due, start in late if fault.at <= due <= until]
            seconds.setdefault(fault.kind, []).append(max(near, default=0.0))
    found = {}
    for kind, values in sorted(seconds.items()):
        ordered = sorted(values)
        count = sum(value > 0 for value in ordered)
        found[kind] = Felt(len(ordered), count, percentile(ordered, 0.5), ordered[-1])
    return found


def causes(history: History, limits: Limits | None = None) -> dict[str, int]:
    """Starts that would not have been made on a calm day, by the fault that was near."""
    slack = history.lease + (limits or Limits()).aftermath
    faults = [f for f in history.faults if f.took_effect and not f.victim.startswith("api")]
    found: Counter[str] = Counter()
    for case in cases(history):
        if case.submitted is None:
            continue
        for extra in surplus(case, case.submitted):
            begin = min((c.began_at for c in extra.instead_of), default=extra.call.began_at)
            near = {
                f.kind
                for f in faults
                if f.at <= extra.call.began_at and f.healed_at + slack >= begin
            }
            found[_cause(near)] += 1
    return dict(found.most_common())


def _cause(near: set[str]) -> str:
    return next((kind for kind in _HARM if kind in near), "none known")
