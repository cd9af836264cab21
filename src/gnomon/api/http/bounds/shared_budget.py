"""A budget of bytes or places that tenants share fairly, with a queue for each tenant."""

import asyncio
from collections.abc import Hashable

_NOTHING = ("", 0)  # what nobody's holder has


class Waiter:
    """A request for a part of the budget; `admitted` is done once it is granted."""

    __slots__ = ("admitted", "holder", "size", "tenant_id")

    def __init__(self, holder: Hashable, tenant_id: str, size: int) -> None:
        self.holder = holder
        self.tenant_id = tenant_id
        self.size = size
        self.admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class SharedBudget:
    """A number of bytes or places, of which no tenant may hold more than a share."""

    def __init__(self, most: int, share: int) -> None:
        self.free = most
        self._most = most
        self._share = share
        self._held: dict[Hashable, tuple[str, int]] = {}
        self._tenants: dict[str, int] = {}
        self._lines: dict[str, dict[Waiter, None]] = {}

    @property
    def held(self) -> int:
        return self._most - self.free

    def of(self, holder: Hashable) -> int:
        """The amount that a holder has."""
        return self._held.get(holder, _NOTHING)[1]

    def over_share(self, tenant_id: str, size: int) -> int:
        """By how much the tenant would exceed its share with `size` more."""
        return max(self._tenants.get(tenant_id, 0) + size - self._share, 0)

    def try_take(self, holder: Hashable, tenant_id: str, size: int) -> bool:
        """Takes `size` if it is free and nobody waits; returns whether it did."""
        if self._lines or size > self.free:
            return False
        taken = self._tenants.get(tenant_id, 0) + size
        if taken > self._share:
            return False
        self.free -= size
        self._held[holder] = tenant_id, self.of(holder) + size
        self._tenants[tenant_id] = taken
        return True

    def join(self, waiter: Waiter) -> None:
        """Queues a waiter behind the others of its tenant."""
        self._lines.setdefault(waiter.tenant_id, {})[waiter] = None
        self._admit()

    def leave(self, waiter: Waiter) -> None:
        """Removes a waiter, admitted or not."""
        line = self._lines.get(waiter.tenant_id)
        if line is not None and line.pop(waiter, waiter) is None:
            if not line:
                del self._lines[waiter.tenant_id]
            self._admit()

    def is_first(self, waiter: Waiter) -> bool:
        line = self._lines.get(waiter.tenant_id)
        return line is not None and next(iter(line)) is waiter

    def give_back(self, holder: Hashable, keep: int = 0) -> None:
        """Frees what a holder has, or all but `keep` of it. Safe for one that has nothing."""
        tenant_id, size = self._held.pop(holder, _NOTHING)
        if not size:
            return
        self.free += size
        left = self._tenants[tenant_id] - size
        if left:
            self._tenants[tenant_id] = left
        else:
            del self._tenants[tenant_id]
        if keep:
            self._take(holder, tenant_id, min(keep, size))
        if self._lines:
            self._admit()

    def _take(self, holder: Hashable, tenant_id: str, size: int) -> None:
        self.free -= size
        self._held[holder] = tenant_id, self.of(holder) + size
        self._tenants[tenant_id] = self._tenants.get(tenant_id, 0) + size

    def _admit(self) -> None:
        """Admits waiters; the tenant that holds least goes first. While its part is not free,
        nobody overtakes it: otherwise small requests would starve large ones."""
        while self._lines:
            able = [t for t, line in self._lines.items() if not self._exceeds(t, line)]
            if not able:
                return
            tenant_id = min(able, key=lambda each: self._tenants.get(each, 0))
            line = self._lines[tenant_id]
            waiter = next(iter(line))
            if waiter.size > self.free:
                return
            del line[waiter]
            if not line:
                del self._lines[tenant_id]
            self._take(waiter.holder, tenant_id, waiter.size)
            if not waiter.admitted.done():
                waiter.admitted.set_result(None)

    def _exceeds(self, tenant_id: str, line: dict[Waiter, None]) -> bool:
        return self.over_share(tenant_id, next(iter(line)).size) > 0
