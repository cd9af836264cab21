"""Breakers of nodes on PostgreSQL."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from gnomon.model.insight.event_kinds import BREAKER_CLOSED, BREAKER_OPENED
from gnomon.model.text import storable
from gnomon.observe.events import BreakerClosed, BreakerOpened
from gnomon.store.ports.tenancy.breakers import BreakerEvent, Circuit, NotedBreaker
from gnomon.store.postgres.database import Database

MOST_ERROR_CHARACTERS = 500


class PostgresBreakers:
    """Keeps the breakers of one node."""

    def __init__(self, database: Database, incarnation: UUID, name: str) -> None:
        self._database = database
        self._incarnation = incarnation
        self._name = name

    async def note(
        self,
        opened: Sequence[NotedBreaker],
        closed: Sequence[Circuit],
        events: Sequence[BreakerEvent],
    ) -> None:
        """Store which breakers are open, and which are closed; and these events."""
        await self._database.execute(
            "note_breakers",
            self._incarnation,
            [each.circuit[0] for each in opened],
            [each.circuit[1] for each in opened],
            [each.until for each in opened],
            [each.opened_at for each in opened],
            [each.calls for each in opened],
            [each.failures for each in opened],
            [_shortened(each.error) for each in opened],
            [tenant_id for tenant_id, _ in closed],
            [host for _, host in closed],
            [event.told.tenant_id for event in events],
            [event.id for event in events],
            [_kind(event.told) for event in events],
            [event.at for event in events],
            [self._detail(event.told) for event in events],
        )

    def _detail(self, told: BreakerOpened | BreakerClosed) -> str:
        facts = msgspec.structs.asdict(told) | {"node": self._name}
        del facts["tenant_id"]
        return msgspec.json.encode(facts).decode()


def _shortened(error: str | None) -> str | None:
    return None if error is None else storable(error[:MOST_ERROR_CHARACTERS])


def _kind(told: BreakerOpened | BreakerClosed) -> str:
    return BREAKER_OPENED if isinstance(told, BreakerOpened) else BREAKER_CLOSED
