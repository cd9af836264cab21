"""Reads the near future of the owned shards into the agenda.

Forward: each shard has a cursor, and what lies behind it has been read. Repair: a cursor alone
never sees rows that commit late, are written by plain SQL, or wait again after a retry; so the
last stretch behind the cursors is read again and again, as far back as what has ended since the
last time may have brought such a row (`gnomon.node.ahead.reach`). Now and then everything is. While
more is due than fits, the backlog's flows are read beside (`gnomon.node.ahead.backlog`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from operator import attrgetter

import msgspec

from gnomon.clock import Clock
from gnomon.model.fleet.pool import EVERYTHING, Territory
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.task import TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.backlog import Backlog
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.node.ahead.pool_answers import PoolAnswers
from gnomon.node.ahead.reach import Reach
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import BEGINNING, Cursor, DispatchStore, Entry
from gnomon.store.ports.work.tasks import HIGHEST_ID, LOWEST_ID
from gnomon.store.ports.work.writer import Writer

# What a repair looks ahead: by the time that the next stretch begins, which is up to three seconds
# later, all before this has been seen.
_REPAIR_AHEAD = timedelta(seconds=4)
# What was stored just now was stored no longer ago than this, as a rule.
_JUST_NOW = timedelta(seconds=2)
_OVERLAP = timedelta(seconds=0.2)  # of two looks: a commit takes its time
# A stretch behind the cursors that takes more parts than fit in here is left to the forward scan.
_LONGEST_STRETCH = timedelta(seconds=2)
# Entries read in one go. Taking in more would hold up all else for a tenth of a second; and what is
# due can start while the rest is read.
_AT_ONCE = 8_000
_DUE_AT = attrgetter("due_at")


class ScanResult(msgspec.Struct, frozen=True):
    """How many entries a pass read, and how many of them were new."""

    read: int = 0
    new: int = 0


class Scanner:
    """Keeps the agenda filled. Call `run_once` often; it does what is due of the three passes."""

    def __init__(
        self,
        store: DispatchStore,
        agenda: Agenda,
        clock: Clock,
        settings: NodeSettings,
        flows: FlowBook | None = None,
        unsure: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._agenda = agenda
        self._clock = clock
        self._horizon = timedelta(seconds=settings.horizon_seconds)
        # The forward scan leaves a quarter of the window to hints, repairs and the flows of a
        # backlog, so that no backlog can shut out what comes in now.
        self._window = settings.window
        self._forward_window = settings.window * 3 // 4
        self._reserve = max(1, settings.window // 8)
        self._backlog = Backlog(store, agenda, clock, self._reserve)
        self._cursors: dict[int, Cursor] = {}
        self.territory = Territory()
        self._by_kind = True  # shards and kind are all that decides what is its own
        self._asks = (False, False)  # for the type: of a webhook, of what a handler runs
        self._flows = FlowBook() if flows is None else flows
        self._answers = PoolAnswers(EVERYTHING, self._flows)
        self._unsure = unsure  # called where a hint may or may not be for this node
        self._reach = Reach()
        self._looked_at = BEGINNING
        self._untouched = False  # nothing was ever read, so there is nothing to be repaired
        self._dropped = False  # something that was read before, since the last look everywhere
        self.behind = True  # more is due than was read
        self._reading = asyncio.Lock()  # two readers at one cursor would read everything twice
        # Since the reader's statement has begun: it may have seen these as they were before.
        self._claimed: set[TaskKey] = set()

    def own(self, territory: Territory) -> None:
        """Serve this from now on; shards that are new, or hold more, are read from their
        beginning."""
        before, self.territory = self.territory, territory
        pool = territory.pool
        self._by_kind = territory.is_by_kind
        self._answers = PoolAnswers(pool, self._flows)
        self._asks = pool.asks_for_type(by_handler=False), pool.asks_for_type(by_handler=True)
        kept = {
            shard: cursor
            for shard, cursor in self._cursors.items()
            if shard in territory.shards and before.others.get(shard) == territory.others.get(shard)
        }
        if before.pool != pool:  # a gateway's, which changes with its sessions
            kept = {}
        self._reach.retain(kept)
        for shard in territory.shards - kept.keys():
            kept[shard] = Cursor(shard, BEGINNING, LOWEST_ID)
        self._cursors = kept
        self.behind = True
        self._agenda.retain(self.own_of)
        self._backlog.reset()
        # A read that is under way moves the new cursors, too.
        self._untouched = not before.shards and not self._reading.locked()
        # A node that leaves releases what it had claimed, also of shards that were ours already.
        self.look_everywhere()

    def look_everywhere(self) -> None:
        """Let the next repair read everything: something waits again that was due long ago."""
        self._reach.look_everywhere()

    def start_over(self) -> None:
        """Find anew what is due: most of what was ready here has been taken by others."""
        self.behind = True
        self._agenda.forget_ready()
        self._backlog.reset()
        self.look_everywhere()

    def hinted(self, entries: Iterable[Entry], *, due: bool = False) -> int:
        """Take hints about owned shards; what does not fit is found by a repair. Where little
        fits, it is kept for flows that have little here. `due`: see `Agenda.add`."""
        room = self._agenda.room()
        if room <= 0:
            return 0
        own = self._surely_own(entries)
        if room > self._reserve:
            return self._agenda.add(own, due=due)
        few = self._backlog.each
        waiting = self._agenda.waiting
        return self._agenda.add(e for e in own if waiting(e.key.tenant_id, e.lane, e.flow) < few)

    def claimed(self, keys: Collection[TaskKey]) -> None:
        """These have left the agenda; whoever reads just now may not know it. Beyond the size of
        the agenda they are not kept: they are then chosen once more, and not claimed."""
        if self._reading.locked() and len(self._claimed) < self._window:
            self._claimed.update(keys)

    def own_of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Entries of the work that this node owns, as far as is known of their flows."""
        if self.territory.others:
            return [e for e in entries if self._may_own(e)]
        if not self._by_kind:
            return self._own_of_pool(entries)
        if self.territory.pool != EVERYTHING:
            serves = self.territory.pool.kinds
            entries = [e for e in entries if serves[e.by_handler]]
        owned = self._cursors
        if len(owned) == SHARDS:
            return list(entries)
        return [e for e in entries if shard_of(e.key.id) in owned]

    def still_own(self, entries: list[Entry]) -> list[Entry]:
        """Entries of the agenda that have not turned out to be for others: it holds only what is
        in the pool, but where others go first, the flow of some was not known."""
        return self.own_of(entries) if self.territory.others else entries

    def _own_of_pool(self, entries: Iterable[Entry]) -> list[Entry]:
        """Where nobody goes first in any shard, each flow is in the pool, or it is not."""
        shards, may_accept = self.territory.shards, self._answers.may_accept
        entries = list(entries)
        flows = [(e.key.tenant_id, e.lane, e.flow, e.by_handler) for e in entries]
        accepted = {
            flow
            for flow, entry in dict(zip(flows, entries, strict=True)).items()
            if entry.flow != UNKNOWN_FLOW and may_accept(entry)
        }
        if not accepted.issuperset(flows):
            entries = [
                e
                for flow, e in zip(flows, entries, strict=True)
                if flow in accepted or (e.flow == UNKNOWN_FLOW and may_accept(e))
            ]
        if len(shards) == SHARDS:
            return entries
        return [e for e in entries if shard_of(e.key.id) in shards]

    def _may_own(self, entry: Entry) -> bool:
        return self.territory.may_own(shard_of(entry.key.id), self._answers.work_of(entry))

    def _surely_own(self, entries: Iterable[Entry]) -> list[Entry]:
        """Hints of unknown flows are left to a repair, which asks for what this node serves."""
        own = self.own_of(entries)
        asks = self._asks
        if not any(asks):
            return own
        known = [e for e in own if not asks[e.by_handler] or self._flows.find(e) is not None]
        if len(known) < len(own):
            self._unsure()
        return known

    async def forward(self) -> ScanResult:
        """Read on from the cursors, as far as the horizon and the window allow."""
        async with self._reading:
            self._make_room()
            result, all_read = await self._forward()
            self.behind = not all_read or self._dropped
            if not self.behind:
                self._backlog.reset()
                return result
            self._claimed.clear()
            heads = self._take_in(await self._backlog.read(self.territory))
            return ScanResult(result.read + heads.read, result.new + heads.new)

    def _make_room(self) -> None:
        """One tenant's flows that may not start, if they are very many, must not keep out what
        may. Those that are dropped here are read again as the flows of a backlog are."""
        room = self._agenda.room()
        if room > self._reserve // 2:
            return
        if self._agenda.make_room(kept=self._reserve, most=self._reserve - room):
            self._dropped = True
            self._backlog.read_anew()

    async def _forward(self) -> tuple[ScanResult, bool]:
        """Read on; gives what was read, and whether that was all up to the horizon."""
        room = self._forward_window - len(self._agenda)
        cursors = list(self._cursors.values())
        if not cursors:
            return ScanResult(), True
        # A handful of entries is not worth a probe of every shard.
        if room < self._forward_window // 8:
            return ScanResult(), False
        if self._untouched:
            await self._begin()
        until = self._clock.now() + self._horizon
        each = max(1, min(room, _AT_ONCE) // len(cursors))
        self._claimed.clear()
        entries = await self._store.scan(cursors, until, each, self.territory)
        counts, last = _ends(entries)
        all_read = True
        for cursor in cursors:
            if cursor.shard not in self._cursors:
                continue
            if counts[cursor.shard] == each:
                all_read = False
                self._cursors[cursor.shard] = _at(cursor.shard, last[cursor.shard])
            elif until > cursor.due_at:
                self._cursors[cursor.shard] = Cursor(cursor.shard, until, HIGHEST_ID)
        return self._take_in(entries), all_read

    async def _begin(self) -> None:
        """All that can be seen from now on is ahead of the cursors: as if a repair had read it."""
        asked_at = self._clock.monotonic()
        self._reach.looking_everywhere(asked_at)
        writers, now = await self._store.open_writers()
        self._clock.observe(now, asked_at)
        self._reach.done(writers, now)
        self._looked_at = now
        self._untouched = False

    async def look(self) -> ScanResult:
        """Read what was stored just now, of which somebody told who could not name it. What was
        longer on its way to its commit is left to a repair."""
        async with self._reading:
            if self._reach.is_everywhere(self._clock.monotonic()):
                return await self._repair()
            now = self._clock.now()
            since = max(self._looked_at - _OVERLAP, now - _JUST_NOW)
            result = await self._look(since, now)
            self._looked_at = now
            return result

    async def _look(self, since: datetime, now: datetime) -> ScanResult:
        cursors = list(self._cursors.values())
        each = self._each(cursors)
        if each < 1:
            return ScanResult()
        self._claimed.clear()
        until = now + _REPAIR_AHEAD
        entries = await self._store.repair(
            cursors, [since] * len(cursors), until, each, self.territory
        )
        for shard, entry in _cut_off(entries, each).items():
            self._go_back(shard, entry)
        return self._take_in(entries)

    def _each(self, cursors: Collection[Cursor]) -> int:
        """Entries to be read behind each cursor; 0: nothing fits."""
        room = self._agenda.room()
        return max(1, min(room, _AT_ONCE) // len(cursors)) if cursors and room > 0 else 0

    async def repair(self) -> ScanResult:
        """Read again what lies shortly behind the cursors; now and then, all that lies there."""
        async with self._reading:
            return await self._repair()

    async def _repair(self) -> ScanResult:
        cursors = list(self._cursors.values())
        each = self._each(cursors)
        if each < 1:
            return ScanResult()  # `since` stays, so nothing is skipped
        asked_at = self._clock.monotonic()
        writers, now = await self._store.open_writers()
        self._clock.observe(now, asked_at)  # an idle node would part from the database's clock
        self._claimed.clear()
        if self._reach.is_everywhere(asked_at):
            entries = await self._read_everything(cursors, self._reach.since(writers), now, each)
            for shard, entry in _cut_off(entries, each).items():
                self._go_back(shard, entry)
            self._reach.done(writers, now)
        else:
            entries = await self._read_stretch(writers, now)
        return self._take_in(entries)

    async def _read_stretch(self, writers: frozenset[Writer], now: datetime) -> list[Entry]:
        """Read on behind the cursors, or begin again where all of it has been read."""
        since = self._reach.stretch(self._cursors, writers, now)
        cursors = [self._cursors[shard] for shard in since]
        each = self._each(cursors)
        if each < 1:
            return []  # hints have come meanwhile, and nothing fits any more: the stretch stays
        is_long = self._reach.lasts(now) > _LONGEST_STRETCH
        entries = await self._store.repair(
            cursors, list(since.values()), now + _REPAIR_AHEAD, each, self.territory
        )
        fresh = self._shards_with_new(entries)
        rest = {}
        for shard, entry in _cut_off(entries, each).items():
            # The next repair goes on from a moment: where many share one, that would lead nowhere.
            if shard in fresh or is_long or entry.due_at <= since[shard]:
                self._go_back(shard, entry)
            else:
                rest[shard] = entry.due_at
        self._reach.read(rest)
        return entries

    def _shards_with_new(self, entries: list[Entry]) -> set[int]:
        """Shards of which something was read that is neither known nor has just been claimed."""
        knows, claimed = self._agenda.knows, self._claimed
        own = self.own_of(entries)
        return {shard_of(e.key.id) for e in own if not knows(e.key) and e.key not in claimed}

    def _go_back(self, shard: int, entry: Entry) -> None:
        """More lies behind the cursor than fits: the forward scan goes on from here."""
        if shard in self._cursors:
            self._cursors[shard] = _at(shard, entry)

    async def _read_everything(
        self, cursors: list[Cursor], since: datetime, now: datetime, each: int
    ) -> list[Entry]:
        began = self._clock.monotonic()
        self._reach.looking_everywhere(began)
        self._dropped = False
        territory = self.territory
        try:
            entries = await self._store.repair(
                cursors,
                self._reach.everything(cursors, since),
                now + _REPAIR_AHEAD,
                each,
                territory,
            )
        except BaseException:
            self.look_everywhere()
            raise
        if territory == self.territory:  # else others were left out than would be now
            _, first_read = _ends(entries[::-1])
            first = {shard: entry.due_at for shard, entry in first_read.items()}
            took = self._clock.monotonic() - began
            self._reach.done_everywhere(cursors, first, now, took)
        return entries

    def _take_in(self, entries: list[Entry]) -> ScanResult:
        own = self.own_of(entries)  # what is served may have changed while they were read
        if not self._claimed.isdisjoint([e.key for e in own]):
            own = [e for e in own if e.key not in self._claimed]
        # Shards come one after the other; time must not.
        own.sort(key=_DUE_AT)
        return ScanResult(read=len(entries), new=self._agenda.add(own))


def _cut_off(entries: list[Entry], each: int) -> dict[int, Entry]:
    """The last entry of each shard that may have more, as so many were asked for."""
    counts, last = _ends(entries)
    return {shard: last[shard] for shard, number in counts.items() if number == each}


def _ends(entries: list[Entry]) -> tuple[Counter[int], dict[int, Entry]]:
    """How many there are of each shard, and the last of each."""
    # As `shard_of`, whose call would take as long as all the rest.
    shards = [e.key.id.bytes[15] for e in entries]
    return Counter(shards), dict(zip(shards, entries, strict=True))


def _at(shard: int, entry: Entry) -> Cursor:
    return Cursor(shard, entry.due_at, entry.key.id)
