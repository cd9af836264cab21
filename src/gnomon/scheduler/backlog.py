"""Reads each flow by itself while more is due than fits into memory.

The scanner reads in the order of time, so what one tenant has left due by the million would hide
what others have behind it. While that is so, the first due tasks of every flow are read as well,
each from where it was left. The ready queue has something of everybody then, and can be fair.
"""

from collections.abc import Mapping, Sequence

from gnomon.model.pool import Territory
from gnomon.scheduler.agenda import Agenda
from gnomon.store.port import (
    BEGINNING,
    LOWEST_ID,
    DispatchStore,
    Entry,
    FlowCursor,
    FlowKey,
)

MOST_FLOWS = 2000  # looked at in one pass; the next one goes on from there


class Backlog:
    """Keeps up to `room` entries on the agenda that the scanner alone would not get to."""

    def __init__(self, store: DispatchStore, agenda: Agenda, room: int) -> None:
        self._store = store
        self._agenda = agenda
        self._room = room
        self._read: dict[FlowKey, Entry] = {}  # the last entry that was read of each flow
        self._last: FlowKey | None = None  # where the last pass ended
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
        found = await self._store.flows(self._last, MOST_FLOWS, typed=not own.is_whole)
        if len(self._read) > 4 * MOST_FLOWS:
            self._read.clear()  # most of them will have ended
        self._last = found[-1][0] if len(found) == MOST_FLOWS else None
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
        entries = await self._heads(hungry, shards)
        for entry in entries:  # in the order of time within each flow
            self._read[FlowKey(entry.key.tenant_id, entry.lane, entry.flow)] = entry
        return entries

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
            return FlowCursor(flow, BEGINNING, LOWEST_ID, wanted)
        return FlowCursor(flow, last.due_at, last.key.id, wanted)
