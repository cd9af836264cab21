"""Rollbacks: what undoes the completed nodes of a run, made once all of its nodes have ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.clock import new_id
from gnomon.limits.limiter import Limiter
from gnomon.model.tasks.task import Submission
from gnomon.store.ports.work.workflows import NewWorkflowRun
from gnomon.store.postgres.limits.limit_keys import with_keys
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import stored_payload
from gnomon.store.postgres.tasks.inserting import insert
from gnomon.workflow.compensation import compensation_order
from gnomon.workflow.graph import GraphNode

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection


async def keep_compensations(
    connection: "Connection", run: NewWorkflowRun, limiters: Sequence[Limiter]
) -> None:
    """Store what undoes the nodes of a new run."""
    kept = run.compensations
    if not kept:
        return
    await connection.execute(
        query("insert_compensations"),
        run.tenant_id,
        run.id,
        [each.node for each in kept],
        [_stored(with_keys(each.task, limiters)) for each in kept],
        [stored_payload(each.task.payload) for each in kept],
        [stored_payload(each.template) for each in kept],
    )


async def begin_rollback(connection: "Connection", tenant_id: str, run_id: UUID) -> bool:
    """Make the tasks that undo completed nodes, each after those of what came after its node; gives
    whether that was done. It is not while a node of the run has not ended, or where another does
    it."""
    now: datetime | None = await connection.fetchval(query("lock_rollback"), tenant_id, run_id)
    if now is None:
        return False
    if await connection.fetch(query("unended_nodes"), tenant_id, run_id, 1, True):
        return False
    rows = await connection.fetch(query("nodes_to_compensate"), tenant_id, run_id)
    undone = {row["node"]: row for row in rows if row["task"] is not None}
    if not undone:
        await connection.execute(query("end_rollback"), tenant_id, run_id)
        return True
    names = {row["node"] for row in rows}
    graph = {
        row["node"]: GraphNode(tuple(each for each in row["after"] if each in names))
        for row in rows
    }
    order = compensation_order(graph, undone.keys())
    tasks = {name: _task(undone[name], now) for name in order}
    await insert(connection, list(tasks.values()))
    ids = {name: task.id for name, task in tasks.items()}
    edges = [(ids[first], ids[name]) for name, before in order.items() for first in before]
    edges += [(each, run_id) for each in ids.values()]
    parents, children = zip(*edges, strict=True)
    await connection.execute(
        query("bind_compensations"),
        tenant_id,
        run_id,
        list(ids.values()),
        list(ids),
        [msgspec.json.encode(before).decode() for before in order.values()],
        [undone[name]["template"] for name in order],
        parents,
        children,
    )
    return True


def _stored(task: Submission) -> str:
    return msgspec.json.encode(msgspec.structs.replace(task, payload=None)).decode()


def _task(row: asyncpg.Record, now: datetime) -> Submission:
    kept = msgspec.json.decode(row["task"], type=Submission)
    return msgspec.structs.replace(
        kept,
        id=new_id(now),
        payload=None if row["payload"] is None else row["payload"].encode(),
        execute_at=now,
        due_at=now,
        expires_at=None,
    )
