"""The hot statements on a table of some size: which indexes they walk, and which never.

A plan that is right today and wrong after the next ANALYZE ruins a node, so both kinds are held
to it: the custom plan, made for the values, and the generic one, made once for all.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.integration.support import Connection, database_now

from gnomon.clock import new_incarnation
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.queries import query

ROWS = 50_000
RUNNING = 2_000
NODE = new_incarnation()

FILL = """
INSERT INTO gnomon.task (
    tenant_id, id, task_type, target, due_at, state, node, fence, attempt, run_until
)
SELECT 'default', made.id, 'x', '{"type": "python", "function": "f"}',
    gnomon.now() + make_interval(secs => n - 100),
    CASE WHEN n <= $2 THEN 1 ELSE 0 END,
    CASE WHEN n <= $2 THEN $3::uuid END,
    CASE WHEN n <= $2 THEN 1 ELSE 0 END,
    CASE WHEN n <= $2 THEN 1 ELSE 0 END,
    CASE WHEN n <= $2 THEN gnomon.now() + interval '1 minute' END
FROM generate_series(1, $1) AS n
CROSS JOIN LATERAL (
    SELECT (
        lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint), 12, '0')
        || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15)
    )::uuid AS id
) AS made
"""

_SESSION = """
INSERT INTO gnomon.node (
    incarnation, name, version, slots, started_at, alive_until, kind, gateway
)
SELECT gen_random_uuid(), 's', '1', 10, gnomon.now(), gnomon.now() + interval '1 hour', 2,
    (SELECT incarnation FROM gnomon.node LIMIT 1)
FROM generate_series(1, 2000)
RETURNING gateway, incarnation
"""


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await connection.execute(FILL, ROWS, RUNNING, NODE)
    await connection.execute(
        """
        INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
        VALUES ($1, 'n', '1', 10, gnomon.now(), gnomon.now() + interval '1 hour')
        """,
        NODE,
    )
    await connection.execute("ANALYZE gnomon.task")
    return connection


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes_of(part)


class Used:
    """How a plan reads the table of live tasks."""

    def __init__(self, plan: dict[str, Any]) -> None:
        nodes = list(nodes_of(plan))
        self.indexes = {n["Index Name"] for n in nodes if "Index Name" in n}
        self.of_tasks = {name for name in self.indexes if name.startswith("task_")}
        self.scanned = {
            n["Relation Name"] for n in nodes if n["Node Type"] in ("Seq Scan", "Bitmap Heap Scan")
        }
        self.read_whole = {n["Relation Name"] for n in nodes if n["Node Type"] == "Seq Scan"}
        self.of_pages = {n["Relation Name"] for n in nodes if n["Node Type"] == "Tid Range Scan"}


# Of tables how often they were read from end to end, of indexes how often they were used.
_SCANS = """
SELECT relname, pg_stat_get_xact_numscans(oid) FROM pg_class
WHERE relnamespace = 'gnomon'::regnamespace AND relkind IN ('r', 'i') AND relname ~ $1
"""
_OF_TASKS = "^(task|cron_job)($|_(?!archive|payload|type))"


async def reads(
    connection: Connection, name: str, *args: Any, of: str = _OF_TASKS
) -> list[set[str]]:
    """The tables that a function has read from end to end and the indexes that it has used, by a
    custom and by a generic plan: the plan itself cannot be asked for. What it writes is rolled
    back, so that both find the same."""
    found = []
    for mode in ("force_custom_plan", "force_generic_plan"):
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            before = dict(await connection.fetch(_SCANS, of))
            await connection.fetch(query(name), *args)
            after = dict(await connection.fetch(_SCANS, of))
        finally:
            await transaction.rollback()
        found.append({name for name in after if after[name] > before[name]})
    return found


async def plans(connection: Connection, name: str, *args: Any) -> list[Used]:
    """The custom and the generic plan of a statement, without running it."""
    found = []
    for mode in ("force_custom_plan", "force_generic_plan"):
        async with connection.transaction():
            await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            found.append(Used(await explained(connection, name, *args)))
    return found


async def explained(
    connection: Connection, name: str, *args: Any, options: str = ""
) -> dict[str, Any]:
    """The plan of a statement, by the settings that are in force; with `ANALYZE` among the options
    it is run."""
    parameters = (await connection.prepare(query(name))).get_parameters()
    await connection.execute(f"PREPARE hot {_listed(p.name for p in parameters)} AS {query(name)}")
    values = [
        await _literal(connection, p.name, value) for p, value in zip(parameters, args, strict=True)
    ]
    text = await connection.fetchval(
        f"EXPLAIN (FORMAT JSON{options}) EXECUTE hot {_listed(values)}"
    )
    await connection.execute("DEALLOCATE hot")
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


def _listed(items: Iterable[str]) -> str:
    """In parentheses, which PREPARE refuses where there is nothing in them."""
    text = ", ".join(items)
    return f"({text})" if text else ""


async def _literal(connection: Connection, type_name: str, value: Any) -> str:
    """A value as the server would write it, cast to its type."""
    text = await connection.fetchval(f"SELECT quote_nullable($1::{type_name}::text)", value)
    return f"{text}::{type_name}"


# Whether a node has a pool; its tenants, lanes, types and queues.
NO_POOL: tuple[Any, ...] = (False, None, None, None, None, True, None)
A_POOL: tuple[Any, ...] = (True, ["a"], [1, 2], ["mail"], None, True, None)
OF_WEBHOOKS: tuple[Any, ...] = (True, None, None, None, None, True, [])
OF_A_WORKER: tuple[Any, ...] = (True, ["a"], None, None, None, False, ["mail"])


async def some_keys(connection: Connection, state: int, count: int) -> list[UUID]:
    rows = await connection.fetch(
        "SELECT id FROM gnomon.task WHERE state = $1 ORDER BY due_at LIMIT $2", state, count
    )
    return [row["id"] for row in rows]


async def test_reading_ahead_and_behind_walks_the_index_of_what_is_due(filled: Connection) -> None:
    now = await database_now(filled)
    shards, ids = list(range(256)), [UUID(int=0)] * 256
    since, horizon = now - timedelta(seconds=5), now + timedelta(seconds=15)
    for pool in (NO_POOL, A_POOL, OF_WEBHOOKS, OF_A_WORKER):
        within = (*pool, ['[{"tenants": ["b"]}]'])
        ahead = await reads(filled, "scan", shards, [since] * 256, ids, horizon, 100, *within)
        behind = await reads(
            filled, "repair", shards, [horizon] * 256, ids, [since] * 256, now, 100, *within
        )
        for used in (*ahead, *behind):
            assert used == {"task_due"}


async def test_a_backlog_is_read_by_the_index_of_flows(filled: Connection) -> None:
    now = await database_now(filled)
    flow = await filled.fetchval("SELECT flow FROM gnomon.task LIMIT 1")
    found = await reads(filled, "flows", "", 0, -(2**63), 2000, [], [], [], [])
    heads = await reads(
        filled, "heads", [DEFAULT_TENANT] * 50, [2] * 50, [flow] * 50, [now] * 50,
        [UUID(int=0)] * 50, [10] * 50, list(range(256)),
    )  # fmt: skip
    for used in (*found, *heads):
        assert used == {"task_flow"}


async def test_stealing_walks_the_index_of_what_is_due(filled: Connection) -> None:
    for count, pool in ((1, NO_POOL), (128, A_POOL), (255, OF_WEBHOOKS), (255, OF_A_WORKER)):
        for used in await reads(filled, "steal", list(range(count)), 1.0, 4, 1000, 1, *pool):
            assert used == {"task_due"}


async def test_a_claim_goes_by_primary_key_alone(filled: Connection) -> None:
    for count in (1, 30, 1000):
        keys = await some_keys(filled, 0, count)
        for used in await plans(
            filled, "claim", NODE, [DEFAULT_TENANT], keys, 10.0, False, [7], 0.0
        ):
            assert used.of_tasks == {"task_pkey"}
            assert "task" not in used.scanned


async def test_a_claim_for_sessions_goes_by_primary_key_alone(filled: Connection) -> None:
    row = await filled.fetchrow(_SESSION)
    assert row is not None
    gateway, session = row
    for count in (1, 30, 1000):
        keys = await some_keys(filled, 0, count)
        for sessions in ([session], [session] * count):
            args = [gateway, [DEFAULT_TENANT], keys, 10.0, False, [7], sessions]
            for used in await plans(filled, "claim_for_sessions", *args):
                assert used.of_tasks == {"task_pkey"}
                assert "task" not in used.scanned


async def test_the_consent_to_begin_goes_by_primary_key_alone(filled: Connection) -> None:
    for count in (1, 30, 1000):
        keys = await some_keys(filled, 1, count)
        args = [[NODE], [DEFAULT_TENANT] * count, keys, [1] * count]
        for used in await plans(filled, "begin", *args):
            assert used.of_tasks == {"task_pkey"}
            assert "task" not in used.scanned


async def test_a_settlement_goes_by_primary_key_alone(filled: Connection) -> None:
    now = (await database_now(filled)).timestamp()
    for count in (1, 30, 1000):
        keys = await some_keys(filled, 1, count)
        args = [
            [DEFAULT_TENANT], keys, [1], [NODE], [0], [0], [0.0], [False], [0],
            [now] * count, [now] * count, ["w"], [None], [200], ["ok"], [None], [False],
            [None], [None],
        ]  # fmt: skip
        taker = NODE, 10.0, 16, None, None
        for addresses in ([None], [(0, 1)] * count):
            for used in await plans(filled, "settle", *args, addresses, *taker):
                assert used.of_tasks == {"task_pkey"}
                assert "task" not in used.scanned


async def test_a_settlement_that_knows_where_its_rows_are_reads_no_index(
    filled: Connection,
) -> None:
    now = (await database_now(filled)).timestamp()
    rows = await filled.fetch(
        "SELECT id, ctid FROM gnomon.task WHERE state = 1 ORDER BY id LIMIT 20"
    )
    ids, addresses = [row["id"] for row in rows], [row["ctid"] for row in rows]
    same = ["w"], [None], [200], ["ok"], [None], [False], [None], [None]
    for half, known, read in (
        (slice(10), addresses[:10], set()),
        (slice(10, 20), [None], {"task_pkey"}),
    ):
        args = [
            [DEFAULT_TENANT], ids[half], [1], [NODE], [0], [0], [0.0], [False], [0], [now] * 10,
            [now] * 10, *same, known, *[None] * 5,
        ]  # fmt: skip
        async with filled.transaction():
            before = dict(await filled.fetch(_SCANS, _OF_TASKS))
            (settled,) = await filled.fetch(query("settle"), *args)
            after = dict(await filled.fetch(_SCANS, _OF_TASKS))
        assert len(settled["places"]) == 10
        assert {name for name in after if after[name] > before[name]} == read


async def test_a_look_at_all_nodes_has_a_bound(filled: Connection) -> None:
    for used in await plans(filled, "due_by_shard", 100, *[True] * 5):
        assert used.of_tasks == {"task_due"}
        assert not used.scanned
    for used in await plans(filled, "nodes", 1000):
        assert used.of_tasks == {"task_running"}
        assert "task" not in used.scanned


async def test_the_sweeper_walks_the_index_of_what_runs(filled: Connection) -> None:
    for name, argument in (("orphans", 500), ("overdue", 500), ("running_on", NODE)):
        for used in await plans(filled, name, argument):
            assert used.of_tasks == {"task_running"}
            assert "task" not in used.scanned
