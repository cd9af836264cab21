"""Limiters with how much of them is in use."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from gnomon.limits.limiter import Limiter
from gnomon.store.ports.insight.stats import CappedCount


class KeyUse(msgspec.Struct, frozen=True):
    """How much of one key is in use."""

    key: str
    running: int = 0
    started: int = 0
    waiting: CappedCount = CappedCount()  # due tasks


class LimiterUse(msgspec.Struct, frozen=True):
    """A limiter, and how much of it is in use."""

    limiter: Limiter
    created_at: datetime
    updated_at: datetime
    running: int  # tasks
    started: int  # starts that count at this moment
    keys: Sequence[KeyUse] | None = None  # the fullest ones, where they were asked for
    waiting: CappedCount = CappedCount()  # due tasks that it applies to

    @property
    def holds(self) -> bool:
        """Whether it holds up what waits: of one with a key, whether one of its keys does."""
        if self.limiter.key is not None:
            return any(_reached(self.limiter, each) and _waits(each) for each in self.keys or ())
        return self.is_full and _waits(self)

    @property
    def is_full(self) -> bool:
        """Whether nothing more starts under it: of one with a key, under one of its keys."""
        if self.limiter.key is not None:
            return any(_reached(self.limiter, each) for each in self.keys or ())
        return _reached(self.limiter, self)


def _reached(limiter: Limiter, use: KeyUse | LimiterUse) -> bool:
    at_once = limiter.concurrency is not None and use.running >= limiter.concurrency
    return at_once or (limiter.rate is not None and use.started >= limiter.rate)


def _waits(use: KeyUse | LimiterUse) -> bool:
    return use.waiting.count > 0 or use.waiting.capped
