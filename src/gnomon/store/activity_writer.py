"""Writes what a process has counted, every few seconds: apart from the statements that do the work.

The busiest task types have rows of their own, within bounds for a process and for a tenant; all
types together have theirs. So the number of rows is bounded, whatever types there are.
"""

import asyncio
import contextlib
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Protocol

import structlog

from gnomon.model.errors import StoreError
from gnomon.model.insight.activity import ALL_TYPES, ActivityKey, Counts
from gnomon.observe.tally import ActivityTally
from gnomon.store.ports.insight.activity import ActivityRow

log = structlog.get_logger("gnomon.activity")

CHORE = "activity"
EVERY_SECONDS = 5.0
# Keys (type and lane) with rows of their own, of one process and hour: in all, and of one tenant.
MOST_NAMED, MOST_OF_TENANT = 500, 50
MOST_NAME = 200  # characters of a type, as the API takes them
MOST_MINUTES = 15  # that are kept while they cannot be written
MOST_ROWS = 1_000  # of one statement: however much was kept, each is short
_PARTS = 4  # of what is kept, where it is more: one of them at a time

_FINISH_SECONDS = 2.0


class ActivityStore(Protocol):
    """Where activity is added up."""

    async def add(self, rows: list[ActivityRow]) -> None:
        """Add counts to their minutes and hours."""


class ActivityWriter:
    """Takes the counts of a tally, and keeps them until they are written. One whose answer was lost
    is written again, and so counted twice."""

    def __init__(self, tally: ActivityTally, store: ActivityStore) -> None:
        self.tally = tally
        self._store = store
        self._names = NamedKeys(MOST_NAMED, MOST_OF_TENANT)
        self._kept: dict[datetime, dict[ActivityKey, Counts]] = {}

    async def run_once(self) -> int:
        """Gives how many rows were written. Of thousands that is a part: the others are added to
        meanwhile, and a row costs as much whatever it counts."""
        self._look()
        kept = sum(map(len, self._kept.values()))
        return await self._write(max(MOST_ROWS, kept // _PARTS))

    async def finish(self) -> None:
        """Write what is left when the process ends, if the store answers."""
        self._look()
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                while await self._write(MOST_ROWS):
                    pass

    def _look(self) -> None:
        for minute, counts in sorted(self.tally.take().items()):
            self._keep(minute, counts)

    async def _write(self, most: int) -> int:
        """Write so many of the oldest rows."""
        rows = self._take(most)
        written = 0
        try:
            while written < len(rows):
                await self._store.add(rows[written : written + MOST_ROWS])
                written += MOST_ROWS
        except BaseException:
            self._keep_again(rows[written:])
            raise
        return len(rows)

    def _take(self, most: int) -> list[ActivityRow]:
        """Those of the earliest minutes; of one, those that were kept first."""
        rows: list[ActivityRow] = []
        for minute, keyed in sorted(self._kept.items()):
            taken = list(islice(keyed, most - len(rows)))
            rows += [ActivityRow(key, minute, keyed.pop(key)) for key in taken]
            if not keyed:
                del self._kept[minute]
        return rows

    def _keep(self, minute: datetime, counts: Mapping[ActivityKey, Counts]) -> None:
        named = self._names.among(minute.replace(minute=0), counts)
        keyed = self._kept.setdefault(minute, {})
        for key, each in counts.items():
            whole = key._replace(task_type=ALL_TYPES)
            keyed.setdefault(whole, Counts()).add(each)
            if key in named:
                keyed.setdefault(key, Counts()).add(each)
        self._forget_oldest()

    def _keep_again(self, rows: Iterable[ActivityRow]) -> None:
        for row in rows:
            self._kept.setdefault(row.minute, {}).setdefault(row.key, Counts()).add(row.counts)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self._kept) > MOST_MINUTES:
            lost = min(self._kept)
            del self._kept[lost]
            log.warning("counts of activity could not be written, and are lost", minute=lost)


class NamedKeys:
    """Chooses the keys that have rows of their own: the busiest of the hour before, and in the rest
    of the room whichever come first; of those that come together, the busiest."""

    def __init__(self, most: int, most_of_tenant: int) -> None:
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._hour: datetime | None = None
        self._named: set[ActivityKey] = set()
        self._of_tenant: Counter[str] = Counter()
        self._weights: Counter[ActivityKey] = Counter()

    def among(self, hour: datetime, counts: Mapping[ActivityKey, Counts]) -> set[ActivityKey]:
        """Those of the keys that are named in that hour."""
        if self._hour is None or hour > self._hour:
            self._begin(hour)
        weights = Counter({key: each.weight for key, each in counts.items()})
        self._weights.update(weights)
        if len(self._weights) > 8 * self._most:  # all that would ever be chosen, and some more
            self._weights = Counter(dict(self._weights.most_common(4 * self._most)))
        new = (key for key in weights if key not in self._named)
        self._name(sorted(new, key=lambda key: (-weights[key], key)), self._most)
        return self._named & weights.keys()

    def _begin(self, hour: datetime) -> None:
        """A part of the room is left for what is new."""
        self._hour, self._named, self._of_tenant = hour, set(), Counter()
        most = self._most * 3 // 4
        before = heapq.nlargest(self._most, self._weights.items(), key=lambda each: each[1])
        self._name((key for key, _ in before), most)
        self._weights.clear()

    def _name(self, keys: Iterable[ActivityKey], most: int) -> None:
        for key in keys:
            if len(self._named) >= most:
                return
            fits = 0 < len(key.task_type) <= MOST_NAME
            if fits and self._of_tenant[key.tenant_id] < self._most_of_tenant:
                self._named.add(key)
                self._of_tenant[key.tenant_id] += 1
