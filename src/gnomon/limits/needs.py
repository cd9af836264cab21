"""Needs of the tasks of a flow, and the stake that one of them has taken. Pure."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from gnomon.limits.holdings import TAKE_SECONDS, Batch, Holding
from gnomon.model.tasks.flow import UNKNOWN_FLOW

_EVER = float("inf")


class Stake:
    """The share of a task: a permit of each of `permits`, a start of each of `batches`. Tasks
    that have taken the same share one."""

    __slots__ = (
        "batches", "called", "era", "flow", "permits", "rated", "take_until", "twin", "use_until",
    )  # fmt: skip

    def __init__(
        self,
        permits: tuple[Holding, ...],
        rated: tuple[Holding, ...] = (),
        batches: tuple[Batch, ...] = (),
        flow: int | None = None,
        era: int = -1,
    ) -> None:
        self.permits = permits
        self.rated = rated  # the buckets of the starts
        self.batches = batches
        self.flow = flow  # that it is all of, and no more; None: of none for sure
        self.era = era  # of the limits that it was taken for
        self.called = False  # with those starts
        self.take_until = min((batch.good_until for batch in batches), default=_EVER) - TAKE_SECONDS
        self.use_until = min((batch.use_until for batch in batches), default=_EVER)
        self.twin: Stake | None = None  # the same, after the call was made; if one was

    def can_be_taken(self, now: float) -> bool:
        """Whether another task can take the same starts."""
        if now >= self.take_until or self.batches[0].left <= 0:
            return False
        return len(self.batches) == 1 or all(batch.left > 0 for batch in self.batches)

    def when_called(self) -> "Stake":
        """The same, after the call was made."""
        if self.twin is None:
            self.twin = Stake(self.permits, self.rated, self.batches, self.flow, self.era)
            self.twin.called = True
        return self.twin

    def is_good(self, flow: int, era: int, now: float) -> bool:
        """Whether it is all that a task of this flow needs before it is called."""
        same = self.flow == flow and self.era == era
        return same and not self.called and now < self.use_until

    def has_all_of(self, needs: "Needs") -> bool:
        return all(account in self.permits for account in needs.permits) and all(
            account in self.rated for account in needs.starts
        )

    def return_starts(self) -> None:
        """Return its starts, if they were not used."""
        if not self.called:
            for batch in self.batches:
                batch.left += 1

    def renewed(self, now: float) -> "Stake | None":
        """The same with fresh starts for those that ran out. None: there are none, so it will be
        returned, and starts must be good for longer."""
        batches = []
        for account in self.rated:
            good = self.start(account, now) or account.batch(now)
            if good is None:
                account.late += 1
                return None
            batches.append(good)
        return self._with(self.permits, self.rated, batches, self.flow, self.era)

    def completed(self, needs: "Needs", now: float, era: int) -> "Stake | None":
        """With all that these needs ask for; None: something lacks."""
        new = [account for account in needs.permits if account not in self.permits]
        batches = [self.start(account, now) or account.batch(now) for account in needs.starts]
        found = [batch for batch in batches if batch is not None]
        if len(found) < len(batches) or any(a.used >= a.allowed for a in new):
            return None
        for account in new:
            account.used += 1
            account.touched = True
        flow = needs.flow if len(self.permits) + len(new) == len(needs.permits) else None
        return self._with((*self.permits, *new), needs.starts, found, flow, era)

    def only(self, needs: "Needs", era: int) -> "Stake":
        """Without what these needs do not ask for."""
        kept = dict(zip(self.rated, self.batches, strict=True))
        for account, batch in kept.items():
            if account not in needs.starts and not self.called:
                batch.left += 1
        batches = tuple(kept[account] for account in needs.starts)
        stake = Stake(needs.permits, needs.starts, batches, needs.flow, era)
        return stake.when_called() if self.called else stake

    def start(self, account: Holding, now: float) -> Batch | None:
        """Its start of this bucket, if that can still be used."""
        if self.called:
            return None
        for rated, batch in zip(self.rated, self.batches, strict=True):
            if rated is account and now < batch.use_until:
                return batch
        return None

    def _with(
        self,
        permits: tuple[Holding, ...],
        rated: tuple[Holding, ...],
        batches: Sequence[Batch],
        flow: int | None,
        era: int,
    ) -> "Stake":
        """Take the starts that are new, return those that are not needed."""
        self.return_starts()
        for batch in batches:
            batch.left -= 1
        return Stake(permits, rated, tuple(batches), flow, era)


NOTHING = Stake(())


class Needs:
    """The permits and starts that every task of a flow needs, in the order of the buckets."""

    __slots__ = ("current", "each", "flow", "is_nothing", "permits", "plain", "starts")

    def __init__(self, each: tuple[Holding, ...], flow: int, era: int) -> None:
        self.each = each
        self.flow = None if flow == UNKNOWN_FLOW else flow
        self.is_nothing = not each
        self.permits = tuple(a for a in each if a.limiter.concurrency is not None)
        self.starts = tuple(a for a in each if a.limiter.rate is not None)
        self.plain = Stake(self.permits, flow=flow, era=era)  # where no starts are needed
        self.current: Stake | None = None  # what the last one took, where they are

    def next_stake(self, now: float, era: int) -> Stake | None:
        """The stake of the next task: that of the last one, while it can be taken. None: there are
        no starts."""
        if not self.starts:
            return self.plain
        if self.current is None or not self.current.can_be_taken(now):
            self.current = self._stake(now, era)
        return self.current

    def room(self, now: float, era: int) -> int:
        """How many tasks could take that stake now, if no others needed any of it."""
        stake = self.next_stake(now, era)
        if stake is None:
            return 0
        free = [account.allowed - account.used for account in stake.permits]
        return min((*free, *[batch.left for batch in stake.batches]), default=sys.maxsize)

    def _stake(self, now: float, era: int) -> Stake | None:
        batches = [account.batch(now) for account in self.starts]
        found = tuple(batch for batch in batches if batch is not None)
        if len(found) < len(batches):
            return None
        return Stake(self.permits, self.starts, found, self.flow, era)

    def lacking(self, before: Stake, now: float) -> int:
        """The first bucket of which something lacks."""
        for place, account in enumerate(self.each):
            if self._lacks(account, before, now):
                return place
        raise AssertionError("nothing lacks")

    def all_lacking(self, now: float) -> list[Holding]:
        return [account for account in self.each if self._lacks(account, NOTHING, now)]

    def _lacks(self, account: Holding, before: Stake, now: float) -> bool:
        limiter = account.limiter
        full = limiter.concurrency is not None and account.used >= account.allowed
        if full and account not in before.permits:
            return True
        if limiter.rate is None or before.start(account, now) is not None:
            return False
        return account.batch(now) is None


def take_run(counts: Mapping[Needs, int], now: float, era: int) -> dict[Needs, Stake] | None:
    """Take what so many tasks with each of these needs take one after the other; gives the stake
    that all with the same needs have. None: not all of them can have the next one; then nothing is
    taken."""
    stakes: dict[Needs, Stake] = {}
    permits: Counter[Holding] = Counter()
    starts: Counter[Batch] = Counter()
    for needs, count in counts.items():
        stake = needs.next_stake(now, era)
        if stake is None:
            return None
        stakes[needs] = stake
        permits.update(dict.fromkeys(stake.permits, count))
        starts.update(dict.fromkeys(stake.batches, count))
    if any(account.used + count > account.allowed for account, count in permits.items()):
        return None
    if any(batch.left < count for batch, count in starts.items()):
        return None
    for account, count in permits.items():
        account.used += count
        account.touched = True
    for batch, count in starts.items():
        batch.left -= count
    return stakes
