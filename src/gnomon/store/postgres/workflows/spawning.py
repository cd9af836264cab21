"""Spawned nodes: stores them in the transaction that settles the node which has spawned them, and
says what that counts as once they have ended.

Whoever settles a node with spawns holds its task, its row as a node, and its run, in this order; as
it then waits for what it has spawned, it counts for nobody.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from gnomon.model.errors import QuotaExceeded
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.task import Submission
from gnomon.model.workflow_errors import SpawnRefused
from gnomon.store.ports.dispatch import Entry, Settlement
from gnomon.store.postgres.limits.limit_keys import with_keys
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks import admitting
from gnomon.store.postgres.tasks.inserting import insert
from gnomon.store.postgres.workflows.node_limits import TenantLimits, add_nodes
from gnomon.workflow.run import WorkflowNodeKind, WorkflowRunState
from gnomon.workflow.spawning import FIRST_PLACE, cannot_spawn, spawned_id, spawned_name

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

# For others of the tenant: all that this node has run waits meanwhile, of other tenants as well.
_PATIENCE_SECONDS = 1.0
# The tasks that a JSON list of a tenant's spawns describes. Raises SpawnRefused.
AcceptSpawns = Callable[[str, str, Origin | None], Awaitable[Sequence[Submission]]]


class SpawnRules(msgspec.Struct, frozen=True):
    """How spawns become tasks, and what bounds them."""

    accept: AcceptSpawns
    limits: TenantLimits


async def spawn(
    connection: "Connection",
    settlement: Settlement,
    tasks: Sequence[Submission],
    limits: TenantLimits,
) -> list[Entry] | None:
    """Store what a node has spawned that is settled in this transaction. None: its execution is
    stale. In a run that is being cancelled or rolled back nothing is stored. Raises
    SpawnRefused."""
    key = settlement.key
    held = await connection.fetchval(
        query("hold_spawner"), key.tenant_id, key.id, settlement.fence, settlement.incarnation
    )
    if held is None:
        return None
    node = await connection.fetchrow(query("hold_spawning_node"), key.tenant_id, key.id)
    refusal = cannot_spawn(None if node is None else node["node"])
    if node is None or refusal is not None:
        raise SpawnRefused(str(refusal))
    if node["counted"]:
        raise SpawnRefused(f"its run has gone on without {node['node']}, which spawns no more")
    run = await connection.fetchrow(query("lock_run"), key.tenant_id, node["run_id"])
    assert run is not None, "it has a node"
    if run["state"] != WorkflowRunState.RUNNING:
        return []
    await _take_room(connection, key.tenant_id, node, len(tasks), limits)
    return await _store(connection, node, tasks, limits, settlement, paused=run["paused"])


async def _take_room(
    connection: "Connection",
    tenant_id: str,
    node: asyncpg.Record,
    number: int,
    limits: TenantLimits,
) -> None:
    """Raises SpawnRefused: the run has too many nodes, or the tenant no room for more tasks."""
    try:
        await add_nodes(connection, tenant_id, node["run_id"], number, limits)
    except QuotaExceeded as error:
        raise SpawnRefused(f"its {number} spawned tasks have no room: {error}") from error
    quotas = limits.quotas_of(tenant_id)
    try:
        await admitting.take_room(connection, tenant_id, quotas, number, seconds=_PATIENCE_SECONDS)
    except QuotaExceeded as error:
        detail = f"its {number} spawned tasks have no room: {error}"
        raise SpawnRefused(detail, retryable=True) from error
    except asyncpg.LockNotAvailableError as error:
        detail = "a transaction that is open holds the quotas of its tenant for too long"
        raise SpawnRefused(detail, retryable=True) from error


async def _store(
    connection: "Connection",
    node: asyncpg.Record,
    tasks: Sequence[Submission],
    limits: TenantLimits,
    settlement: Settlement,
    *,
    paused: bool,
) -> list[Entry]:
    tenant_id, spawner = settlement.key.tenant_id, settlement.key.id
    limiters = limits.limiters_of(tenant_id)
    made = [
        with_keys(msgspec.structs.replace(task, id=spawned_id(spawner, number)), limiters)
        for number, task in enumerate(tasks)
    ]
    entries = await insert(connection, made)
    await connection.execute(query("begin_map"), tenant_id, spawner, node["run_id"], len(made))
    await connection.execute(
        query("bind_elements"),
        tenant_id,
        node["run_id"],
        spawner,
        node["on_failure"],
        FIRST_PLACE,
        [task.id for task in made],
        [spawned_name(node["node"], number) for number in range(len(made))],
        WorkflowNodeKind.SPAWNED,
        [node["node"]],
        paused,
    )
    return [] if paused else entries


async def join(connection: "Connection", row: asyncpg.Record) -> int | None:
    """What a node counts as that has succeeded, and all that it has spawned has ended; None: it has
    succeeded."""
    spawned = [spawned_id(row["task_id"], number) for number in range(row["elements"])]
    found: int | None = await connection.fetchval(
        query("join_spawned"), row["tenant_id"], row["task_id"], spawned
    )
    return found
