"""Figures of a campaign that are shown, and decide nothing: delays in calm and around faults, and
how long faults were felt. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from proof.campaigns.checker import Delay as Started
from proof.campaigns.history import Fault
from proof.campaigns.plot import Delay, percentile

CALM = "calm"
_SLOT = 0.25  # seconds, of the map of faults over time
_FELT = 1.0  # seconds: a start later than this is felt


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
