"""Suspects that are due, and the room for them in quarantine. Pure."""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator

from gnomon.model.outcomes.quarantine import LARGEST_GROUP, group_size
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry

_TRIED = 20  # at once, in vain

Fits = Callable[[Entry], bool]


class SuspectQueue:
    """Due suspects, by tenant, each tenant in turn."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, deque[Entry]] = OrderedDict()
        self.all_refused = False  # as many as were last tried

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._tenants.values())

    def __bool__(self) -> bool:
        return bool(self._tenants)

    def __iter__(self) -> Iterator[Entry]:
        for entries in self._tenants.values():
            yield from entries

    @property
    def tenants(self) -> Collection[str]:
        return self._tenants.keys()

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._tenants.setdefault(entry.key.tenant_id, deque()).append(entry)
            self.all_refused = False

    def put_back(self, entry: Entry) -> None:
        self._tenants.setdefault(entry.key.tenant_id, deque()).appendleft(entry)
        self.all_refused = False

    def take(self, most: int, fits: Fits) -> list[Entry]:
        """Up to so many that fit. What does not goes behind the others of its tenant, which may be
        of another flow."""
        taken: list[Entry] = []
        refused = 0
        while len(taken) < most and refused < min(_TRIED, len(self)):
            tenant_id, entries = next(iter(self._tenants.items()))
            entry = entries.popleft()
            if fits(entry):
                taken.append(entry)
                refused = 0
            else:
                entries.append(entry)
                refused += 1
            self._tenants.move_to_end(tenant_id)
            if not entries:
                del self._tenants[tenant_id]
        self.all_refused = not taken and refused > 0
        return taken

    def replace(self, entries: Iterable[Entry]) -> None:
        """Hold these, and no others."""
        kept = list(entries)
        self._tenants.clear()
        self.add(kept)


class SuspectRoom:
    """Room in quarantine: how many suspects may be claimed, so that none of them waits in a slot.

    A suspect takes as much of a process as it must have for itself. A tenant has at most an even
    share, counted as if there were one tenant more, so that there is room for the next one too.
    """

    def __init__(
        self, processes: int, slots: int, is_open: Callable[[], bool] = lambda: True
    ) -> None:
        self._parts = processes * LARGEST_GROUP
        self._most = max(1, slots // 2)  # or there would be none left for others
        self._is_open = is_open
        self.held: dict[TaskKey, int] = {}  # what each takes, in parts of a process
        self._used = 0
        self._by_tenant: dict[str, int] = {}

    def has_room(self) -> bool:
        return self._used < self._parts and len(self.held) < self._most and self._is_open()

    def allows(self, key: TaskKey, losses: int, waiting: Collection[str] = ()) -> bool:
        """Whether one more may be claimed; `waiting`: the tenants that have suspects."""
        parts = LARGEST_GROUP // group_size(losses)
        if not self.has_room() or self._used + parts > self._parts:
            return False
        own = self._by_tenant.get(key.tenant_id, 0)
        tenants = len({*self._by_tenant, *waiting, key.tenant_id})
        return own == 0 or (own + parts) * (tenants + 1) <= self._parts

    def take(self, key: TaskKey, losses: int) -> None:
        self.release(key)
        parts = LARGEST_GROUP // group_size(losses)
        self.held[key] = parts
        self._used += parts
        self._by_tenant[key.tenant_id] = self._by_tenant.get(key.tenant_id, 0) + parts

    def release(self, key: TaskKey) -> None:
        parts = self.held.pop(key, None)
        if parts is None:
            return
        self._used -= parts
        left = self._by_tenant[key.tenant_id] - parts
        if left:
            self._by_tenant[key.tenant_id] = left
        else:
            del self._by_tenant[key.tenant_id]
