"""Activity: what became of tasks, added up over a time. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from gnomon.model.tasks.priority import Lane

# A start is late by milliseconds, or by as long as something was broken. Seconds.
DELAY_BOUNDS = (
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
DELAYS = len(DELAY_BOUNDS) + 1  # the last: more than all of them
ALL_TYPES = ""  # in place of a type: no task type is empty


class ActivityKey(NamedTuple):
    """What is added up together."""

    tenant_id: str
    task_type: str
    lane: Lane


class Counts(msgspec.Struct):
    """Sums of one key over a time. `started`, `succeeded` and `failed` are executions, `dead` is
    tasks, and `seconds` is what executions took that have ended."""

    submitted: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    seconds: float = 0.0
    delays: list[int] = msgspec.field(default_factory=lambda: [0] * DELAYS)

    def add(self, other: "Counts") -> None:
        self.submitted += other.submitted
        self.started += other.started
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.dead += other.dead
        self.seconds += other.seconds
        if other.started:
            self.delays = list(map(int.__add__, self.delays, other.delays))

    def less(self, other: "Counts") -> "Counts":
        """What is left of these without the others, which are among them."""
        return Counts(
            max(0, self.submitted - other.submitted),
            max(0, self.started - other.started),
            max(0, self.succeeded - other.succeeded),
            max(0, self.failed - other.failed),
            max(0, self.dead - other.dead),
            max(0.0, self.seconds - other.seconds),
            [max(0, mine - theirs) for mine, theirs in zip(self.delays, other.delays, strict=True)],
        )

    @property
    def weight(self) -> int:
        """How much happened, for finding what is busiest."""
        return self.submitted + self.started + self.succeeded + self.failed + self.dead


def percentile(delays: Sequence[int], part: float) -> float | None:
    """About how many seconds so large a part of the starts was late at the most: as if those of a
    bucket were spread evenly over it. Never more than the last bound. None: nothing started."""
    passed = list(accumulate(delays))
    if not passed[-1]:
        return None
    wanted = part * passed[-1]
    place = bisect_left(passed, max(wanted, 1))
    if place >= len(DELAY_BOUNDS):
        return DELAY_BOUNDS[-1]
    below = DELAY_BOUNDS[place - 1] if place else 0.0
    count = delays[place]
    return below + (DELAY_BOUNDS[place] - below) * max(0.0, wanted - passed[place] + count) / count
