"""Nodes that serve only certain tenants, types, queues or lanes."""

from collections.abc import Sequence
from datetime import datetime

import pytest
from tests.integration.nodes import SETTINGS, call_of, running_node
from tests.integration.support import Connection, archived, database_now, live, store
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.fleet.pool import Pool, Territory, Work
from gnomon.model.insight.explanation import explain
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import Submission, TaskKey
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.node.ahead.scanner import Scanner
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.limits.permits import PostgresLimits
from gnomon.store.postgres.tasks import reading

ALL = frozenset(range(256))


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


def calls(now: datetime, count: int, **values: object) -> list[Submission]:
    return [call_of(now, "echo", **values)[1] for _ in range(count)]


async def workers(connection: Connection, keys: Sequence[TaskKey]) -> set[str]:
    """Who has run these, once they all have been."""

    async def look() -> list[str] | None:
        rows = [await archived(connection, key) for key in keys]
        return [row["worker"] for row in rows if row is not None] if all(rows) else None

    return set(await eventually(look))


async def test_each_node_runs_what_its_pool_says(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    async with (
        running_node(database_dsn, node_name="a", node_serve_tenants=("a",)),
        running_node(
            database_dsn, node_name="mail", node_serve_types=("mail",), node_serve_queues=("q",)
        ),
        running_node(database_dsn, node_name="low", node_serve_lanes=("LOW",)),
    ):
        of_a = await store(database, *calls(now, 40, tenant_id="a", priority=Lane.HIGH))
        mail = await store(database, *calls(now, 40, task_type="mail", queue="q"))
        low = await store(database, *calls(now, 40, priority=Lane.LOW))
        both = await store(database, *calls(now, 40, tenant_id="a", priority=Lane.LOW))
        nobodys = await store(database, *calls(now, 3, task_type="mail"))
        assert await workers(connection, of_a) == {"a"}
        assert await workers(connection, mail) == {"mail"}
        assert await workers(connection, low) == {"low"}
        assert await workers(connection, both) == {"a", "low"}, "they share what both serve"
        for key in nobodys:
            row = await live(connection, key)
            assert row is not None
            assert (row["state"], row["attempt"], row["fence"]) == (0, 0, 0)
        told = explain(
            await reading.get(database, nobodys[0]),
            await reading.circumstances(database, nobodys[0]),
        )
        assert "none of those in the roster serves tenant default, lane MEDIUM, handler mail" in (
            told.summary
        )
        assert await PostgresRoster(database).unserved() == [
            Work("default", Lane.MEDIUM, "mail", by_handler=True)
        ]
        async with running_node(database_dsn, node_name="rest"):
            assert await workers(connection, nobodys) == {"rest"}


async def test_the_pool_of_a_node_that_dies_is_served_by_its_others(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    async with (
        running_node(database_dsn, node_name="b", node_serve_tenants=("b",)),
        running_node(database_dsn, node_name="a1", node_serve_tenants=("a",)),
        running_node(database_dsn, node_name="a2", node_serve_tenants=("a",)) as second,
    ):
        first = await store(database, *calls(now, 60, tenant_id="a"))
        assert await workers(connection, first) == {"a1", "a2"}
        await second.kill()
        after = await store(database, *calls(now, 60, tenant_id="a"))
        assert await workers(connection, after) == {"a1"}


async def test_foreign_work_takes_no_place_in_memory(
    database: Database, connection: Connection, now: datetime
) -> None:
    mine = await store(database, *calls(now, 5, task_type="mail"))
    await store(database, *calls(now, 50, task_type="other"))
    clock, flows = SystemClock(), FlowBook()
    agenda = Agenda(FairQueue[Entry](), clock.now(), 1000)
    looks: list[bool] = []
    tasks = PostgresDispatch(database, 5.0)
    scanner = Scanner(tasks, agenda, clock, SETTINGS.node, flows, lambda: looks.append(True))
    scanner.own(Territory(ALL, Pool(types=frozenset({"mail"}))))
    assert (await scanner.forward()).read == len(mine)
    assert (await scanner.repair()).read == len(mine)

    # A hint does not say the type of a task.
    row = await connection.fetchrow("SELECT * FROM gnomon.task WHERE task_type = 'other'")
    assert row is not None
    entry = Entry(TaskKey(row["tenant_id"], row["id"]), row["due_at"], Lane.LOW, flow=row["flow"])
    assert scanner.hinted([entry]) == 0
    assert looks == [True]
    await flows.look_up(PostgresLimits(database).flows_of)
    assert scanner.hinted([entry]) == 0
    assert looks == [True], "it is known by now"
