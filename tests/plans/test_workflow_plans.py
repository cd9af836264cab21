"""Plans of statements that read workflows: what is asked is a tenant's or a run's, never all."""

from typing import Any

import pytest
from tests.integration.support import Connection, database_now
from tests.plans.test_hot_plans import FILL, plans
from tests.plans.test_list_plans import behind_the_wall

from gnomon.clock import new_id
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.work.tasks import HIGHEST_ID
from gnomon.store.postgres.retention.expired_rows import BY_INDEX

LARGE = {
    "workflow", "workflow_run", "workflow_node", "workflow_edge", "workflow_result", "task",
    "workflow_signal",
}  # fmt: skip


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    """Two hundred runs of a hundred nodes."""
    now = await database_now(connection)
    runs = [new_id(now) for _ in range(200)]
    nodes = [new_id(now) for _ in range(20_000)]
    await connection.execute(
        "INSERT INTO gnomon.workflow_run (tenant_id, id, created_at)"
        " SELECT $1, unnest($2::uuid[]), gnomon.now()",
        DEFAULT_TENANT, runs,
    )  # fmt: skip
    await connection.execute(
        """
        INSERT INTO gnomon.workflow_node (tenant_id, task_id, run_id, node, place)
        SELECT $1, n.id, ($3::uuid[])[n.place % 200 + 1], 'n' || n.place, n.place
        FROM unnest($2::uuid[]) WITH ORDINALITY AS n (id, place)
        """,
        DEFAULT_TENANT, nodes, runs,
    )  # fmt: skip
    await connection.execute(
        """
        INSERT INTO gnomon.workflow_edge (tenant_id, parent_id, child_id, at_death)
        SELECT tenant_id, task_id, run_id, false FROM gnomon.workflow_node
        """
    )
    await connection.execute(
        """
        INSERT INTO gnomon.workflow_result (tenant_id, task_id, run_id, node, state, finished_at)
        SELECT tenant_id, task_id, run_id, node, 1, gnomon.now() FROM gnomon.workflow_node
        """
    )
    await connection.execute(
        """
        INSERT INTO gnomon.workflow (tenant_id, name, version, digest, definition, created_at)
        SELECT 't' || n % 50, 'w' || n % 20, n, '', '{}', gnomon.now()
        FROM generate_series(1, 5000) AS n
        """
    )
    await connection.execute(
        """
        INSERT INTO gnomon.workflow_signal (tenant_id, run_id, name, sent_at)
        SELECT r.tenant_id, r.id, 's' || n, gnomon.now()
        FROM gnomon.workflow_run AS r, generate_series(1, 20) AS n
        """
    )
    await connection.execute("ANALYZE")
    return connection


async def test_reads_go_by_indexes(filled: Connection) -> None:
    run = await filled.fetchval("SELECT id FROM gnomon.workflow_run LIMIT 1")
    task = await filled.fetchval("SELECT task_id FROM gnomon.workflow_node LIMIT 1")
    asked: list[tuple[str, list[Any]]] = [
        ("get_run", [DEFAULT_TENANT, run]),
        ("run_nodes", [DEFAULT_TENANT, run]),
        ("run_output", [DEFAULT_TENANT, run, "n1"]),
        ("last_run_examined", [DEFAULT_TENANT, HIGHEST_ID, None]),
        ("last_run_examined", [DEFAULT_TENANT, HIGHEST_ID, "w1"]),
        ("run_definition", [DEFAULT_TENANT, run]),
        ("waited_for", [DEFAULT_TENANT, task]),
        ("get_workflow", ["t1", "w1", None]),
        ("turn_values", [DEFAULT_TENANT, run, ["n1"]]),
        ("workflow_steps", [500, []]),
        ("hold_spawning_node", [DEFAULT_TENANT, task]),
        ("add_nodes", [DEFAULT_TENANT, run, 3]),
        ("join_spawned", [DEFAULT_TENANT, task, [task]]),
        ("wake_waits", [500]),
        ("unended_runs", [[DEFAULT_TENANT], [run]]),
        ("map_outputs", [DEFAULT_TENANT, run, 10_000_000, 1000, 100]),
        ("send_signal", [DEFAULT_TENANT, run, "s", None, await database_now(filled), None, 9]),
        ("unended_nodes", [DEFAULT_TENANT, run, 500, False]),
    ]
    for name, args in asked:
        for used in await plans(filled, name, *args):
            assert not LARGE & used.read_whole - {"task"}, name


# What the API reads for a tenant, behind the wall.
OF_TENANTS = ("get_run", "run_nodes", "run_output", "run_definition", "waited_for", "list_runs")


async def test_a_tenant_reads_a_run_by_keys_beside_many_tasks(connection: Connection) -> None:
    """On tables never analyzed, and after that: conditions that may not look below the wall make
    a statement read all tasks of the tenant."""
    now = await database_now(connection)
    run, node = new_id(now), new_id(now)
    await connection.execute(FILL, 20_000, 0, None)
    await connection.execute(
        "INSERT INTO gnomon.workflow_run (tenant_id, id, created_at) VALUES ($1, $2, $3)",
        DEFAULT_TENANT, run, now,
    )  # fmt: skip
    await connection.execute(
        "INSERT INTO gnomon.workflow_node (tenant_id, task_id, run_id, node, place)"
        " VALUES ($1, $2, $3, 'a', 1)",
        DEFAULT_TENANT, node, run,
    )  # fmt: skip
    args: dict[str, list[Any]] = {key: [DEFAULT_TENANT, run] for key in OF_TENANTS}
    args["run_output"] = [DEFAULT_TENANT, run, "a"]
    args["waited_for"] = [DEFAULT_TENANT, node]
    args["list_runs"] = [DEFAULT_TENANT, HIGHEST_ID, None, None, None, None, 51]
    for known in ("never analyzed", "analyzed"):
        if known == "analyzed":
            await connection.execute("ANALYZE")
        for name in OF_TENANTS:
            async with behind_the_wall(connection):
                for used in await plans(connection, name, *args[name]):
                    assert "task" not in used.scanned, (name, known)


async def test_runs_past_retention_are_found_by_indexes(filled: Connection) -> None:
    await filled.execute(BY_INDEX.replace("SET LOCAL", "SET"))  # as it is for its transaction
    for used in await plans(filled, "remove_runs", await database_now(filled), 1000):
        assert not LARGE & used.read_whole
        assert "workflow_run_ended" in used.indexes


async def test_a_page_of_runs_has_a_bound(filled: Connection) -> None:
    args = [DEFAULT_TENANT, HIGHEST_ID, None, None, None, None, 51]
    for used in await plans(filled, "list_runs", *args):
        assert used.indexes >= {"workflow_run_pkey"} or used.indexes >= {"workflow_run_of"}
    for used in await plans(filled, "list_workflows", "t1"):
        assert "workflow" not in used.read_whole
