"""Policies for local times that a clock change leaves out or repeats."""

from enum import StrEnum

import msgspec


class Gap(StrEnum):
    """A local time that never comes, because clocks go forward over it."""

    FIRE_AFTER = "fire_after"  # once, at the first moment after the gap
    SKIP = "skip"


class Fold(StrEnum):
    """A local time that comes twice, because clocks go back over it."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Dst(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy of one schedule."""

    gap: Gap = Gap.FIRE_AFTER
    fold: Fold = Fold.FIRST


# For what follows real time: a missing local time has no moment, a repeated one has two.
REAL_TIME = Dst(Gap.SKIP, Fold.BOTH)
