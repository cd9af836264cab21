"""Events that somebody takes note of."""

from collections.abc import Sequence
from uuid import UUID

from gnomon.access.grant_errors import LimitedKey
from gnomon.access.principal import Principal
from gnomon.model.errors import EventNotFound
from gnomon.store.ports.events import EventRecord
from gnomon.store.postgres.events.event_reader import PostgresEvents
from gnomon.usecases.checks.text_check import check_note

MOST_AT_ONCE = 500
MOST_CHARACTERS = 2_000  # of a note


async def acknowledge(
    store: PostgresEvents, by: Principal, event_id: UUID, note: str | None
) -> EventRecord:
    """Notes that somebody has taken note of an event. Who was first is kept. Raises
    EventNotFound, LimitedKey, InvalidTask."""
    found = await acknowledge_all(store, by, [event_id], note)
    if not found:
        raise EventNotFound(event_id)
    return found[0]


async def acknowledge_all(
    store: PostgresEvents, by: Principal, event_ids: Sequence[UUID], note: str | None
) -> Sequence[EventRecord]:
    """The same for several; those that there are not are passed over. Raises LimitedKey,
    InvalidTask."""
    if by.limited:
        raise LimitedKey("events are of the whole tenant, and your key is limited to part of it")
    note = (note or "").strip() or None
    check_note(note, "/note")
    return await store.acknowledge(by.tenant_id, event_ids, by.name, note)
