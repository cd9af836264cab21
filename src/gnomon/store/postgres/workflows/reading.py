"""Reads runs of workflows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import WorkflowRunNotFound
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.tasks import HIGHEST_ID
from gnomon.store.ports.work.workflows import ReadWorkflowRun, RunSignal, WorkflowRunPage
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.rows import Codes, lane_of, readable
from gnomon.workflow.graph import Becomes
from gnomon.workflow.run import (
    WorkflowNodeKind,
    WorkflowRun,
    WorkflowRunNode,
    WorkflowRunState,
    WorkflowRunStatus,
)

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

BECOMES = Codes(
    "state",
    {1: Becomes.SUCCEEDED, 2: Becomes.FAILED, 3: Becomes.SKIPPED, 4: Becomes.CANCELLED},
)
# Of a status: the states, whether it is paused, and whether a dead letter holds it up.
_CHOSEN: dict[WorkflowRunStatus, tuple[list[int], bool | None, bool | None]] = {
    WorkflowRunStatus.RUNNING: ([WorkflowRunState.RUNNING], False, False),
    WorkflowRunStatus.FAILED: ([WorkflowRunState.RUNNING, WorkflowRunState.FAILED], False, True),
    WorkflowRunStatus.PAUSED: ([WorkflowRunState.RUNNING], True, None),
    WorkflowRunStatus.CANCELLING: ([WorkflowRunState.CANCELLING], None, None),
    WorkflowRunStatus.SUCCEEDED: ([WorkflowRunState.SUCCEEDED], None, None),
    WorkflowRunStatus.CANCELLED: ([WorkflowRunState.CANCELLED], None, None),
    WorkflowRunStatus.ROLLING_BACK: ([WorkflowRunState.ROLLING_BACK], None, None),
    WorkflowRunStatus.ROLLED_BACK: ([WorkflowRunState.ROLLED_BACK], None, None),
}


async def read(connection: "Connection", tenant_id: str, run_id: UUID) -> ReadWorkflowRun:
    """A run with its nodes. Raises WorkflowRunNotFound."""
    row = await connection.fetchrow(query("get_run"), tenant_id, run_id)
    if row is None:
        raise WorkflowRunNotFound(run_id)
    nodes = await connection.fetch(query("run_nodes"), tenant_id, run_id)
    return ReadWorkflowRun(_run_of(row), [_node_of(each) for each in nodes])


async def page(
    connection: "Connection",
    tenant_id: str,
    workflow: str | None,
    status: WorkflowRunStatus | None,
    cursor: UUID | None,
    limit: int,
) -> WorkflowRunPage:
    """Runs older than `cursor`, newest first."""
    states, paused, dead = (None, None, None) if status is None else _CHOSEN[status]
    rows = await connection.fetch(
        query("list_runs"),
        tenant_id,
        cursor or HIGHEST_ID,
        workflow,
        states,
        paused,
        dead,
        limit + 1,
    )
    if len(rows) > limit:
        more = rows[limit - 1]["id"]
    else:
        more = await connection.fetchval(
            query("last_run_examined"), tenant_id, cursor or HIGHEST_ID, workflow
        )
    return WorkflowRunPage(readable(rows[:limit], _run_of, "workflow run"), more)


def entries_of(rows: Iterable[asyncpg.Record]) -> list[Entry]:
    """Hints at tasks that became due."""
    return [
        Entry(
            TaskKey(row["tenant_id"], row["id"]),
            row["due_at"],
            lane_of(row["lane"]),
            flow=row["flow"],
            by_handler=row["by_handler"],
        )
        for row in rows
    ]


def _ended(row: asyncpg.Record) -> int | None:
    """How many elements of a mapped node have ended, or of what a node has spawned. Its last
    parents may be counted, too."""
    elements: int | None = row["elements"]
    return None if elements is None else min(max(0, elements - row["waits"]), elements)


def signal_of(row: asyncpg.Record) -> RunSignal:
    data = None if row["data"] is None else row["data"].encode()
    return RunSignal(row["name"], data, row["sent_at"], row["sent_by"])


def _run_of(row: asyncpg.Record) -> WorkflowRun:
    return WorkflowRun(
        run_id=row["id"],
        tenant_id=row["tenant_id"],
        workflow=row["workflow"],
        version=row["version"],
        state=WorkflowRunState(row["state"]),
        paused=row["paused"],
        dead=row["dead"],
        reason=row["reason"],
        input=None if row["input"] is None else row["input"].encode(),
        deadline=row["deadline"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        finished_at=row["finished_at"],
        retry_of=row["retry_of"],
        rolls_back=row["rolls_back"],
    )


def _node_of(row: asyncpg.Record) -> WorkflowRunNode:
    status = None
    if row["state"] is not None:
        status = status_of(State(row["state"]), row["due_at"], row["attempt"], row["now"])
    mapped = row["kind"] == WorkflowNodeKind.MAPPED
    return WorkflowRunNode(
        node=row["node"],
        task_id=row["task_id"],
        status=status,
        became=None if row["became"] is None else BECOMES[row["became"]],
        after=tuple(row["after"]),
        compensates=row["compensates"],
        borrowed=row["borrows"] is not None,
        waits_for=tuple(row["waits_for"] or ()),
        attempt=row["attempt"],
        started_at=row["started_at"],
        finished_at=row["finished_at"] or row["ended_at"],
        error=row["last_error"],
        signal=row["signal"],
        waits_until=row["until"],
        elements=row["elements"] if mapped else None,
        elements_ended=_ended(row) if mapped else None,
        spawned=None if mapped else row["elements"],
        spawned_ended=None if mapped else _ended(row),
    )
