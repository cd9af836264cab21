"""Notes how far running tasks are, for a whole node in one statement."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database


class ProgressNote(msgspec.Struct, frozen=True):
    """How far the execution of a task is that has this fence."""

    key: TaskKey
    fence: int
    node: UUID
    fraction: float
    message: str | None


class EndedProgress(msgspec.Struct, frozen=True):
    """An execution that has ended, whose progress is to be forgotten."""

    key: TaskKey
    fence: int


class PostgresProgress:
    """Progress on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, notes: Sequence[ProgressNote], ended: Sequence[EndedProgress]) -> None:
        """Those whose fence or incarnation is stale are left out."""
        # One order for all, so that two nodes that meet cannot wait for each other.
        batch = sorted(notes, key=lambda note: note.key.id.bytes)
        await self._database.fetch(
            "note_progress",
            [n.node for n in batch],
            [n.key.tenant_id for n in batch],
            [n.key.id for n in batch],
            [n.fence for n in batch],
            [n.fraction for n in batch],
            [n.message for n in batch],
            [e.key.tenant_id for e in ended],
            [e.key.id for e in ended],
            [e.fence for e in ended],
        )
