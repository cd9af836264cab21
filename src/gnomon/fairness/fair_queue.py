"""The ready queue that is fair between tenants: start-time fair queuing over work done."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Generic

from gnomon.fairness.by_tenant import by_tenant
from gnomon.fairness.lanes import Ages, LaneRound
from gnomon.fairness.ready_queue import (
    Admit,
    AdmitFirst,
    End,
    Flow,
    Freely,
    T,
    everyone,
    nobody,
    none_at_once,
)  # fmt: skip
from gnomon.fairness.slot_shares import SlotShares
from gnomon.fairness.virtual_time import CAPPED, LEAST_WEIGHT, NOWHERE, QUEUED, TenantShare
from gnomon.model.tasks.priority import Lane

_CRITICAL = int(Lane.CRITICAL)
_ONLY_CRITICAL = 1 << _CRITICAL  # as a set of lanes
_NOBODY = float("-inf")  # a tag that nobody has


def alike(_: str) -> float:
    """Every tenant has the same weight."""
    return 1.0


def alone(_: str) -> bool:
    """No tenant has any other beside it."""
    return False


class FairQueue(Generic[T]):
    """Tenants first, then the lanes of the one whose turn it is (see `TenantLanes`): however many
    tasks of whatever priority one tenant has, another does not wait longer for it.

    The tenant with the lowest tag is served (see `TenantShare`); of two backlogged ones, neither
    gets ahead by more work, divided by weight, than its longest task and that of the other, for
    every slot that is held. One that begins to wait takes the lowest tag of those who do, or keeps
    its own where that is higher: it is served as soon as they are, and nothing is saved up while
    idle. A tenant that holds all the slots that it may is passed over, and what others gain
    meanwhile is not owed to it.
    """

    def __init__(
        self,
        order: LaneRound | None = None,
        bound: timedelta = timedelta(minutes=1),
        slots: SlotShares | None = None,
        weight: Callable[[str], float] = alike,
        has_others: Callable[[str], bool] = alone,
    ) -> None:
        self._order = order or LaneRound()
        self._bound, self._half_of_bound = bound, bound / 2
        self._slots = slots
        self._weight = weight
        self._has_others = has_others
        self._accounts: dict[str, TenantShare[T]] = {}
        self._serials = count()
        self._pushes = count()
        # Accounts by tag. One whose tag has grown is found by its old one, and moved then; one
        # whose tag has sunk is here twice, and skipped where it is not found under its key.
        self._heap: list[tuple[float, int, int, TenantShare[T]]] = []
        self._queued = 0  # accounts in it
        self._capped: list[TenantShare[T]] = []
        self._freed = False  # a slot, since these were put there
        self._passed = _NOBODY  # the highest tag of others that was served since then
        self._gained = 0.0  # by those others, meanwhile
        self._highest = 0.0  # tag ever reached
        self._urgent: dict[str, TenantShare[T]] = {}  # those that may have CRITICAL entries
        self._size = 0
        self._held = 0  # below CRITICAL
        self._critical = 0  # held there

    def put_all(self, entries: Iterable[T]) -> None:
        entries = list(entries)
        tenants = [entry.key.tenant_id for entry in entries]
        for tenant_id, batch in by_tenant(tenants, entries).items():
            account = self._account(tenant_id)
            before = account.lanes.ready
            account.lanes.put_all(batch)
            self._grown(account, before)

    def put_back(self, entry: T) -> None:
        account = self._account(entry.key.tenant_id)
        self._release(account, [None], 1 if entry.lane == _CRITICAL else 0)
        before = account.lanes.ready
        account.lanes.put_back(entry)
        self._grown(account, before)

    def let_in(self, flows: Iterable[Flow] | None = None) -> bool:
        if flows is None:
            flows = [(a.tenant_id, n) for a in self._accounts.values() for n in a.lanes.aside()]
        found = False
        for tenant_id, number in flows:
            account = self._accounts.get(tenant_id)
            if account is not None:
                before = account.lanes.ready
                found |= account.lanes.let_in(number)
                self._grown(account, before)
        return found

    def _account(self, tenant_id: str) -> TenantShare[T]:
        account = self._accounts.get(tenant_id)
        if account is None:
            account = TenantShare(tenant_id, next(self._serials), self._order)
            account.weight = max(self._weight(tenant_id), LEAST_WEIGHT)
            self._accounts[tenant_id] = account
        return account

    def _grown(self, account: TenantShare[T], before: int) -> None:
        """More of it may be ready than before."""
        lanes = account.lanes
        if lanes.ready == before:
            return
        self._size += lanes.ready - before
        if lanes.lanes & _ONLY_CRITICAL:
            self._urgent[account.tenant_id] = account
        if account.where == NOWHERE:
            account.tag = max(account.tag, self._now())
            self._push(account)

    def _now(self) -> float:
        """The virtual time."""
        self._uncap()
        first = self._first()
        return self._highest if first is None else first.tag

    # The heap

    def _push(self, account: TenantShare[T]) -> None:
        if account.where != QUEUED:
            account.where = QUEUED
            self._queued += 1
        account.key = account.tag
        heappush(self._heap, (account.tag, account.serial, next(self._pushes), account))
        if len(self._heap) > 4 * self._queued + 16:
            kept = (e for e in self._heap if e[3].where == QUEUED and e[3].key == e[0])
            self._heap = list({e[1]: e for e in kept}.values())
            heapify(self._heap)

    def _first(self) -> TenantShare[T] | None:
        """The account with the lowest tag, at the top of the heap."""
        heap = self._heap
        while heap:
            key, serial, _, account = heap[0]
            if account.where != QUEUED or account.key != key:
                heappop(heap)
            elif account.tag > key:
                account.key = account.tag
                heapreplace(heap, (account.tag, serial, next(self._pushes), account))
            else:
                return account
        return None

    def _leave(self, account: TenantShare[T], where: int) -> None:
        if account.where == QUEUED:
            self._queued -= 1
        account.where = where

    def _uncap(self) -> None:
        """Let tenants in again that held too much."""
        for account in self._capped:
            if account.where == CAPPED:
                level = min(self._passed, account.tag + self._gained)
                account.tag = max(account.tag, level)
                self._push(account)
        self._capped.clear()

    # Taking

    def take(
        self,
        most: int,
        now: datetime,
        admit: Admit[T] = everyone,
        freely: Freely = nobody,
        at_once: AdmitFirst[T] = none_at_once,
        *,
        urgent: bool = False,
        evicting: bool = False,
    ) -> list[T]:
        ages = Ages(late=now - self._half_of_bound, lost=now - self._bound)
        if urgent:
            return self._take_urgent(most, ages, admit, evicting=evicting)
        taken: list[T] = []
        shares, asks_nobody = self._is_shared(), admit is everyone
        if self._freed:
            self._freed = False
            self._uncap()
        while len(taken) < most and (account := self._first()) is not None:
            if (bounded := shares and self._has_others(account.tenant_id)) and self._is_full():
                break  # for all the others as well, however many they are
            heappop(self._heap)
            self._leave(account, NOWHERE)
            before = account.lanes.ready
            limit = self._limit(account, most - len(taken))
            asked = everyone if asks_nobody or freely(account.tenant_id) else admit
            taken += self._serve(account, limit, ages, asked, at_once, bounded=bounded)
            self._size += account.lanes.ready - before
        return taken

    def _limit(self, account: TenantShare[T], most: int) -> int:
        """How many it may take until it is the turn of the next."""
        following = self._first()
        if following is None:
            return most
        return account.affords(following.tag, most, ties=account.serial < following.serial)

    def _serve(
        self, account: TenantShare[T], most: int, ages: Ages, admit: Admit[T],
        at_once: AdmitFirst[T], *, bounded: bool,
    ) -> list[T]:  # fmt: skip
        """Take from one tenant, which is not in the heap meanwhile."""
        lanes = account.lanes
        taken: list[T] = []
        while lanes.ready and (left := most - len(taken)):
            if bounded and not (left := min(left, self._may_hold(account))):
                self._cap(account)
                return taken
            may_be_critical = lanes.lanes & _ONLY_CRITICAL
            if more := lanes.take(left, ages, admit, at_once=at_once):
                taken += more
                tag = account.tag
                lanes_of = [entry.lane for entry in more] if may_be_critical else []
                passed = self._hold(account, len(more), lanes_of.count(Lane.CRITICAL))
                if self._capped:
                    self._passed = max(self._passed, passed)
                    self._gained += account.tag - tag
        if lanes.ready:
            self._push(account)
        return taken

    def _cap(self, account: TenantShare[T]) -> None:
        """Set a tenant aside that holds all that it may."""
        if not self._capped:
            self._passed, self._gained = _NOBODY, 0.0
        self._leave(account, CAPPED)
        self._capped.append(account)

    def _hold(self, account: TenantShare[T], count: int, critical: int) -> float:
        """Gives the tag before the last of them."""
        passed = account.hold(count, critical)
        self._critical += critical
        self._held += count - critical
        if account.tag > self._highest:
            self._highest = account.tag
        return passed

    def _take_urgent(self, most: int, ages: Ages, admit: Admit[T], *, evicting: bool) -> list[T]:
        """The same order between tenants, among those that have something CRITICAL."""
        taken: list[T] = []
        tried = [(account.tag, account.serial, account) for account in self._urgent.values()]
        heapify(tried)
        while len(taken) < most and tried:
            account = tried[0][2]
            lanes = account.lanes
            if not lanes.lanes & _ONLY_CRITICAL:
                heappop(tried)
                del self._urgent[account.tenant_id]
                continue
            if not evicting and not self.allows(account.tenant_id, Lane.CRITICAL):
                if self._is_full(urgent=True):
                    break
                heappop(tried)
                continue
            before = lanes.ready
            if entries := lanes.take(1, ages, admit, _ONLY_CRITICAL):
                taken += entries
                self._hold(account, 1, 1)
                heapreplace(tried, (account.tag, account.serial, account))
            self._size += lanes.ready - before
            if not lanes.ready:
                self._leave(account, NOWHERE)
        return taken

    # Slots

    def must_share(self, tenant_id: str) -> bool:
        return self._is_shared() and self._has_others(tenant_id)

    def _is_shared(self) -> bool:
        """Whether who has others beside it may hold only a part of the slots."""
        return self._slots is not None and self._slots.share < 1

    def _is_full(self, *, urgent: bool = False) -> bool:
        """Whether not even one that holds nothing may hold a slot, where it has others."""
        slots = self._slots
        if slots is None or slots.room(0, self._held, self._critical):
            return False
        return not urgent or not slots.urgent_room(0, self._critical)

    def _may_hold(self, account: TenantShare[T]) -> int:
        assert self._slots is not None
        return self._slots.room(account.held, self._held, self._critical)

    def allows(self, tenant_id: str, lane: Lane) -> bool:
        account = self._account(tenant_id)
        if not self.must_share(account.tenant_id) or self._may_hold(account):
            return True
        assert self._slots is not None
        return lane == _CRITICAL and self._slots.urgent_room(account.critical, self._critical)

    def offers(self) -> bool:
        return self._queued > 0 or (self._freed and bool(self._capped))

    def started(self, tenant_id: str, lane: Lane) -> None:
        self._hold(self._account(tenant_id), 1, 1 if lane == _CRITICAL else 0)

    def ended_all(self, ends: Iterable[End]) -> None:
        ends = list(ends)
        tenants = [tenant_id for tenant_id, _, _ in ends]
        for tenant_id, batch in by_tenant(tenants, ends).items():
            critical = [lane for _, lane, _ in batch].count(Lane.CRITICAL)
            self._release(self._account(tenant_id), [ran for _, _, ran in batch], critical)

    def _release(
        self, account: TenantShare[T], seconds: Sequence[float | None], critical: int
    ) -> None:
        account.release(seconds, critical)
        self._critical -= critical
        self._held -= len(seconds) - critical
        self._freed = True
        if account.where == QUEUED and account.tag < account.key:
            self._push(account)

    def runs(self, seconds: Iterable[tuple[str, float]]) -> None:
        running: dict[str, list[float]] = defaultdict(list)
        for tenant_id, ran in seconds:
            running[tenant_id].append(ran)
        for account in self._accounts.values():
            account.weight = max(self._weight(account.tenant_id), LEAST_WEIGHT)
            account.runs(running.get(account.tenant_id, []))
            self._highest = max(self._highest, account.tag)
            if account.where == QUEUED and account.tag < account.key:
                self._push(account)
        self._forget_idle()

    def _forget_idle(self) -> None:
        """An idle tenant that owes nothing is one that was never seen."""
        now = self._now()
        idle = [i for i, a in self._accounts.items() if a.is_idle and a.tag <= now]
        for tenant_id in idle:
            del self._accounts[tenant_id]
            self._urgent.pop(tenant_id, None)

    # What waits

    def waiting(self, tenant_id: str, lane: Lane, flow: int) -> int:
        account = self._accounts.get(tenant_id)
        return 0 if account is None else account.lanes.waiting(lane, flow)

    def depths(self) -> Mapping[Lane, int]:
        depths = dict.fromkeys(Lane, 0)
        for account in self._accounts.values():
            for lane, number in account.lanes.depths():
                depths[lane] += number
        return depths

    def longest_waits(self, now: datetime) -> Mapping[Lane, float]:
        oldest = dict.fromkeys(Lane, now)
        for account in self._accounts.values():
            for lane, due_at in account.lanes.oldest():
                if due_at < oldest[lane]:
                    oldest[lane] = due_at
        return {lane: (now - due_at).total_seconds() for lane, due_at in oldest.items()}

    def drop_aside(self, kept: int, most: int) -> list[T]:
        account = max(self._accounts.values(), key=_aside, default=None)
        if account is None or _aside(account) <= kept:
            return []
        return account.lanes.drop_aside(most)

    def clear(self) -> list[T]:
        cleared = []
        for account in self._accounts.values():
            cleared += account.lanes.clear()
            account.where = NOWHERE
        self._heap.clear()
        self._capped.clear()
        self._urgent.clear()
        self._queued = self._size = 0
        return cleared

    def __len__(self) -> int:
        return self._size


def _aside(account: TenantShare[T]) -> int:
    """How many entries of a tenant are set aside."""
    return account.lanes.held_back
