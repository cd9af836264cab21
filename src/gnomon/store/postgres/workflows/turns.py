"""The turns of nodes that need more than counting: templates and conditions."""

from typing import TYPE_CHECKING

import asyncpg
import msgspec

from gnomon.model.targets.target import RequestTarget
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import size_apart, stored_payload, stored_target
from gnomon.workflow.template import CannotRender, TemplateValues
from gnomon.workflow.turn import NodeTemplate, NodeTurn, turn_of

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_UNREADABLE = (ValueError, OverflowError, RecursionError)


async def take_turn(
    connection: "Connection", row: asyncpg.Record, most_bytes: int
) -> NodeTurn | None:
    """Fill a node in whose turn has come. Where its template does not fit, it becomes a dead
    letter. None: somebody else holds its task."""
    tenant_id, task_id = row["tenant_id"], row["task_id"]
    target = await connection.fetchval(query("hold_turn"), tenant_id, task_id)
    if target is None:
        return None
    try:
        template = msgspec.json.decode(row["template"], type=NodeTemplate)
        values = await _values(connection, row, template)
        called = msgspec.json.decode(target, type=RequestTarget)
        turn = turn_of(template, called, values, most_bytes)
    except (CannotRender, *_UNREADABLE) as error:
        reason = f"its turn came, and its template does not fit: {error}"
        await connection.execute(query("bury_node"), tenant_id, task_id, reason[:2000])
        return NodeTurn(buried=True)
    if not turn.skipped:
        await connection.execute(
            query("fill_node"),
            tenant_id,
            task_id,
            turn.payload is not None,
            stored_payload(turn.payload),
            size_apart(turn.payload),
            None if turn.target is None else stored_target(turn.target),
        )
    return turn


async def _values(
    connection: "Connection", row: asyncpg.Record, template: NodeTemplate
) -> TemplateValues:
    rows = await connection.fetch(
        query("turn_values"), row["tenant_id"], row["run_id"], template.reads
    )
    values = {each["node"]: _bytes(each["value"]) for each in rows}
    return TemplateValues(
        row["run_id"],
        values.pop(None, None),
        values,
        frozenset(each["node"] for each in rows if each["too_large"]),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
