"""Enters events for tasks that failed for good: one for each task type and quarter of an hour.

They are read off the roll-up, so no task pays for them."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from gnomon.clock import EPOCH, Clock
from gnomon.model.insight.activity import ALL_TYPES
from gnomon.model.insight.event_kinds import DEAD_LETTERED
from gnomon.node.maintenance.told_once import told_once
from gnomon.node.membership.lease import Lease
from gnomon.store.ports.insight.events import DeadLetterCount, NewEvent
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.dead_letter_counts import PostgresDeadLetterCounts
from gnomon.store.postgres.events.event_writer import PostgresEventWriter

CHORE = "alarm"
EVERY_SECONDS = 10.0
WINDOW = timedelta(minutes=15)
_HOLD_SECONDS = 30.0
# What nodes count shortly before the end of a window is written shortly after it.
_LATE = timedelta(minutes=1)


class DeadLetterAlarm:
    """An event has an id that follows from what it is about: whoever enters it again, be it
    another node or the same one later, brings its number up to date."""

    def __init__(
        self,
        counts: PostgresDeadLetterCounts,
        writer: PostgresEventWriter,
        chores: PostgresChores,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._counts = counts
        self._writer = writer
        self._chores = chores
        self._lease = lease
        self._clock = clock

    async def run_once(self) -> int:
        """Gives how many events are up to date; 0 where another node has the chore."""
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            return 0
        now = self._clock.now()
        entered = 0
        for begins_at in dict.fromkeys((_window(now - _LATE), _window(now))):
            counts = await self._counts.dead(begins_at, begins_at + WINDOW)
            events = [_event(count, begins_at) for count in rest_as_others(counts)]
            await self._writer.enter(events)
            entered += len(events)
        return entered


def rest_as_others(counts: Iterable[DeadLetterCount]) -> list[DeadLetterCount]:
    """Counts by type, and for each tenant those of types that are not counted by themselves, of
    all types together the rest."""
    found: list[DeadLetterCount] = []
    rest: dict[str, int] = {}
    for count in counts:
        named = count.task_type != ALL_TYPES
        if named:
            found.append(count)
        rest.setdefault(count.tenant_id, 0)
        rest[count.tenant_id] += -count.dead if named else count.dead
    others = [DeadLetterCount(tenant, ALL_TYPES, dead) for tenant, dead in rest.items() if dead > 0]
    return found + others


def _window(moment: datetime) -> datetime:
    return EPOCH + (moment - EPOCH) // WINDOW * WINDOW


def _event(count: DeadLetterCount, begins_at: datetime) -> NewEvent:
    detail = {
        "task_type": count.task_type if count.task_type != ALL_TYPES else None,
        "count": count.dead,
        "since": begins_at,
        "until": begins_at + WINDOW,
    }
    return told_once(count.tenant_id, DEAD_LETTERED, begins_at, count.task_type, detail)
