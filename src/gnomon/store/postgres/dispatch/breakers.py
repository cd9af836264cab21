"""Breakers of nodes on PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.observe.events import BREAKER_CLOSED, BREAKER_OPENED, BreakerClosed, BreakerOpened
from gnomon.store.ports.breakers import BreakerEvent, Circuit
from gnomon.store.postgres.database import Database


class PostgresBreakers:
    """Keeps the breakers of one node."""

    def __init__(self, database: Database, incarnation: UUID, name: str) -> None:
        self._database = database
        self._incarnation = incarnation
        self._name = name

    async def note(
        self,
        opened: Sequence[tuple[Circuit, datetime]],
        closed: Sequence[Circuit],
        events: Sequence[BreakerEvent],
    ) -> None:
        """Store which breakers are open, each until a time or longer, and which are closed; and
        these events."""
        await self._database.execute(
            "note_breakers",
            self._incarnation,
            [tenant_id for (tenant_id, _), _ in opened],
            [host for (_, host), _ in opened],
            [until for _, until in opened],
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


def _kind(told: BreakerOpened | BreakerClosed) -> str:
    return BREAKER_OPENED if isinstance(told, BreakerOpened) else BREAKER_CLOSED
