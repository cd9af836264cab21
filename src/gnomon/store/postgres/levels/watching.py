"""Has tasks looked at again whose time or levels were changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.store.postgres.queries import query

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


def has_level(row: asyncpg.Record) -> bool:
    return row["sla_seconds"] is not None or row["warn_after_seconds"] is not None


async def watch(
    connection: "Connection", tenant_id: str, ids: Sequence[UUID], *, new_deadline: bool = False
) -> None:
    """Watch the tasks by what they are now. `new_deadline`: they had none before. Needs the
    transaction that has changed them."""
    await connection.execute(query("watch_tasks"), tenant_id, list(ids), new_deadline)
