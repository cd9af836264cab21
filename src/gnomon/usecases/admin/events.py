"""Events that somebody takes note of."""

from collections.abc import Sequence
from uuid import UUID

from gnomon.access.grant_errors import LimitedKey
from gnomon.access.principal import Principal, Requester
from gnomon.model.errors import EventNotFound
from gnomon.model.insight.event_kinds import INSTALLATION
from gnomon.store.ports.insight.events import EventRecord
from gnomon.store.postgres.events.event_reader import PostgresEvents
from gnomon.usecases.checks.text_check import check_note

MOST_AT_ONCE = 500
MOST_CHARACTERS = 2_000  # of a note


def log_of(by: Requester) -> str:
    """Whose events somebody sees: those of their tenant, and operators those of the
    installation."""
    return by.tenant_id if isinstance(by, Principal) else INSTALLATION


async def acknowledge(
    store: PostgresEvents, by: Requester, event_id: UUID, note: str | None
) -> EventRecord:
    """Notes that somebody has taken note of an event. Who was first is kept. Raises
    EventNotFound, LimitedKey, InvalidTask."""
    found = await acknowledge_all(store, by, [event_id], note)
    if not found:
        raise EventNotFound(event_id)
    return found[0]


async def acknowledge_all(
    store: PostgresEvents, by: Requester, event_ids: Sequence[UUID], note: str | None
) -> Sequence[EventRecord]:
    """The same for several; those that there are not are passed over. Raises LimitedKey,
    InvalidTask."""
    if by.limited:
        raise LimitedKey("events are of the whole tenant, and your key is limited to part of it")
    note = (note or "").strip() or None
    check_note(note, "/note")
    return await store.acknowledge(log_of(by), event_ids, by.name, note)
