"""Workflows on PostgreSQL, outside of transactions that change them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from gnomon.model.tasks.task import TaskKey
from gnomon.model.workflow_errors import OutputNotFound, TooManyWorkflows, WorkflowNotFound
from gnomon.store.ports.work.workflows import (
    MOST_VERSIONS,
    MOST_WORKFLOWS,
    NodeOutput,
    ReadWorkflowRun,
    WorkflowRunPage,
    WorkflowVersion,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.workflows import reading
from gnomon.store.postgres.workflows.reading import BECOMES
from gnomon.workflow.run import WorkflowRunStatus


class PostgresWorkflows:
    """Reads workflows and their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_run(self, tenant_id: str, run_id: UUID) -> ReadWorkflowRun:
        """Raises WorkflowRunNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            return await reading.read(connection, tenant_id, run_id)

    async def unended(self, keys: Sequence[TaskKey]) -> set[TaskKey]:
        """Those of the runs, of any tenants, that go on by themselves."""
        rows = await self._database.fetch(
            "unended_runs", [key.tenant_id for key in keys], [key.id for key in keys]
        )
        return {TaskKey(tenant_id, run_id) for tenant_id, run_id in rows}

    async def put(
        self,
        tenant_id: str,
        name: str,
        definition: bytes,
        digest: bytes,
        by: str | None,
        now: datetime,
    ) -> tuple[WorkflowVersion, bool]:
        """Store a version, unless it is the newest already; gives also whether it is new. Raises
        TooManyWorkflows."""
        async with self._database.scoped(tenant_id) as connection:
            await connection.execute(query("lock_workflows"), tenant_id)
            row = await connection.fetchrow(
                query("put_workflow"),
                tenant_id,
                name,
                digest,
                definition.decode(),
                now,
                by,
                MOST_WORKFLOWS,
                MOST_VERSIONS,
            )
        if row is None:
            raise TooManyWorkflows(MOST_WORKFLOWS, MOST_VERSIONS)
        found = WorkflowVersion(
            name=name,
            version=row["version"],
            definition=definition,
            created_at=row["created_at"],
            created_by=row["created_by"],
        )
        return found, row["created"]

    async def get(self, tenant_id: str, name: str, version: int | None) -> WorkflowVersion:
        """A version, the newest where none is asked for. Raises WorkflowNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("get_workflow"), tenant_id, name, version)
        if row is None:
            raise WorkflowNotFound(name, version)
        return _workflow_of(row)

    async def list(self, tenant_id: str) -> Sequence[WorkflowVersion]:
        """The newest version of each, by name."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("list_workflows"), tenant_id)
        return [_workflow_of(row) for row in rows]

    async def delete(self, tenant_id: str, name: str) -> None:
        """Forget all versions. Raises WorkflowNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            rows = await connection.fetch(query("delete_workflow"), tenant_id, name)
        if not rows:
            raise WorkflowNotFound(name)

    async def output(self, tenant_id: str, run_id: UUID, node: str) -> NodeOutput:
        """Raises OutputNotFound."""
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(query("run_output"), tenant_id, run_id, node)
        if row is None:
            raise OutputNotFound(node)
        output = None if row["output"] is None else row["output"].encode()
        return NodeOutput(node, BECOMES[row["state"]], output, row["too_large"], row["finished_at"])

    async def run_definition(self, tenant_id: str, run_id: UUID) -> bytes | None:
        """The definition of a run of no workflow."""
        async with self._database.scoped(tenant_id) as connection:
            found = await connection.fetchval(query("run_definition"), tenant_id, run_id)
        return None if found is None else str(found).encode()

    async def list_runs(
        self,
        tenant_id: str,
        workflow: str | None,
        status: WorkflowRunStatus | None,
        cursor: UUID | None,
        limit: int,
    ) -> WorkflowRunPage:
        """Runs older than `cursor`, newest first."""
        async with self._database.scoped(tenant_id) as connection:
            return await reading.page(connection, tenant_id, workflow, status, cursor, limit)


def _workflow_of(row: asyncpg.Record) -> WorkflowVersion:
    text = row["definition"]
    return WorkflowVersion(
        name=row["name"],
        version=row["version"],
        definition=b"" if text is None else text.encode(),
        created_at=row["created_at"],
        created_by=row["created_by"],
    )
