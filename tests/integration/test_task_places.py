"""Shard and flow of a task: the same, whoever writes it."""

import json
import re
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection, database_now, store, submission

from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query, statements

# As PostgreSQL generated them, before they were written.
MISPLACED = """
SELECT t.id FROM gnomon.task AS t
WHERE t.shard <> get_byte(uuid_send(t.id), 15)
   OR t.flow <> hashtextextended(
       t.task_type || E'\\x1f' || coalesce(t.queue, '') || E'\\x1f' || coalesce(t.limit_keys, '')
           || E'\\x1f' || coalesce(split_part(t.target ->> 'url', '/', 3), ''),
       0
   )
"""
A, B = HttpTarget("https://a.example/x"), HttpTarget("https://b.example:8443/x")
LARGE = json.dumps("x" * 5000).encode()
# Batches in which some of what a flow is made of differs, or is left out.
BATCHES: dict[str, list[dict[str, Any]]] = {
    "one": [{"task_type": "a", "target": A, "queue": "q", "limit_keys": '{"k":"v"}'}],
    "alike": [{"target": A}] * 3,
    "alike, of a handler": [{"target": PythonTarget("nothing")}] * 3,
    "types": [{"task_type": "a"}, {"task_type": "b"}],
    "hosts": [{"target": A}, {"target": B}],
    "queues": [{"queue": "q"}, {}, {}],
    "limit keys": [{}, {"limit_keys": '{"k":"v"}'}],
    "kept apart": [{"target": A, "payload": LARGE}, {"target": A}],
}


async def misplaced(connection: Connection) -> list[UUID]:
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task")
    return [row["id"] for row in await connection.fetch(MISPLACED)]


def test_whoever_writes_a_task_writes_its_place() -> None:
    inserts = {
        name for name in statements() if re.search(r"INSERT INTO gnomon\.task\b", query(name))
    }
    assert inserts == {"insert_plain_tasks", "insert_tasks"}
    assert all("shard, flow)" in query(name) for name in inserts)
    made_of = re.compile(r"\b(?:task_type|queue|limit_keys|target) = ")
    for name in statements():
        for change in re.findall(
            r"UPDATE gnomon\.task\b.*?SET (.*?)(?=\n\s*(?:FROM|WHERE)\b|$)", query(name), re.DOTALL
        ):
            assert not made_of.search(change) or "flow = gnomon.flow_of(" in change, name


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
async def test_of_every_batch(
    database: Database, connection: Connection, batch: list[dict[str, Any]]
) -> None:
    now = await database_now(connection)
    await store(database, *(submission(now, **fields) for fields in batch))
    assert await misplaced(connection) == []


async def test_of_plain_sql(connection: Connection) -> None:
    task_id = await connection.fetchval(
        "INSERT INTO gnomon.task (tenant_id, id, task_type, target)"
        " VALUES ('default', '01890000-0000-7000-8000-000000000007', 'a', '{\"url\": \"http://a/x\"}')"
        " RETURNING id"
    )
    assert await misplaced(connection) == []
    changes = (
        "task_type = 'b'",
        "queue = 'q'",
        "limit_keys = '{}'",
        'target = \'{"url": "http://b/x"}\'',
        "id = '01890000-0000-7000-8000-000000000008'",
        "shard = 300",
        "flow = 1, queue = NULL",
        "fence = fence + 1",
    )
    places = set()
    for change in changes:
        await connection.execute(f"UPDATE gnomon.task SET {change}")
        assert await misplaced(connection) == [], change
        places.add(await connection.fetchval("SELECT flow FROM gnomon.task"))
    assert len(places) == 5
    assert await connection.fetchval("SELECT id FROM gnomon.task") != task_id


async def test_of_gnomon_submit(
    database_dsn: str, connection: Connection, superuser: Connection
) -> None:
    async with login_role(superuser) as role:
        await grant(connection, role)
        app = await asyncpg.connect(as_role(database_dsn, role))
        body = {"task_type": "a", "callback_url": "https://a.example/x", "queue": "q"}
        await app.fetchval("SELECT gnomon.submit($1)", json.dumps(body))
        await app.close()
    assert await misplaced(connection) == []


async def test_of_a_patch(api: Api, connection: Connection) -> None:
    body = {"task_type": "a", "callback_url": "https://a.example/x", "delay_seconds": 60}
    task = await call(api, "POST", TASKS, 202, body)
    flows = {await connection.fetchval("SELECT flow FROM gnomon.task")}
    for change in ({"queue": "q"}, {"callback_url": "https://b.example/x"}):
        await call(api, "PATCH", f"{TASKS}/{task['task_id']}", 200, change)
        assert await misplaced(connection) == []
        flows.add(await connection.fetchval("SELECT flow FROM gnomon.task"))
    assert len(flows) == 3


async def test_of_what_limiters_find(database: Database, connection: Connection) -> None:
    (key,) = await store(database, submission(await database_now(connection), queue="q"))
    before = await connection.fetchval("SELECT flow FROM gnomon.task")
    keys = (key.tenant_id, key.id, '{"k":"v"}')
    after = await connection.fetchval(query("set_limit_keys"), *keys)
    assert after == await connection.fetchval("SELECT flow FROM gnomon.task") != before
    assert await misplaced(connection) == []


@pytest.mark.parametrize("target", [None, '{"url": "http://b/x"}'])
@pytest.mark.parametrize("payload", [None, "{}"])
async def test_of_a_node_that_is_filled_in(
    database: Database, connection: Connection, target: str | None, payload: str | None
) -> None:
    now = await database_now(connection)
    (key,) = await store(database, submission(now, target=A, limit_keys='{"k":"v"}'))
    changes = (payload is not None, payload, None, target, '{"k":"w"}')
    await connection.execute(query("fill_node"), key.tenant_id, key.id, *changes)
    assert await misplaced(connection) == []
