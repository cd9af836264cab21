"""The turns of nodes that need more than counting: templates and conditions."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import msgspec

from gnomon.limits.limiter import limit_keys
from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import RequestTarget, Target
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import size_apart, stored_payload, stored_target
from gnomon.store.postgres.workflows.node_limits import TenantLimits
from gnomon.workflow.template import CannotRender, TemplateValues
from gnomon.workflow.turn import NodeTemplate, NodeTurn, turn_of

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


class Misfit(Exception):
    """A node whose turn has come, and whose template does not fit; with the reason."""


async def take_turn(
    connection: "Connection", row: asyncpg.Record, limits: TenantLimits
) -> NodeTurn | None:
    """Fill a node in whose turn has come. None: somebody else holds its task. Raises Misfit."""
    held = await held_template(connection, row)
    if held is None:
        return None
    with misfits():
        values = await template_values(connection, row, held.template)
        turn = turn_of(held.template, held.target, values, limits.most_bytes)
        check = limits.check_of(row["tenant_id"], held.task_type)
        if check is not None and turn.payload is not None:
            await asyncio.to_thread(check, turn.payload)
    if not turn.skipped:
        await connection.execute(
            query("fill_node"),
            row["tenant_id"],
            row["task_id"],
            turn.payload is not None,
            stored_payload(turn.payload),
            size_apart(turn.payload),
            None if turn.target is None else stored_target(turn.target),
            limit_keys(
                limits.limiters_of(row["tenant_id"]), held.task_type, held.queue, turn.payload
            ),
        )
    return turn


class HeldTemplate(NamedTuple):
    """The template of a node whose task is held, and what is known of the task."""

    template: NodeTemplate
    target: Target
    task_type: str
    queue: str | None


async def held_template(connection: "Connection", row: asyncpg.Record) -> HeldTemplate | None:
    """Hold the task of a node whose turn has come. None: somebody else holds it. Raises Misfit."""
    task = await connection.fetchrow(query("hold_turn"), row["tenant_id"], row["task_id"])
    if task is None:
        return None
    with misfits():
        return HeldTemplate(
            msgspec.json.decode(row["template"], type=NodeTemplate),
            msgspec.json.decode(task["target"], type=RequestTarget),
            task["task_type"],
            task["queue"],
        )


@contextmanager
def misfits() -> Iterator[None]:
    """Raises Misfit for templates that these values do not fit, for payloads that are not as the
    schema of their type wants them, and for what cannot be read."""
    try:
        yield
    except InvalidTask as error:
        detail = f"its turn came, and {error.pointer} {error.detail}"
        raise Misfit(detail) from error
    except (CannotRender, ValueError, OverflowError, RecursionError) as error:
        raise Misfit(f"its turn came, and its template does not fit: {error}") from error


async def bury(connection: "Connection", row: asyncpg.Record, reason: str) -> bool:
    """Make a dead letter of a node. Gives whether it is one: somebody else may hold its task."""
    key = row["tenant_id"], row["task_id"]
    if await connection.fetchval(query("hold_turn"), *key) is None:
        return False
    await connection.execute(query("bury_node"), *key, reason[:2000])
    return True


async def template_values(
    connection: "Connection", row: asyncpg.Record, template: NodeTemplate
) -> TemplateValues:
    """What a template reads."""
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
