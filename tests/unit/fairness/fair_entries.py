"""Entries for tests of the ready queue."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.dispatch import Entry

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def entry(
    number: int,
    tenant: str = "acme",
    lane: Lane = Lane.MEDIUM,
    *,
    due: float = 0.0,
    flow: int = 1,
) -> Entry:
    return Entry(TaskKey(tenant, UUID(int=number)), at(due), lane, flow=flow)


def number_of(entry: Entry) -> int:
    return entry.key.id.int
