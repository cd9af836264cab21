"""Tells that rows past their time are removed more slowly than they come."""

from collections.abc import Mapping

import structlog

from gnomon.model.fleet.retention import RowKind
from gnomon.model.insight.event_kinds import RETENTION_BEHIND
from gnomon.observe.events import Observer, RetentionSeen
from gnomon.store.ports.insight.events import Condition
from gnomon.store.postgres.events.event_writer import PostgresEventWriter

log = structlog.get_logger("gnomon.node")

_WARN_SECONDS = 300.0
BEHIND_SECONDS = 900.0  # after which operators are told

Late = Mapping[RowKind, float]  # seconds since the last pass that left nothing of it


class RetentionAlarm:
    """Tells the log and the metrics after every pass, and operators when it lasts."""

    def __init__(self, events: PostgresEventWriter, emit: Observer) -> None:
        self._events = events
        self._emit = emit
        self.behind_seconds = BEHIND_SECONDS

    def tell(self, late: Late) -> None:
        """Of every kind, how late its removal is."""
        for kind in RowKind:
            seconds = late.get(kind, 0.0)
            self._emit(RetentionSeen(kind, seconds))
            if seconds >= _WARN_SECONDS:
                log.warning(
                    "removal of rows past their time does not keep pace: the table grows",
                    rows=kind.value,
                    behind_seconds=round(seconds),
                )

    async def tell_operators(self, late: Late) -> None:
        """One that is behind, but not for long, need not be over: a holder before may have told of
        it."""
        found = [
            Condition(
                kind=RETENTION_BEHIND,
                key=kind.value,
                detail={"rows": kind.value, "behind_seconds": round(seconds)},
            )
            for kind, seconds in late.items()
            if seconds >= self.behind_seconds
        ]
        unsure = {kind.value for kind in late}
        await self._events.conditions((RETENTION_BEHIND,), found, unsure=unsure)
