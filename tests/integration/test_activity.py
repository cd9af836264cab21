"""What nodes and API processes count is in the table, also where an event is not told."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, call
from tests.integration.completing import app
from tests.integration.nodes import call_of, running_node
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection, database_now, end_of, store, submission
from tests.integration.test_completion import APP, AT_ONCE
from tests.integration.test_recorder import SLOTS, workbench
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreUnavailable, Unstorable
from gnomon.model.fleet.retention import RowKind
from gnomon.model.insight.activity import ALL_TYPES, DELAYS, ActivityKey, Counts
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DeliveryMode
from gnomon.observe.tally import ActivityTally
from gnomon.store.ports.dispatch import Settled, Settlement, Taker
from gnomon.store.ports.insight.activity import ActivityRow
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores

Sums = dict[str, dict[str, Any]]
SUMS = """
SELECT task_type, sum(submitted)::int AS submitted, sum(started)::int AS started,
    sum(succeeded)::int AS succeeded, sum(failed)::int AS failed, sum(dead)::int AS dead,
    sum(seconds) AS seconds,
    sum((SELECT sum(d) FROM unnest(delays) AS d))::int AS delays
FROM gnomon.activity WHERE tenant_id = 'default' AND span = $1 GROUP BY task_type
"""


async def sums(connection: Connection, span: int = 1) -> Sums:
    return {row["task_type"]: dict(row) for row in await connection.fetch(SUMS, span)}


def told(found: Sums, task_type: str = ALL_TYPES) -> tuple[int, ...]:
    row = found[task_type]
    return row["submitted"], row["started"], row["succeeded"], row["failed"], row["dead"]


async def test_a_node_writes_what_it_started_and_how_it_ended(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    now = await database_now(connection)
    good = [call_of(now, "echo", task_type="good")[1] for _ in range(3)]
    _, bad = call_of(now, "reject", task_type="bad")
    async with running_node(database_dsn):
        for key in await store(database, *good, bad):
            await end_of(connection, key)
    found = await sums(connection)
    assert told(found, "good") == (0, 3, 3, 0, 0), "written when the node ends"
    assert told(found, "bad") == (0, 1, 0, 1, 1)
    assert told(found) == (0, 4, 3, 1, 1)
    assert found[ALL_TYPES]["delays"] == 4
    assert found[ALL_TYPES]["seconds"] > 0
    assert await sums(connection, 60) == found


async def test_a_handler_that_completes_its_task_itself_has_succeeded(
    database: Database,
    database_dsn: str,
    connection: Connection,
    superuser: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await connection.execute("CREATE TABLE public.effect (who text NOT NULL)")
    now = await database_now(connection)
    _, task = call_of(now, "book", delivery=DeliveryMode.EXACTLY_ONCE, retry_policy=AT_ONCE)
    async with login_role(superuser) as role:
        await grant(connection, role)
        await connection.execute(f"GRANT INSERT ON public.effect TO {role}")
        monkeypatch.setattr(app, "database", as_role(database_dsn, role))
        async with running_node(database_dsn, node_app=APP):
            (key,) = await store(database, task)
            await end_of(connection, key)
    assert told(await sums(connection)) == (0, 1, 1, 0, 0)


class LosingAnswers(PostgresDispatch):
    """Loses the answer to its first settlement."""

    lost = False

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        settled = await super().settle(settlements, taker)
        if not self.lost:
            self.lost = True
            raise StoreUnavailable("the connection was lost")
        return settled


async def test_a_settlement_whose_answer_was_lost_is_counted_once(
    database: Database, connection: Connection
) -> None:
    clock = SystemClock()
    tally = ActivityTally(clock)
    bench = await workbench(database, LosingAnswers(database, 10.0), clock, tally)
    now = await database_now(connection)
    await store(database, *(submission(now) for _ in range(2)))
    await bench.claim_and_report(2)
    assert (await bench.recorder.run_once(SLOTS)).refused == 2
    (counts,) = [each for keyed in tally.take().values() for each in keyed.values()]
    assert (counts.started, counts.succeeded) == (2, 2)


class Unstoring(PostgresDispatch):
    """Stores no outcome of a task."""

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        raise Unstorable("it does not fit")


async def test_a_task_whose_outcome_cannot_be_stored_is_counted_as_dead(
    database: Database, connection: Connection
) -> None:
    ahead = 0.0
    clock = SystemClock(lambda: time.monotonic() + ahead)
    tally = ActivityTally(clock)
    bench = await workbench(database, Unstoring(database, 10.0), clock, tally)
    await store(database, submission(await database_now(connection), task_type="odd"))
    await bench.claim_and_report(1)
    await bench.recorder.run_once(SLOTS)
    ahead = 600.0
    assert await bench.recorder.settle_again() == 1
    taken = [counts for keyed in tally.take().values() for counts in keyed.items()]
    assert {key.task_type for key, _ in taken} == {"odd"}
    assert sum(counts.dead for _, counts in taken) == 1
    assert sum(counts.succeeded for _, counts in taken) == 0


async def test_a_row_that_cannot_be_read_is_counted_as_dead(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    (key,) = await store(database, submission(await database_now(connection), task_type="odd"))
    await connection.execute("""UPDATE gnomon.task SET target = '{"type": "?"}'""")
    async with running_node(database_dsn):
        await end_of(connection, key)
    assert told(await sums(connection), "odd") == (0, 0, 0, 0, 1)


async def test_the_api_writes_what_was_submitted_and_a_node_what_its_jobs_fired(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn) as api:
        await call(api, "POST", TASKS, 202, LATER)
        await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [LATER, LATER]})
        for _ in range(2):  # a replay stores nothing
            await call(api, "POST", TASKS, 202, LATER | {"idempotency_key": "one"})
        job = {"name": "tick", "interval_seconds": 1, "task_type": "tick"}
        await call(api, "POST", "/api/v1/cron-jobs", 201, BODY | job)
    assert told(await sums(connection), "mail") == (4, 0, 0, 0, 0)
    async with running_node(database_dsn):

        async def has_run() -> bool:
            found: int = await connection.fetchval("SELECT count(*) FROM gnomon.occurrence")
            return found > 2

        await eventually(has_run)
        # No run is stored while the node is told to stop: it would not hear of it, nor count it.
        await connection.execute(
            "UPDATE gnomon.cron_job SET paused_at = gnomon.now(), next_fire_at = NULL"
        )
    runs = await connection.fetchval(
        "SELECT count(*) FROM gnomon.occurrence WHERE task_id IS NOT NULL"
    )
    assert (await sums(connection))["tick"]["submitted"] == runs


async def test_processes_add_to_the_same_rows_and_never_wait_for_each_other(
    database: Database, connection: Connection
) -> None:
    at = (await database_now(connection)).replace(second=0, microsecond=0)
    activity = PostgresActivity(database)
    keys = [ActivityKey(f"t{n % 7}", f"type {n}", Lane(n % 4)) for n in range(60)]

    def rows(order: list[ActivityKey]) -> list[ActivityRow]:
        one = Counts(submitted=1, started=1, seconds=0.5, delays=[1] + [0] * (DELAYS - 1))
        return [
            ActivityRow(key, at + timedelta(minutes=minute), one)
            for key in order
            for minute in (0, 1)
        ]

    async with asyncio.timeout(60):
        await asyncio.gather(*(activity.add(rows(keys[n:] + keys[:n])) for n in range(24)))
    found = await connection.fetchrow(
        "SELECT sum(submitted)::int AS submitted, sum(delays[1])::int AS delays, "
        "sum(seconds) AS seconds FROM gnomon.activity WHERE span = 60"
    )
    assert dict(found or {}) == {"submitted": 2880, "delays": 2880, "seconds": 1440.0}


async def test_minutes_are_kept_for_a_day_and_hours_for_as_long_as_asked_for(
    database: Database, connection: Connection
) -> None:
    await connection.execute(
        """
        INSERT INTO gnomon.activity
        SELECT 'default', span, '', gnomon.now() - make_interval(hours => h), 0,
            1, 0, 0, 0, 0, 0, '{}'
        FROM generate_series(0, 300, 2) AS h, unnest('{1, 60}'::smallint[]) AS span
        """
    )
    chores = PostgresChores(database)
    removed = 0
    while (batch := await chores.remove(RowKind.ACTIVITY, 20, 10.0)).more:
        removed += batch.removed
    rows = await connection.fetch(
        "SELECT span, count(*) AS number FROM gnomon.activity GROUP BY span ORDER BY span"
    )
    assert [(row["span"], row["number"]) for row in rows] == [(1, 13), (60, 120)]
    assert removed + batch.removed == 151 * 2 - 13 - 120
