"""What a node holds of the buckets that its tasks need. Pure: time is handed in.

A permit lets one task run; it is in use from the choice of a task to its settlement, and free for
the next one afterwards. A start lets one call be made, once, before it runs out.
"""

from datetime import datetime

import msgspec

from gnomon.fair.queue import Flow as FlowId
from gnomon.model.limit import Bucket
from gnomon.store.limit_port import Ask, Grant

# What is given back when others wait, and nobody here has needed it for so long; or nobody waits.
IDLE_SECONDS = 1.0
REST_SECONDS = 10.0
# Between two questions about what was not to be had.
ASK_AGAIN_SECONDS = 0.1
# That a call takes to be made: what a start is good for when it is taken, and when it is used.
_TAKE_SECONDS, USE_SECONDS = 0.04, 0.01
_AHEAD_SECONDS = 0.25  # of starts that are asked for ahead, where nobody else waits


class Batch:
    """Starts that run out together."""

    __slots__ = ("good_until", "left", "spent", "until")

    def __init__(self, until: datetime, good_until: float, left: int) -> None:
        self.until = until  # by the store's clock
        self.good_until = good_until  # by our own
        self.left = left
        self.spent = 0  # called, and not yet told


class Wish(msgspec.Struct, frozen=True, gc=False):
    """What a node would do with a bucket."""

    waiting: int  # tasks that could start now
    stopping: bool  # it starts nothing more


class Account:
    """One bucket."""

    __slots__ = (
        "_asked_at", "allowed", "ask_at", "batches", "bucket", "contended", "counts", "flows",
        "low", "permits", "quota", "rates", "refused", "started", "used", "used_at",
    )  # fmt: skip

    def __init__(self, bucket: Bucket, now: float) -> None:
        self.bucket = bucket
        self.counts = False  # whether tasks need permits
        self.rates = False  # and starts
        self.quota: int | None = None  # starts a minute, of what is no limiter in the store
        self.permits = 0  # held
        self.allowed = 0  # that may be in use
        self.used = 0
        self.used_at = now
        self.batches: list[Batch] = []
        self.started = 0  # since the last question
        self.low = 0  # starts: with fewer in hand, more are asked for
        self.refused = 0  # since the last question
        self.flows: dict[FlowId, None] = {}  # set aside for lack of this
        self.contended = False
        self.ask_at = now  # not before
        self._asked_at = now

    # In use

    def batch(self, now: float) -> Batch | None:
        """Where the next start comes from."""
        for batch in self.batches:
            if batch.left > 0 and batch.good_until - now > _TAKE_SECONDS:
                return batch
        return None

    def starts(self, now: float) -> int:
        return sum(b.left for b in self.batches if b.good_until - now > _TAKE_SECONDS)

    @property
    def has_surplus(self) -> bool:
        """Whether something must be returned, and can be."""
        return self.permits > max(self.allowed, self.used)

    def is_at_rest(self, now: float) -> bool:
        """Whether it can be forgotten."""
        return (
            self.permits == self.used == 0
            and not self.flows
            and not self.batches
            and now - self.used_at > REST_SECONDS
        )

    # Questions and answers

    def ask(self, wish: Wish, now: float) -> Ask:
        """What to ask for. From here on no more is used than what is kept."""
        more = 0 if wish.stopping else max(0, wish.waiting)
        self.refused = 0
        kept = self._kept(more, now, stopping=wish.stopping)
        self.allowed = min(self.allowed, kept)
        return Ask(
            self.bucket,
            kept,
            max(kept, self.used + more) if self.counts else kept,
            self._starts_wanted(more, now) if self.rates and not wish.stopping else 0,
            self.quota,
            *self._told(now, idle=wish.stopping or (self.contended and not more)),
        )

    def _kept(self, more: int, now: float, *, stopping: bool) -> int:
        idle = now - self.used_at
        if stopping or (not more and idle > (IDLE_SECONDS if self.contended else REST_SECONDS)):
            return self.used
        return max(self.used, self.allowed)

    def _starts_wanted(self, more: int, now: float) -> int:
        seconds = max(0.01, now - self._asked_at)
        ahead = 0 if self.contended else int(self.started / seconds * _AHEAD_SECONDS)
        self.started = 0
        self.low = ahead // 2
        self._asked_at = now
        return max(0, more + ahead - self.starts(now))

    def _told(self, now: float, *, idle: bool) -> tuple[datetime | None, int, int]:
        """Starts that nobody will use, and those that were made: of one batch at a time."""
        for batch in self.batches:
            over = idle or batch.good_until - now <= _TAKE_SECONDS
            if over or batch.spent:
                if over:
                    self.batches.remove(batch)
                told = batch.until, batch.left if over else 0, batch.spent
                batch.spent = 0
                return told
        return None, 0, 0

    def granted(self, grant: Grant, ask: Ask, asked_at: float, now: float) -> None:
        self.permits = grant.permits
        self.allowed = grant.allowed
        self.contended = grant.contended
        if grant.starts and grant.until is not None:
            self.batches.append(Batch(grant.until, asked_at + grant.seconds, grant.starts))
        short = grant.allowed < ask.wanted or grant.starts < ask.starts
        self.ask_at = now + ASK_AGAIN_SECONDS if short else now
