"""Pages of batches and of runs: whatever is asked for, a bounded number is examined."""

from tests.integration.support import Connection, database_now

from gnomon.clock import new_id
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.batches.batch_store import PostgresBatches
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.workflows.workflow_store import PostgresWorkflows
from gnomon.workflow.batch import BatchStatus
from gnomon.workflow.run import WorkflowRunStatus


async def test_what_is_older_than_all_that_is_examined_is_on_a_later_page(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    oldest = new_id(now)
    await connection.execute(
        """
        INSERT INTO gnomon.batch (tenant_id, id, deadline, created_at, state)
        SELECT $1, $2::uuid, $3::timestamptz, $3, 0
        UNION ALL
        SELECT $1, ('ffffffff-ffff-7fff-8fff-' || lpad(n::text, 12, '0'))::uuid, $3, $3, 1
        FROM generate_series(1, 10000) AS n
        """,
        DEFAULT_TENANT, oldest, now,
    )  # fmt: skip
    await connection.execute(
        "INSERT INTO gnomon.workflow_run (tenant_id, id, created_at, workflow, state)"
        " SELECT tenant_id, id, created_at, 'w', state * 10 FROM gnomon.batch"
    )
    batches = PostgresBatches(database)
    first = await batches.list(DEFAULT_TENANT, BatchStatus.OPEN, None, 50)
    assert [*first.batches] == []
    second = await batches.list(DEFAULT_TENANT, BatchStatus.OPEN, first.more, 50)
    assert [each.batch_id for each in second.batches] == [oldest]
    assert second.more is None
    runs, running = PostgresWorkflows(database), WorkflowRunStatus.RUNNING
    for workflow in (None, "w"):
        page = await runs.list_runs(DEFAULT_TENANT, workflow, running, None, 50)
        assert [*page.runs] == []
        rest = await runs.list_runs(DEFAULT_TENANT, workflow, running, page.more, 50)
        assert [each.run_id for each in rest.runs] == [oldest]
        assert rest.more is None
