"""Mapped nodes: expands their lists in chunks, and joins what their elements return."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from gnomon.model.errors import InvalidTask, QuotaExceeded
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.limits.limit_keys import with_keys
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks import admitting
from gnomon.store.postgres.tasks.inserting import insert
from gnomon.store.postgres.workflows.node_limits import TenantLimits, add_nodes
from gnomon.store.postgres.workflows.turns import (
    HeldTemplate,
    Misfit,
    held_template,
    misfits,
    template_values,
)
from gnomon.workflow.graph import Becomes
from gnomon.workflow.mapping import (
    MOST_LIST_BYTES,
    element_id,
    element_names,
    first_place,
    items_of,
    with_item,
)
from gnomon.workflow.run import WorkflowNodeKind
from gnomon.workflow.template import TemplateValues
from gnomon.workflow.turn import NodeTurn, is_skipped, turn_of

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

CHUNK = 500
_MOST_STEPS = 20_000_000  # of checking a list: the nodes of other runs wait meanwhile
_FAILED, _SKIPPED, _CANCELLED = 2, 3, 4


class _QuotasAreHeld(Exception):
    """By a transaction of the tenant, which may be open for long."""


class LookedAtMap(msgspec.Struct, frozen=True):
    """How far a mapped node is: some of its elements are made, or it has ended as these did."""

    skipped: bool = False
    made: Sequence[Entry] = ()
    state: State | None = None
    result: str | None = None  # JSON
    too_large: bool = False
    error: str | None = None


async def look_at_map(
    database: Database, row: asyncpg.Record, limits: TenantLimits
) -> LookedAtMap | None:
    """Make elements of a mapped node whose turn has come; or say how it ends, once all of them
    have. None: somebody else holds its task. Raises Misfit."""
    try:
        return await _look_at_map(database, row, limits)
    except _QuotasAreHeld:
        return None  # its turn comes again, and all others have theirs


async def _look_at_map(
    database: Database, row: asyncpg.Record, limits: TenantLimits
) -> LookedAtMap | None:
    async with database.transaction() as connection:
        held = await held_template(connection, row)
        if held is None:
            return None
        key = row["tenant_id"], row["task_id"]
        node = await connection.fetchrow(query("hold_map"), *key)
        assert node is not None, "its task is there"
        if node["elements"] is not None and node["expanded"] == node["elements"]:
            return await _joined(connection, row, node)
        with misfits():
            values = await template_values(connection, row, held.template)
            if node["elements"] is None and is_skipped(held.template, values):
                return LookedAtMap(skipped=True)
            items = items_of(_bytes(held.template.map), values)
        if not items:
            return LookedAtMap(state=State.COMPLETED, result="[]")
        expansion = _Expansion(held, values, items, limits)
        if node["elements"] is None:
            await _begin(connection, row, expansion)
        return await _expand(connection, row, node, expansion)


class _Expansion:
    """The elements of a list, as tasks."""

    def __init__(
        self, held: HeldTemplate, values: TemplateValues, items: Sequence[Any], limits: TenantLimits
    ) -> None:
        self._held = held
        self._values = values
        self.items = items
        self.limits = limits

    def check(self, tenant_id: str) -> None:
        """Raises Misfit where one of the elements does not fit: before any of them is made."""
        check, work = self.limits.check_of(tenant_id, self._held.task_type), 0
        for index in range(len(self.items)):
            turn = self._turn(index)
            if check is None:
                continue
            with misfits():
                try:
                    work += check(turn.payload)
                except InvalidTask as error:
                    raise error.within(f"/map/{index}") from error
            if work > _MOST_STEPS:
                raise Misfit(f"its {len(self.items)} elements take too long to check; map fewer")

    def tasks(
        self, row: asyncpg.Record, indexes: Sequence[int], now: datetime
    ) -> Iterator[Submission]:
        task = msgspec.json.decode(_bytes(self._held.template.task), type=Submission)
        limiters = self.limits.limiters_of(row["tenant_id"])
        for index in indexes:
            turn = self._turn(index)
            made = msgspec.structs.replace(
                task,
                id=element_id(row["task_id"], index),
                payload=turn.payload,
                target=turn.target or task.target,
                execute_at=now,
                due_at=now,
            )
            yield with_keys(made, limiters)

    def _turn(self, index: int) -> NodeTurn:
        target = self._held.target
        plain = msgspec.structs.replace(self._held.template, condition=msgspec.UNSET)
        with misfits():
            values = with_item(self._values, self.items, index)
            return turn_of(plain, target, values, self.limits.most_bytes)


async def _begin(connection: "Connection", row: asyncpg.Record, expansion: _Expansion) -> None:
    """Raises Misfit: an element does not fit, or the tenant has no room for all of them."""
    tenant_id, number = row["tenant_id"], len(expansion.items)
    await asyncio.to_thread(expansion.check, tenant_id)
    try:
        quotas = expansion.limits.quotas_of(tenant_id)
        await add_nodes(connection, tenant_id, row["run_id"], number, expansion.limits)
        await admitting.take_room(connection, tenant_id, quotas, number, seconds=1.0)
    except QuotaExceeded as error:
        raise Misfit(f"its {number} elements have no room: {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise _QuotasAreHeld from error
    await connection.execute(query("begin_map"), tenant_id, row["task_id"], row["run_id"], number)


async def _expand(
    connection: "Connection", row: asyncpg.Record, node: asyncpg.Record, expansion: _Expansion
) -> LookedAtMap:
    first = node["expanded"]
    indexes = range(first, min(first + CHUNK, len(expansion.items)))
    now: datetime = await connection.fetchval("SELECT gnomon.now()")
    tasks = await asyncio.to_thread(lambda: list(expansion.tasks(row, indexes, now)))
    entries = await insert(connection, tasks)
    await connection.execute(
        query("bind_elements"),
        row["tenant_id"],
        row["run_id"],
        row["task_id"],
        node["on_failure"],
        first_place(node["place"]) + first,
        [task.id for task in tasks],
        list(element_names(row["node"], indexes)),
        WorkflowNodeKind.ELEMENT,
        [],
        False,
    )
    return LookedAtMap(made=entries)


async def _joined(
    connection: "Connection", row: asyncpg.Record, node: asyncpg.Record
) -> LookedAtMap | None:
    """How it ends. A failed element that is skipped is left out of the list."""
    if node["waits"] > 0:
        return None
    place, number = first_place(node["place"]), node["elements"]
    found = await connection.fetch(
        query("map_outputs"), row["tenant_id"], row["run_id"], place, MOST_LIST_BYTES - 2, number
    )
    for state, became, ends in (
        (_FAILED, Becomes.FAILED, State.RESOLVED),
        (_CANCELLED, Becomes.CANCELLED, State.CANCELLED),
    ):
        if some := sum(each["state"] == state for each in found):
            return LookedAtMap(state=ends, error=f"{some} of its {number} elements {became}")
    if found and found[-1]["bytes"] > MOST_LIST_BYTES - 2:
        return LookedAtMap(state=State.COMPLETED, too_large=True)
    kept = (each["output"] or "null" for each in found if each["state"] != _SKIPPED)
    return LookedAtMap(state=State.COMPLETED, result=f"[{','.join(kept)}]")


def _bytes(text: msgspec.Raw | msgspec.UnsetType) -> bytes:
    assert text is not msgspec.UNSET, "mapped nodes have one"
    return bytes(text)
