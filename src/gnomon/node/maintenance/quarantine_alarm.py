"""Enters events for tasks that have killed the process that they ran in."""

from collections import deque
from uuid import UUID

import msgspec

from gnomon.clock import Clock, new_id
from gnomon.model.insight.event_kinds import QUARANTINED
from gnomon.model.text import storable
from gnomon.node.run.quarantine.pool import Killer
from gnomon.store.ports.insight.events import NewEvent
from gnomon.store.postgres.events.event_writer import PostgresEventWriter

EVERY_SECONDS = 1.0
_MOST_CHARACTERS = 500


class QuarantineAlarm:
    """Each node tells of its own. What it has not told when it dies is told by nobody; the task's
    executions say it, too."""

    def __init__(self, killers: deque[Killer], writer: PostgresEventWriter, clock: Clock) -> None:
        self._killers = killers
        self._writer = writer
        self._clock = clock

    async def run_once(self) -> int:
        """Gives how many were told."""
        told = list(self._killers)
        if not told:
            return 0
        self._killers.clear()
        now = self._clock.now()
        try:
            await self._writer.enter([_event(each, new_id(now)) for each in told])
        except BaseException:
            self._killers.extendleft(reversed(told))
            raise
        return len(told)


def _event(killer: Killer, event_id: UUID) -> NewEvent:
    detail = {"task_type": killer.task_type, "how": storable(killer.how[:_MOST_CHARACTERS])}
    return NewEvent(
        tenant_id=killer.key.tenant_id,
        id=event_id,
        kind=QUARANTINED,
        task_id=killer.key.id,
        detail=msgspec.json.encode(detail).decode(),
    )
