"""Holdings of a node in the buckets that its tasks need. Pure: time is handed in.

A permit lets one task run; it is in use from the choice of a task to its settlement, and free for
the next one afterwards. A start lets one call be made, once, before it runs out.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from gnomon.fairness.ready_queue import Flow as FlowId
from gnomon.limits.exchange import Ask, PermitGrant, Starts, Told
from gnomon.limits.limiter import Bucket, Limiter
from gnomon.limits.store_time import StoreTime
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE

# Returned when others wait, and nobody here has needed it for so long; or nobody waits.
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
# After which a call that has not come back is taken to have arrived: in grains, and at most.
_WAY_GRAINS, _WAY_SECONDS = 10, 1.0
_NEVER = float("-inf")
# Starts that run out before the call are asked for with a longer time, for a while.
_FIRST_PATIENCE, _MOST_PATIENCE, _PATIENT_SECONDS = 1.0, 60.0, 60.0


class _Grains:
    """Counts moments, those within one grain of time together. Told of every call, so it keeps the
    last grain apart."""

    __slots__ = ("_count", "_each", "_grain", "_last", "_until", "taken")

    def __init__(self, grain: float) -> None:
        self.taken = 0  # moments, in all
        self._grain = grain
        self._each: list[tuple[float, int]] = []  # the last moment of each grain before, how many
        self._until, self._last, self._count = _NEVER, _NEVER, 0

    def add(self, now: float) -> None:
        if now < self._until:
            self._last = now
            self._count += 1
        else:
            self._end()
            self._until, self._last, self._count = now + self._grain, now, 1

    def _end(self) -> None:
        if self._count:
            self._each.append((self._last, self._count))
            self._until, self._count = _NEVER, 0

    def __len__(self) -> int:
        return self._count + sum(count for _, count in self._each)

    def has_until(self, moment: float) -> bool:
        """Whether `take` would give anything."""
        first = self._each[0][0] if self._each else self._last
        return first <= moment and len(self) > 0

    def take(self, until: float = float("inf")) -> list[tuple[float, int]]:
        """Remove the grains that were over by then: the last moment of each, and how many."""
        self._end()
        taken = [each for each in self._each if each[0] <= until]
        del self._each[: len(taken)]
        self.taken += sum(count for _, count in taken)
        return taken


class Batch:
    """Starts that run out together. One that is used counts for as long as its call may be on its
    way: until that has come back, or for a good while. Which call was made with which does not
    matter to the store, so they are only counted."""

    __slots__ = (
        "_arrived", "_back", "_begun", "_made", "_owed", "_waited", "_way", "came_back",
        "good_from", "good_until", "left", "low", "spend", "until", "use_until",
    )  # fmt: skip

    def __init__(self, starts: Starts, time: StoreTime, per_seconds: float) -> None:
        self.until = starts.until  # by the store's clock
        self.good_from = time.surely_after(starts.since)  # by our own
        self.good_until = time.surely_before(starts.until)
        self.use_until = self.good_until - USE_SECONDS
        self.left = starts.count  # that nobody has taken
        self.low = 0  # with fewer left, more are asked for
        self._owed = starts.count  # of which the store has not been told what became of them
        self._made = 0  # told as made
        self._arrived = 0  # of these, for calls that had not come back: those will not be told
        self._waited = 0  # calls that have been under way for long, and were not told as such
        grain = per_seconds / _GRAINS
        self._way = min(_WAY_SECONDS, _WAY_GRAINS * grain)
        self._begun, self._back = _Grains(grain), _Grains(grain)
        self.spend = self._begun.add  # a call is made with one of them, at this moment
        self.came_back = self._back.add  # such a call has ended, so it had arrived

    @property
    def _under_way(self) -> int:
        """Calls that were not told as made."""
        return self._begun.taken + len(self._begun) - self._made

    def has_news(self, now: float) -> bool:
        return len(self._back) > self._arrived or (
            self._under_way > 0 and self._begun.has_until(now - self._way)
        )

    def is_over(self, now: float) -> bool:
        """Whether no call can be made with any."""
        return self._owed == 0 or now >= self.use_until

    def tell(self, now: float, *, idle: bool) -> list[Told]:
        """Starts that were made, and when at the latest; starts that will not be."""
        told = []
        for last, calls in self._back.take():
            known = min(calls, self._arrived)
            self._arrived -= known
            if calls > known:
                told.append(self._tell_made(last, calls - known))
        self._waited -= sum(each.starts for each in told)
        self._waited += sum(calls for _, calls in self._begun.take(now - self._way))
        if self._waited > 0:
            told.append(self._tell_made(now + USE_SECONDS, self._waited))
            self._arrived += self._waited
            self._waited = 0
        unused = self._owed - self._under_way
        returned = unused if now >= self.use_until else self.left if idle else 0
        if returned:
            told.append(Told(self.until, returned))
            self._owed -= returned
            self.left = 0
        return told

    def _tell_made(self, last: float, starts: int) -> Told:
        self._owed -= starts
        self._made += starts
        # By the store's clock it was at least as early.
        early = timedelta(seconds=max(0.0, self.good_until - last))
        return Told(self.until, starts, self.until - early)


class Wish(msgspec.Struct, frozen=True, gc=False):
    """The tasks that a node has for a bucket, and whether it stops."""

    waiting: int  # tasks that could start now
    stopping: bool  # it starts nothing more


class Holding:
    """One bucket."""

    __slots__ = (
        "_asked_at", "_granted", "_late_at", "_low", "_outdated", "_patience", "_taken", "allowed",
        "ask_at", "batches", "bucket", "contended", "flows", "late", "limiter", "permits",
        "refused", "touched", "used", "used_at",
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
        self._outdated = False  # whether the starts are of a rate that is no longer in force
        self._patience = 0.0
        self._late_at = now

    def change(self, limiter: Limiter) -> None:
        """Starts that were granted by another rate, and that nobody has taken, are returned."""
        before, self.limiter = self.limiter, limiter
        if (before.rate, before.per_seconds) != (limiter.rate, limiter.per_seconds):
            self._outdated = True

    # In use

    def batch(self, now: float) -> Batch | None:
        """Where the next start comes from."""
        if self._outdated:
            return None
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
            or any(b.has_news(now) or b.is_over(now) for b in self.batches)
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
        """The next question to the store. From here on no more is used than what is kept."""
        more = 0 if wish.stopping else max(0, wish.waiting)
        limiter = self.limiter
        self.refused = 0
        kept = self._kept(more, now, stopping=wish.stopping)
        self.allowed = min(self.allowed, kept)
        unwanted = wish.stopping or (self.contended and not more)
        told = self._tell(now, idle=unwanted or self._outdated)
        self._outdated = False
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

    def granted(self, grant: PermitGrant, ask: Ask, time: StoreTime, now: float) -> None:
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
        for starts in granted:
            self.batches.append(Batch(starts, time, self.limiter.per_seconds))
            self._granted += starts.count
        last = self.batches[-1]
        last.low = min(self._low, last.left)
