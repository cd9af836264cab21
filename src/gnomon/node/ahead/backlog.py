"""Reads each flow by itself while more is due than fits into memory.

The scanner reads in the order of time, so what one tenant has left due by the million would hide
what others have behind it. While that is so, the first due tasks of every flow are read as well,
each from where it was left. The ready queue has something of everybody then, and can be fair.

A backlog that is worked off leaves dead index entries at the head of its flow, which are walked
until they are vacuumed, and an old snapshot keeps them from that. So what is known to be dead of a
flow is not walked again; and if a look for flows takes long all the same, the next one has to wait.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from gnomon.clock import Clock
from gnomon.model.fleet.pool import Territory, Work
from gnomon.model.tasks.priority import Lane
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.reach import SLACK
from gnomon.store.ports.dispatch import (
    BEGINNING,
    DispatchStore,
    Entry,
    FlowCursor,
    FlowKey,
    WaitingFlow,
)
from gnomon.store.ports.work.tasks import LOWEST_ID

MOST_FLOWS = 2000  # looked at in one pass; the next one goes on from there
# A look for flows that takes longer than this, and this for each of them, is followed by a rest, so
# many times as long.
_LONG_SECONDS, _LONG_EACH, _REST = 0.02, 0.0005, 10


class Backlog:
    """Keeps up to `room` entries on the agenda that the scanner alone would not get to."""

    def __init__(self, store: DispatchStore, agenda: Agenda, clock: Clock, room: int) -> None:
        self._store = store
        self._agenda = agenda
        self._clock = clock
        self._room = room
        self._read: dict[FlowKey, Entry] = {}  # the last entry that was read of each flow
        self._first: dict[FlowKey, datetime] = {}  # before it, nothing of a known flow waits
        self._last: FlowKey | None = None  # where the last pass ended
        self._found: list[WaitingFlow] = []
        self._look_at = float("-inf")  # for flows, again
        self.each = room  # entries of one flow at most

    def reset(self) -> None:
        """Forget how far was read: there is no backlog any more, or it is another one."""
        self.read_anew()
        self._last = None

    def read_anew(self) -> None:
        """Entries were dropped: read every flow from its beginning, when its turn comes."""
        self._read.clear()

    async def read(self, own: Territory) -> list[Entry]:
        """The next entries of the flows that have few here."""
        # The last places are for hints: what comes in now must not wait for its flow's turn.
        room = min(self._room, self._agenda.room() - self._room // 2)
        if room < 1:
            return []
        found = await self._flows()
        shards: dict[FlowKey, frozenset[int]] = {}
        works: list[tuple[FlowKey, Work]] = []
        for flow in found:
            if flow.work is not None and (of := own.shards_of(flow.work)):
                shards[flow.key] = of
                works.append((flow.key, flow.work))
        if not works:
            return []
        self.each = max(1, self._room // len(works))
        hungry = [c for flow in works if (c := self._cursor(*flow)) is not None]
        if not hungry:
            return []
        if len(hungry) > room:  # of flows there are more than fit: go on with the rest
            hungry = hungry[:room]
            self._last = hungry[-1].key
        entries = await self._heads(hungry, shards)
        for entry in entries:  # in the order of time within each flow
            self._read[FlowKey(entry.key.tenant_id, entry.lane, entry.flow)] = entry
        return entries

    async def _flows(self) -> list[WaitingFlow]:
        """The flows that have waiting tasks, as of a moment ago."""
        began = self._clock.monotonic()
        if began < self._look_at:
            return self._found
        if len(self._first) > 4 * MOST_FLOWS:  # most of them will have ended
            self._read.clear()
            self._first.clear()
        asked, after = self._clock.now() - SLACK, self._last
        found = await self._store.flows(after, MOST_FLOWS, self._first)
        ended = self._clock.monotonic()
        took = ended - began
        is_long = took > _LONG_SECONDS + _LONG_EACH * len(found)
        self._look_at = ended + (_REST * took if is_long else 0.0)
        self._found = found
        self._last = found[-1].key if len(found) == MOST_FLOWS else None
        self._note(after, asked)
        return found

    def _note(self, after: FlowKey | None, asked: datetime) -> None:
        """Where the known flows begin by now. Of those that were looked at and not found, nothing
        that was due waits any more."""
        for flow, first in self._first.items():
            if (after is None or flow > after) and (self._last is None or flow < self._last):
                self._first[flow] = max(first, asked)
        self._first |= {flow.key: flow.due_at for flow in self._found}

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

    def _cursor(self, flow: FlowKey, work: Work) -> FlowCursor | None:
        """From where to read how many; None: there are enough."""
        wanted = self.each - self._agenda.waiting(flow.tenant_id, Lane(flow.lane), flow.flow)
        if wanted <= self.each // 2:
            return None
        last = self._read.get(flow)
        if last is None:
            first = self._first.get(flow, BEGINNING)
            return FlowCursor(flow, first, LOWEST_ID, wanted, work.by_handler)
        return FlowCursor(flow, last.due_at, last.key.id, wanted, work.by_handler)
