"""Nodes that wait for a signal, or for a time."""

import asyncpg
import msgspec

from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows.turns import held_template, misfits, template_values
from gnomon.workflow.turn import is_skipped
from gnomon.workflow.wait import moment_of, overdue


class LookedAtWait(msgspec.Struct, frozen=True):
    """What has become of a wait: nothing yet, unless one of these says so."""

    skipped: bool = False
    failed: str | None = None
    over: bool = False
    result: str | None = None  # JSON, of one that is over


async def look_at_wait(database: Database, row: asyncpg.Record) -> LookedAtWait | None:
    """Let a node wait whose turn has come, or say that it need not any more: a signal that comes
    later gives it its turn again, and so does the time. None: somebody else holds its task. Raises
    Misfit."""
    tenant_id, run_id, task_id = row["tenant_id"], row["run_id"], row["task_id"]
    async with database.transaction() as connection:
        held = await held_template(connection, row)
        if held is None or held.template.wait is None:
            return None
        wait = held.template.wait
        with misfits():
            values = await template_values(connection, row, held.template)
            if is_skipped(held.template, values):
                return LookedAtWait(skipped=True)
            until = moment_of(wait, values)
        sent = None
        if wait.signal is not None:
            await connection.fetchval(query("share_signals"), run_id)
            sent = await connection.fetchrow(query("get_signal"), tenant_id, run_id, wait.signal)
        over = await connection.fetchval(
            query("park_node"), tenant_id, task_id, sent is None, wait.signal, until, wait.seconds
        )
    if sent is not None:
        return LookedAtWait(over=True, result=sent["data"])
    if not over:
        return LookedAtWait()
    if wait.signal is None:
        return LookedAtWait(over=True)
    if wait.result is msgspec.UNSET:
        return LookedAtWait(failed=overdue(wait))
    return LookedAtWait(over=True, result=bytes(wait.result).decode())
