"""Records the usage of each tenant every hour, as the reading of a meter: for billing.

A reading has the sums of its day so far. What an hour used is the difference to the reading before;
an hour in which nobody could record is in the next one.
"""

from datetime import datetime, timedelta

from gnomon.clock import EPOCH, Clock
from gnomon.model.insight.event_kinds import USAGE_RECORDED
from gnomon.node.maintenance.told_once import told_once
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_writer import PostgresEventWriter
from gnomon.store.postgres.events.looks import TENANTS_AT_ONCE, PostgresLooks

CHORE = "usage"
EVERY_SECONDS = 60.0
_HOLD_SECONDS = 180.0
_HOUR = timedelta(hours=1)


class UsageRecorder:
    """Enters one event for each tenant and hour; another node that does so again adds none."""

    def __init__(
        self,
        looks: PostgresLooks,
        writer: PostgresEventWriter,
        chores: PostgresChores,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._looks = looks
        self._writer = writer
        self._chores = chores
        self._lease = lease
        self._clock = clock
        self.recorded: datetime | None = None  # the last hour

    async def run_once(self) -> int:
        """Gives how many readings were entered."""
        hour = EPOCH + (self._clock.now() - EPOCH) // _HOUR * _HOUR
        if hour == self.recorded:
            return 0
        if not await self._chores.hold(CHORE, self._lease.incarnation, _HOLD_SECONDS):
            return 0
        day = (hour - timedelta(microseconds=1)).date()
        entered, after = 0, ""
        while rows := await self._looks.usage(day, after):
            events = [
                told_once(
                    row["tenant_id"],
                    USAGE_RECORDED,
                    hour,
                    USAGE_RECORDED,
                    {
                        "day": day,
                        "until": hour,
                        "submissions": row["submissions"],
                        "executions": row["executions"],
                        "compute_seconds": round(row["compute_seconds"], 3),
                        "stored_bytes": row["stored_bytes"],
                    },
                )
                for row in rows
            ]
            there = await self._looks.entered(
                [event.tenant_id for event in events], [event.id for event in events]
            )
            news = [event for event in events if event.id not in there]
            await self._writer.enter(news)
            entered += len(news)
            after = rows[-1]["tenant_id"]
            if len(rows) < TENANTS_AT_ONCE:
                break
        self.recorded = hour
        return entered
