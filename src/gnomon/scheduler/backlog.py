"""Reads each flow by itself while more is due than fits into memory.

The scanner reads in the order of time, so what one tenant has left due by the million would hide
what others have behind it. While that is so, the first due tasks of every flow are read as well,
each from where it was left. The ready queue has something of everybody then, and can be fair.

To find the flows, the dead index entries at the head of each are walked, which an old snapshot can
make very many. So flows are looked for as often as that takes a small part of the time, and what is
dead of those that are known is not walked again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from gnomon.clock import Clock
from gnomon.model.pool import Territory, Work
from gnomon.scheduler.agenda import Agenda
from gnomon.scheduler.reach import SLACK
from gnomon.store.port import (
    BEGINNING,
    LOWEST_ID,
    DispatchStore,
    Entry,
    FlowCursor,
    FlowKey,
)

MOST_FLOWS = 2000  # looked at in one pass; the next one goes on from there
# A look for flows that takes longer than this, and this for each of them, is followed by a rest, so
# many times as long.
_LONG_SECONDS, _LONG_EACH, _REST = 0.02, 0.0001, 10


class Backlog:
    """Keeps up to `room` entries on the agenda that the scanner alone would not get to."""

    def __init__(self, store: DispatchStore, agenda: Agenda, clock: Clock, room: int) -> None:
        self._store = store
        self._agenda = agenda
        self._clock = clock
        self._room = room
        self._read: dict[FlowKey, Entry] = {}  # the last entry that was read of each flow
        self._first: dict[FlowKey, datetime] = {}  # before it, nothing of a flow waits
        self._last: FlowKey | None = None  # where the last pass ended
        self._found: list[tuple[FlowKey, Work]] = []
        self._look_at = float("-inf")  # for flows, again
        self.each = room  # entries of one flow at most

    def reset(self) -> None:
        """Forget how far was read: there is no backlog any more."""
        self.read_anew()
        self._last = None

    def start_over(self) -> None:
        """Forget what is known of the flows: another part of them is to be read."""
        self.reset()
        self._first.clear()
        self._look_at = float("-inf")

    def read_anew(self) -> None:
        """Entries were dropped: read every flow from its beginning, when its turn comes."""
        self._read.clear()

    async def read(self, own: Territory) -> list[Entry]:
        """The next entries of the flows that have few here."""
        # The last places are for hints: what comes in now must not wait for its flow's turn.
        room = min(self._room, self._agenda.room() - self._room // 2)
        if room < 1:
            return []
        found = await self._flows(typed=not own.is_whole)
        shards = {flow: of for flow, work in found if (of := own.shards_of(work))}
        flows = list(shards)
        if not flows:
            return []
        self.each = max(1, self._room // len(flows))
        hungry = [cursor for flow in flows if (cursor := self._cursor(flow)) is not None]
        if not hungry:
            return []
        if len(hungry) > room:  # of flows there are more than fit: go on with the rest
            hungry = hungry[:room]
            self._last = hungry[-1].key
        asked_at = self._clock.now()
        entries = await self._heads(hungry, shards)
        self._note(hungry, entries, asked_at - SLACK)
        return entries

    async def _flows(self, *, typed: bool) -> list[tuple[FlowKey, Work]]:
        """The flows that have waiting tasks, as of a moment ago."""
        began = self._clock.monotonic()
        if began < self._look_at:
            return self._found
        self._found = await self._store.flows(self._last, MOST_FLOWS, typed=typed)
        ended = self._clock.monotonic()
        took = ended - began
        is_long = took > _LONG_SECONDS + _LONG_EACH * len(self._found)
        self._look_at = ended + (_REST * took if is_long else 0.0)
        self._last = self._found[-1][0] if len(self._found) == MOST_FLOWS else None
        if len(self._read) + len(self._first) > 8 * MOST_FLOWS:
            self._read.clear()  # most of them will have ended
            self._first.clear()
        return self._found

    def _note(self, read: Sequence[FlowCursor], entries: Sequence[Entry], asked: datetime) -> None:
        for entry in entries:  # in the order of time within each flow
            flow = FlowKey(entry.key.tenant_id, entry.lane, entry.flow)
            if flow not in self._read:
                self._first[flow] = entry.due_at
            self._read[flow] = entry
        for cursor in read:
            if cursor.key not in self._read:  # it was read from its beginning: there is nothing
                self._first[cursor.key] = max(cursor.due_at, asked)

    async def _heads(
        self, hungry: Sequence[FlowCursor], shards: Mapping[FlowKey, frozenset[int]]
    ) -> list[Entry]:
        """Where others serve part of a flow's shards, it is read by itself."""
        together: dict[frozenset[int], list[FlowCursor]] = {}
        for cursor in hungry:
            together.setdefault(shards[cursor.key], []).append(cursor)
        entries = []
        for of, cursors in together.items():
            entries += await self._store.heads(cursors, of)
        return entries

    def _cursor(self, flow: FlowKey) -> FlowCursor | None:
        """From where to read how many; None: there are enough."""
        wanted = self.each - self._agenda.waiting(flow.tenant_id, flow.lane, flow.flow)
        if wanted <= self.each // 2:
            return None
        last = self._read.get(flow)
        if last is None:
            return FlowCursor(flow, self._first.get(flow, BEGINNING), LOWEST_ID, wanted)
        return FlowCursor(flow, last.due_at, last.key.id, wanted)
