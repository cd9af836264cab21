"""Limiters with how much of them is in use."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gnomon.limits.limiter import Limiter


class KeyUse(msgspec.Struct, frozen=True):
    """How much of one key is in use."""

    key: str
    running: int = 0
    started: int = 0


class LimiterUse(msgspec.Struct, frozen=True):
    """A limiter, and how much of it is in use."""

    limiter: Limiter
    created_at: datetime
    updated_at: datetime
    running: int  # tasks
    started: int  # starts that count at this moment
    keys: Sequence[KeyUse] | None = None  # the fullest ones, where they were asked for
