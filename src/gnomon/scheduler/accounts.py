"""What a node holds of the buckets that its tasks need. Pure: time is handed in.

A permit lets one task run; it is in use from the choice of a task to its settlement, and free for
the next one afterwards. A start lets one call be made, once, before it runs out.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from gnomon.fair.queue import Flow as FlowId
from gnomon.model.limit import EXECUTIONS_PER_MINUTE, Bucket, Limiter
from gnomon.scheduler.store_time import StoreTime
from gnomon.store.limit_port import Ask, Grant, Starts, Told

# What is given back when others wait, and nobody here has needed it for so long; or nobody waits.
IDLE_SECONDS = 1.0
REST_SECONDS = 10.0
_NEWS_SECONDS = 60.0  # after which the store hears of what is in use as before
# Between two questions about what was not to be had: others may return it; or all of it is here.
ASK_AGAIN_SECONDS = 0.1
_ALL_IS_HERE_SECONDS = 1.0
# That a call takes to be made: what a start is good for when it is taken, and when it is used.
TAKE_SECONDS, USE_SECONDS = 0.04, 0.01
_AHEAD_SECONDS = 0.5  # of starts that are asked for ahead, where nobody else waits
_GRAINS = 100  # of the time of a limiter: starts that were made within one are told together
# That a call may be on its way, in grains and in seconds: it is told as made by then.
_WAY_GRAINS, _WAY_SECONDS = 5, 0.05
# Starts that run out before the call are asked for with a longer time, for a while.
_FIRST_PATIENCE, _MOST_PATIENCE, _PATIENT_SECONDS = 1.0, 60.0, 60.0


class Batch:
    """Starts that run out together."""

    __slots__ = (
        "_grain", "_made", "_owed", "_way", "good_from", "good_until", "left", "low", "until",
    )  # fmt: skip

    def __init__(self, starts: Starts, time: StoreTime, grain: float) -> None:
        self.until = starts.until  # by the store's clock
        self.good_from = time.surely_after(starts.since)  # by our own
        self.good_until = time.surely_before(starts.until)
        self.left = starts.count  # that nobody has taken
        self.low = 0  # with fewer left, more are asked for
        self._owed = starts.count  # of which the store has not been told what became of them
        self._grain = grain
        self._way = max(USE_SECONDS, min(_WAY_SECONDS, _WAY_GRAINS * grain))
        self._made: list[list[float]] = []  # when the first and the last of some were, how many

    def spend(self, now: float) -> None:
        """A call is made with one of them."""
        if self._made and now - self._made[-1][0] < self._grain:
            self._made[-1][1] = now
            self._made[-1][2] += 1
        else:
            self._made.append([now, now, 1])

    @property
    def has_news(self) -> bool:
        return bool(self._made)

    def is_over(self, now: float) -> bool:
        """Whether no call can be made with any."""
        return self._owed == 0 or self.good_until - now <= USE_SECONDS

    def tell(self, now: float, *, idle: bool) -> list[Told]:
        """What was made, and when at the latest; what will not be."""
        told = []
        for _, last, starts in self._made:
            # By the store's clock it was at least as early.
            early = timedelta(seconds=max(0.0, self.good_until - last - self._way))
            told.append(Told(self.until, int(starts), self.until - early))
            self._owed -= int(starts)
        self._made.clear()
        over = self.is_over(now)
        returned = self._owed if over else self.left if idle else 0
        if returned:
            told.append(Told(self.until, returned))
            self._owed -= returned
            self.left = 0
        return told


class Wish(msgspec.Struct, frozen=True, gc=False):
    """What a node would do with a bucket."""

    waiting: int  # tasks that could start now
    stopping: bool  # it starts nothing more


class Account:
    """One bucket."""

    __slots__ = (
        "_asked_at", "_granted", "_late_at", "_low", "_patience", "_taken", "allowed", "ask_at",
        "batches", "bucket", "contended", "flows", "late", "limiter", "permits", "refused",
        "touched", "used", "used_at",
    )  # fmt: skip

    def __init__(self, bucket: Bucket, limiter: Limiter, now: float) -> None:
        self.bucket = bucket
        self.limiter = limiter
        self.permits = 0  # held
        self.allowed = 0  # that may be in use
        self.used = 0
        self.used_at = now
        self.touched = False  # since `used_at`
        self.batches: list[Batch] = []
        self.late = 0  # starts that ran out before the call, since the last question
        self.refused = 0  # since the last question
        self.flows: dict[FlowId, None] = {}  # set aside for lack of this
        self.contended = False
        self.ask_at = now  # not before
        self._asked_at = now
        self._granted = 0  # starts, in all
        self._taken = 0  # of these, up to the last question
        self._low = 0
        self._patience = 0.0
        self._late_at = now

    # In use

    def batch(self, now: float) -> Batch | None:
        """Where the next start comes from."""
        for batch in self.batches:
            if batch.left > 0 and batch.good_from <= now < batch.good_until - TAKE_SECONDS:
                return batch
        return None

    def next_start(self) -> float:
        """When the next start that was granted ahead is good."""
        return min((b.good_from for b in self.batches if b.left > 0), default=float("inf"))

    def can_give(self, now: float) -> bool:
        """Whether one more task has all that it needs of this bucket."""
        if self.limiter.concurrency is not None and self.used >= self.allowed:
            return False
        return self.limiter.rate is None or self.batch(now) is not None

    def starts(self, now: float) -> int:
        return sum(b.left for b in self.batches if b.good_until - now > TAKE_SECONDS)

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
            and self._idle(now) > REST_SECONDS
        )

    def has_news(self, now: float) -> bool:
        """Whether the store should hear of it, though nothing lacks. What is in use as before is
        not worth a call, or there would be one for each bucket all the time."""
        if not self.permits and not self.batches:
            return False
        return (
            self.contended
            or any(b.has_news or b.is_over(now) for b in self.batches)
            or (self.permits > self.used and self._idle(now) > REST_SECONDS)
            or now - self._asked_at > _NEWS_SECONDS
        )

    def _idle(self, now: float) -> float:
        if self.touched:
            self.touched = False
            self.used_at = now
        return now - self.used_at

    # Questions and answers

    def ask(self, wish: Wish, now: float) -> Ask:
        """What to ask for. From here on no more is used than what is kept."""
        more = 0 if wish.stopping else max(0, wish.waiting)
        limiter = self.limiter
        self.refused = 0
        kept = self._kept(more, now, stopping=wish.stopping)
        self.allowed = min(self.allowed, kept)
        told = self._tell(now, idle=wish.stopping or (self.contended and not more))
        starts = 0
        if limiter.rate is not None and not wish.stopping:
            starts = self._starts_wanted(more, now)
        self._asked_at = now
        return Ask(
            self.bucket,
            kept,
            kept if limiter.concurrency is None else max(kept, self.used + more),
            starts,
            self._seconds(now),
            limiter.rate if limiter.name == EXECUTIONS_PER_MINUTE else None,
            told,
        )

    def _kept(self, more: int, now: float, *, stopping: bool) -> int:
        idle = self._idle(now)
        if stopping or (not more and idle > (IDLE_SECONDS if self.contended else REST_SECONDS)):
            return self.used
        return max(self.used, self.allowed)

    def _starts_wanted(self, more: int, now: float) -> int:
        taken = self._granted - sum(b.left for b in self.batches)
        rate = (taken - self._taken) / max(0.01, now - self._asked_at)
        self.touched = self.touched or taken != self._taken
        self._taken = taken
        # Twice what waits, where that is more: it is no sign of how fast it will be used up.
        ahead = 0 if self.contended else max(more, int(rate * _AHEAD_SECONDS))
        self._low = ahead // 2
        return max(0, more + ahead - self.starts(now))

    def _seconds(self, now: float) -> float:
        """How long starts should be good for. Where calls are slow to be made they would run out
        on the way, again and again."""
        if self.late:
            self.late = 0
            self._late_at = now
            self._patience = min(_MOST_PATIENCE, max(_FIRST_PATIENCE, self._patience) * 2)
        elif now - self._late_at > _PATIENT_SECONDS:
            self._patience = 0.0
        return self._patience

    def _tell(self, now: float, *, idle: bool) -> list[Told]:
        told = []
        for batch in self.batches:
            left = batch.left
            told += batch.tell(now, idle=idle)
            self._granted -= left - batch.left
        self.batches = [batch for batch in self.batches if not batch.is_over(now)]
        return told

    def granted(self, grant: Grant, ask: Ask, time: StoreTime, now: float) -> None:
        self.permits = grant.permits
        self.allowed = grant.allowed
        self.contended = grant.contended
        self._add(grant.starts, time)
        short = sum(starts.count for starts in grant.starts) < ask.starts
        self.ask_at = now + grant.again if short else now
        if grant.allowed < ask.wanted:
            all_is_here = grant.allowed == self.limiter.concurrency
            again = now + (_ALL_IS_HERE_SECONDS if all_is_here else ASK_AGAIN_SECONDS)
            self.ask_at = min(self.ask_at, again) if short else again

    def _add(self, granted: Sequence[Starts], time: StoreTime) -> None:
        if not granted:
            return
        for batch in self.batches:  # those are used up first
            batch.low = 0
        grain = self.limiter.per_seconds / _GRAINS
        for starts in granted:
            self.batches.append(Batch(starts, time, grain))
            self._granted += starts.count
        last = self.batches[-1]
        last.low = min(self._low, last.left)
