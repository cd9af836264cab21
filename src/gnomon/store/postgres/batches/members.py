"""Puts tasks into batches, in the transaction that stores them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.model.errors import GnomonError, TenantBusy
from gnomon.model.tasks.task import Submission, TaskKey
from gnomon.model.workflow_errors import BatchIsClosed, BatchIsFull, BatchNotFound
from gnomon.store.postgres.queries import query
from gnomon.workflow.batch import MOST_MEMBERS, BatchState

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_CLOSED = "tasks are put in before it is closed; open another batch"


async def refusals(
    connection: "Connection", submissions: Sequence[Submission]
) -> Mapping[UUID, GnomonError]:
    """Why tasks cannot be put into their batches, by their ids. The batches of all others stay open
    until the transaction ends. Raises TenantBusy."""
    wanted = Counter(TaskKey(s.tenant_id, s.batch_id) for s in submissions if s.batch_id)
    if not wanted:
        return {}
    keys = sorted(wanted)
    columns = [key.tenant_id for key in keys], [key.id for key in keys]
    try:
        rows = await connection.fetch(query("hold_batches"), *columns)
    except asyncpg.LockNotAvailableError as error:
        raise TenantBusy("a batch is being closed for too long") from error
    found = {TaskKey(row["tenant_id"], row["id"]): row for row in rows}
    errors = {key: _refusal(key.id, found.get(key), wanted[key]) for key in keys}
    return {
        s.id: why
        for s in submissions
        if s.batch_id and (why := errors[TaskKey(s.tenant_id, s.batch_id)]) is not None
    }


def _refusal(batch_id: UUID, row: asyncpg.Record | None, wanted: int) -> GnomonError | None:
    if row is None:
        return BatchNotFound(batch_id)
    state = BatchState(row["state"])
    if state is BatchState.OPEN and row["late"]:
        state = BatchState.EXPIRED
    if state is not BatchState.OPEN:
        return BatchIsClosed(batch_id, state.name, "added to", _CLOSED)
    if row["total"] + wanted > MOST_MEMBERS:
        return BatchIsFull(batch_id, MOST_MEMBERS)
    return None


async def note(
    connection: "Connection", submissions: Sequence[Submission], stored: Collection[UUID]
) -> None:
    """Count those that were stored."""
    added = Counter(
        TaskKey(s.tenant_id, s.batch_id) for s in submissions if s.batch_id and s.id in stored
    )
    if added:
        await connection.execute(
            query("note_members"),
            [key.tenant_id for key in added],
            [key.id for key in added],
            [*added.values()],
        )
