"""Tasks that a running node spawns: nodes of the run below it, stored with its success."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from proof.workflows.spawned import spawn_rules
from tests.conftest import PostgresServer, fresh_database, serving
from tests.integration.api_calls import Api, call
from tests.integration.support import joined
from tests.integration.test_workflow_waits import steps
from tests.integration.workflow_calls import RUNS, node, read, start, statuses
from tests.unit.sdk.claimed import delivery
from tests.waiting import eventually

from gnomon import CannotSpawn, Gnomon, TaskContext, WorkflowFailed
from gnomon.clock import SystemClock
from gnomon.model.errors import StoreError
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.model.workflow_errors import SpawnRefused
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.tasks.admitting import take_room
from gnomon.store.postgres.workflows.node_limits import TenantLimits
from gnomon.store.postgres.workflows.spawning import SpawnRules
from gnomon.store.postgres.workflows.workflow_steps import PostgresWorkflowSteps
from gnomon.testing import VirtualGnomon, virtual_gnomon

app = Gnomon()
visited: list[str] = []
broken: set[str] = set()


@app.task(retries=0)
async def visit(ctx: TaskContext, page: str, links: int) -> str:
    """Each page but the last ones has links; a broken one fails after it has spawned."""
    for number in range(links):
        ctx.spawn(visit_later, f"{page}.{number}", links - 1)
    if page in broken:
        raise ValueError(f"{page} is broken")
    visited.append(page)
    return page


@app.task(retries=0)
def visit_later(ctx: TaskContext, page: str, links: int) -> str:
    ids = [ctx.spawn(visit, f"{page}.{number}", links - 1) for number in range(links)]
    assert len(set(ids)) == links
    visited.append(page)
    return page


@app.task
async def count(first: str) -> str:
    return f"{first}: {len(visited)}"


@app.workflow
def crawl(page: str, links: int) -> str:
    first = visit.step(page, links)
    return count.step(first.output).output


@app.task
async def spawn_too_many(ctx: TaskContext) -> None:
    for _ in range(1001):
        ctx.spawn(count, "x")


@app.task
async def spawn_too_large(ctx: TaskContext) -> None:
    ctx.spawn(count, "x" * 300_000)


@app.task
async def spawn_later(ctx: TaskContext) -> None:
    ctx.spawn(count.options(delay="1h"), "x")


@app.workflow
def wrong() -> None:
    for task in (spawn_too_many, spawn_too_large, spawn_later):
        task.options(retries=0).step()


@pytest.fixture
async def g(postgres: PostgresServer) -> AsyncIterator[VirtualGnomon]:
    visited.clear()
    broken.clear()
    async with (
        fresh_database(postgres) as dsn,
        virtual_gnomon(app, database_url=dsn) as found,
    ):
        yield found


async def test_what_comes_after_waits_for_what_was_spawned(g: VirtualGnomon) -> None:
    run = await crawl.start("p", 3)
    assert await run.result() == "p: 16"  # 1 + 3 + 3 * 2 + 3 * 2 * 1
    found = (await run.run()).nodes
    assert [(each.node, each.spawned, each.spawned_ended) for each in found] == [
        ("visit", 3, 3),
        ("count", None, None),
    ]
    deepest = await g.client.get_node_output(run.id, "visit/2/1/0")
    assert deepest.result == "p.2.1.0"


async def test_a_try_that_fails_has_spawned_nothing_and_a_failed_spawn_holds_up_what_comes_after(
    g: VirtualGnomon,
) -> None:
    broken.update(("p", "p.0.0"))
    run = await crawl.start("p", 2)
    with pytest.raises(WorkflowFailed, match="visit: ValueError: p is broken"):
        await run.result()
    assert visited == []
    broken.remove("p")
    (dead,) = [each async for each in g.client.list_dead_letters()]
    await g.client.retry_dead_letter(dead.task_id)
    with pytest.raises(WorkflowFailed):
        await run.result()
    found = {each.node: each for each in (await run.run()).nodes}
    why = await g.client.explain_task(found["count"].task_id)
    assert "visit, which has spawned others: 1 of 2 have not ended" in why.summary
    assert "visit/0/0 is a dead letter" in why.summary
    (dead,) = [each async for each in g.client.list_dead_letters()]
    await g.client.discard_dead_letter(dead.task_id)
    with pytest.raises(WorkflowFailed):
        await run.result()
    became = [(await g.client.get_node_output(run.id, each)).became for each in ("visit", "count")]
    assert became == ["failed", "skipped"]


async def test_what_cannot_be_spawned_says_so(g: VirtualGnomon) -> None:
    in_a_run = TaskContext(msgspec.structs.replace(delivery("visit"), workflow_node="visit"))
    in_a_run.enter_transaction(object())
    with pytest.raises(CannotSpawn, match="transactional=True cannot spawn"):
        in_a_run.spawn(count, "x")
    run = await wrong.start()
    await g.drain()
    errors = {each.node: each.error or "" for each in (await run.run()).nodes}
    assert "an execution spawns at most 1000 tasks" in errors["spawn_too_many"]
    assert "at most 262144 bytes together" in errors["spawn_too_large"]
    assert "a spawned task has no delay=" in errors["spawn_later"]
    plain = await visit.submit("p", 1)
    await g.drain()
    assert "only a task of a workflow run can spawn" in ((await plain.task()).last_error or "")


async def spawner(
    api: Api, database: Database, clock: SystemClock, number: int
) -> tuple[Any, PostgresDispatch, Settlement]:
    """A run whose first node is running, and the end of that, with spawns."""
    incarnation = await joined(database)
    run = await start(api, {"first": node(), "next": node("x", "first")})
    dispatch = PostgresDispatch(database, 10.0, spawn_rules(clock))
    key = TaskKey(DEFAULT_TENANT, UUID(run["nodes"][0]["task_id"]))
    (claimed,) = (await dispatch.claim(incarnation, [key])).deliveries
    ended = Settlement(
        key=key,
        fence=claimed.fence,
        incarnation=incarnation,
        verdict=COMPLETE,
        outcome=OutcomeKind.SUCCEEDED,
        spawns=msgspec.json.encode([None] * number).decode(),
    )
    return run, dispatch, ended


async def spawned(connection: "asyncpg.Connection[Any]") -> int:
    number: int = await connection.fetchval(
        "SELECT count(*) FROM gnomon.task WHERE workflow_node LIKE '%/%'"
    )
    return number


async def test_a_node_that_is_killed_while_it_settles_has_spawned_nothing_and_its_heir_all(
    api: Api, database: Database, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    run, dispatch, ended = await spawner(api, database, clock, 20)
    for table in ("workflow_edge", "task_archive"):  # the tasks are stored; it is being settled
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE gnomon.{table} IN EXCLUSIVE MODE")
            doomed = asyncio.ensure_future(dispatch.settle_spawning(ended, None))

            async def waits() -> Any:
                return await connection.fetchval(
                    "SELECT pid FROM pg_locks WHERE NOT granted"
                    " AND pid <> pg_backend_pid() AND locktype = 'relation'"
                )

            pid = await eventually(waits)
            await connection.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreError):
            await doomed
        assert await spawned(connection) == 0
    both = await asyncio.gather(*(dispatch.settle_spawning(ended, None) for _ in range(2)))
    assert sorted(map(len, both)) == [0, 1]
    assert await spawned(connection) == 20
    again = await dispatch.settle_spawning(ended, None)
    assert again == [], "a repetition does nothing"
    await steps(database)
    found = await read(api, run)
    assert (found["nodes"][0]["spawned"], statuses(found)["next"]) == (20, "BLOCKED")
    # Whoever has settled it is gone; the chore of another node joins what it has spawned.
    await connection.execute("DELETE FROM gnomon.task WHERE workflow_node = 'first/0'")
    assert statuses(await read(api, run))["next"] == "BLOCKED"


async def test_a_run_that_is_paused_or_cancelled_starts_nothing_that_is_spawned(
    api: Api, database: Database, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    run, dispatch, ended = await spawner(api, database, clock, 3)
    await call(api, "POST", f"{RUNS}/{run['run_id']}/pause", 200)
    (settled,) = await dispatch.settle_spawning(ended, None)
    assert settled.children == ()
    query = "SELECT state FROM gnomon.task WHERE workflow_node LIKE '%/%'"
    assert [row["state"] for row in await connection.fetch(query)] == [2, 2, 2]
    await call(api, "POST", f"{RUNS}/{run['run_id']}/resume", 200)
    assert [row["state"] for row in await connection.fetch(query)] == [0, 0, 0]
    await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200)
    await steps(database)
    assert (await read(api, run))["status"] == "CANCELLED"
    run, dispatch, ended = await spawner(api, database, clock, 3)
    await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200)
    assert len(await dispatch.settle_spawning(ended, None)) == 1
    assert await spawned(connection) == 0
    await steps(database)
    assert (await read(api, run))["status"] == "CANCELLED"


async def test_a_quota_bounds_the_nodes_of_a_run_with_elements_and_spawned_ones(
    api: Api, database_dsn: str, database: Database, clock: SystemClock,
    connection: "asyncpg.Connection[Any]",
) -> None:  # fmt: skip
    run, _, ended = await spawner(api, database, clock, 3)
    few = TenantLimits(quotas_of=lambda _: Quotas(nodes_per_run=4))
    dispatch = PostgresDispatch(database, 10.0, SpawnRules(spawn_rules(clock).accept, few))
    with pytest.raises(SpawnRefused, match="has 2 nodes, and 3 more do not fit into the quota"):
        await dispatch.settle_spawning(ended, None)
    assert await spawned(connection) == 0
    # Of a run of the version before, they are counted.
    await connection.execute("UPDATE gnomon.workflow_run SET nodes = NULL")
    ended = msgspec.structs.replace(ended, spawns="[null, null]")
    assert len(await dispatch.settle_spawning(ended, None)) == 1
    assert await connection.fetchval("SELECT nodes FROM gnomon.workflow_run") == 4
    await call(api, "POST", f"{RUNS}/{run['run_id']}/cancel", 200)
    mapped = await start(api, {"each": node(map=[1, 2, 3, 4])})
    await PostgresWorkflowSteps(database, few).take()
    (each,) = (await read(api, mapped))["nodes"]
    assert "the run has 1 nodes, and 4 more do not fit" in each["error"]
    nodes = {f"n{number}": node() for number in range(11)}
    async with serving(database_dsn, api_max_run_nodes=10) as bounded:
        refused = await start(bounded, nodes, 429)
    assert (refused["quota"], refused["limit"]) == ("nodes_per_run", 10)


async def test_who_holds_the_quotas_of_a_tenant_holds_up_no_settlements(
    api: Api, database: Database, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    """A transaction of one's own may stay open while it is busy: the execution is tried again
    later, and what others have run is settled."""
    _, _, ended = await spawner(api, database, clock, 3)
    quotas = Quotas(scheduled_tasks=100)
    bounded = TenantLimits(quotas_of=lambda _: quotas)
    dispatch = PostgresDispatch(database, 10.0, SpawnRules(spawn_rules(clock).accept, bounded))
    async with database.transaction() as other:
        await take_room(other, DEFAULT_TENANT, quotas, 1)
        with pytest.raises(SpawnRefused, match="holds the quotas") as refused:
            await dispatch.settle_spawning(ended, None)
        # Nor the steps of other workflows.
        await start(api, {"each": node(map=[1, 2])})
        assert (await PostgresWorkflowSteps(database, bounded).take()).failed == []
    assert refused.value.retryable
    await PostgresWorkflowSteps(database, bounded).take()
    made = "SELECT expanded FROM gnomon.workflow_node WHERE node = 'each'"
    assert await connection.fetchval(made) == 2
    assert await spawned(connection) == 0
    assert len(await dispatch.settle_spawning(ended, None)) == 1
