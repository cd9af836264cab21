"""Every way that a task of a workflow ends passes the gate; a new statement that ends tasks must
say how it does."""

import asyncio
import re
from typing import Any

import asyncpg
import pytest
from proof.workflows.runs import ComparedRun
from tests.integration.support import joined
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.queries import query, statements
from gnomon.workflow.graph import GraphNode, When
from gnomon.workflow.progress import NodeState

_ENDS = re.compile(r"DELETE FROM gnomon\.task\b(?!_)|\bSET state = (4|CASE\b.*\b4\b)")
# Statements that end many tasks at once call pass_nodes, once for all: children are counted in one
# order. The trigger on gnomon.task is enough for these, which end one task, or none of a workflow.
BY_TRIGGER = {
    "archive_task": "one task",
    "delete_task": "one task",
    "bury_node": "one task",
    "end_waiting_run": "a run of a cron job",
    "skip_runs": "runs of cron jobs",
    "withdraw_runs": "runs of cron jobs",
    "bury": "tasks that cannot be read or settled: mostly one",
}


def ending() -> set[str]:
    return {name for name in statements() if _ENDS.search(re.sub("--.*", "", query(name)))}


def test_every_statement_that_ends_tasks_passes_the_gate() -> None:
    calls = {name for name in ending() if "gnomon.pass_nodes(" in query(name)}
    assert {"settle", "bulk_finish", "bulk_delete", "skip_nodes"} <= calls
    assert ending() - calls == BY_TRIGGER.keys(), "call gnomon.pass_nodes, or say why not"


def test_who_keeps_the_trigger_from_firing_passes_the_gate() -> None:
    """gnomon.counts_members says that nodes are passed, too: see the triggers on gnomon.task."""
    silent = {name for name in statements() if "counts_members" in query(name)}
    assert silent
    assert all("gnomon.pass_nodes(" in query(name) for name in silent)


@pytest.fixture
async def run(database: Database, clock: SystemClock) -> ComparedRun:
    graph = {
        "a": GraphNode(),
        "b": GraphNode(("a",), When.ALL_DONE),
        "c": GraphNode(("a",)),
    }
    found = ComparedRun(database, graph, clock, await joined(database))
    await found.begin()
    return found


async def test_plain_sql_that_deletes_a_task_passes_it(
    run: ComparedRun, connection: "asyncpg.Connection[Any]"
) -> None:
    await connection.execute("DELETE FROM gnomon.task WHERE id = $1", run.ids["a"])
    run.model.cancel("a")
    await run.compare("plain SQL")
    assert run.model.states["b"] is NodeState.DUE


async def test_plain_sql_that_makes_a_dead_letter_passes_it_once(
    run: ComparedRun, connection: "asyncpg.Connection[Any]"
) -> None:
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", run.ids["a"])
    run.model.die("a")
    await run.compare("plain SQL")
    await run.redrive("a")
    await run.compare("a re-drive")
    await connection.execute("UPDATE gnomon.task SET state = 4 WHERE id = $1", run.ids["a"])
    run.model.die("a")
    await run.compare("another death")


async def test_who_completes_in_their_own_transaction_passes_it(
    run: ComparedRun, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    node = await connection.fetchval("SELECT incarnation FROM gnomon.node")
    key = TaskKey(DEFAULT_TENANT, run.ids["a"])
    (claimed,) = (await PostgresDispatch(database, 10.0).claim(node, [key])).deliveries
    async with connection.transaction():
        await connection.execute(
            "SELECT gnomon.complete_run($1, $2, $3, $4, $5)",
            DEFAULT_TENANT, key.id, claimed.fence, node, '{"x": 1}',
        )  # fmt: skip
    run.model.succeed("a")
    await run.compare("a transaction of a handler")
    row = await connection.fetchrow(
        "SELECT workflow_run_id, workflow_node FROM gnomon.task_archive WHERE id = $1", key.id
    )
    assert row is not None
    assert tuple(row) == (run.run_id, "a")
    output = await connection.fetchval(
        "SELECT output FROM gnomon.workflow_result WHERE task_id = $1", key.id
    )
    assert output == '{"x": 1}'


async def test_two_that_end_the_last_two_parents_at_once_start_the_child(
    database: Database, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    """To delete an edge and ask whether one is left would lose the child here."""
    graph = {"a": GraphNode(), "b": GraphNode(), "c": GraphNode(("a", "b"))}
    run = ComparedRun(database, graph, clock, await joined(database))
    await run.begin()
    async with database.transaction() as other:
        await other.execute("DELETE FROM gnomon.task WHERE id = $1", run.ids["a"])
        second = connection.execute("DELETE FROM gnomon.task WHERE id = $1", run.ids["b"])
        task = asyncio.ensure_future(second)

        async def waits() -> bool:
            return bool(await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

        await eventually(waits)
    await task
    run.model.cancel("a")
    run.model.cancel("b")
    await run.compare("both")
    assert run.model.is_over


async def test_a_node_that_is_counted_and_leaves_edges_keeps_both(
    database: Database, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    """A batch ends a node and one that it came after, and not all of their edges are used."""
    graph = {
        "a": GraphNode(),
        "late": GraphNode(),
        "b": GraphNode(("a", "late"), When.ANY_SUCCEEDED),
        "c": GraphNode(("b",)),
        "d": GraphNode(("b",)),
    }
    run = ComparedRun(database, graph, clock, await joined(database))
    await run.begin()
    for names, most in ((["a"], 2000), (["late", "b"], 3)):
        tenants, states = [DEFAULT_TENANT] * len(names), [10] * len(names)
        ids = [run.ids[name] for name in names]
        await connection.execute(
            "SELECT gnomon.pass_nodes($1, $2, $3, '{}', $4)", tenants, ids, states, most
        )
    row = await connection.fetchrow(
        "SELECT waits, succeeded, step FROM gnomon.workflow_node WHERE task_id = $1", run.ids["b"]
    )
    assert row is not None
    assert tuple(row) == (0, 2, 3)
