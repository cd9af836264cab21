"""gnomon.submit: a task in the transaction of whoever calls it, held to the rules of the API."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest
from tests.conftest import serving
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection, blocked_by
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.tasks.priority import Lane
from gnomon.node.maintenance.submission_counter import SubmissionCounter
from gnomon.observe.tally import ActivityTally
from gnomon.settings.queues import QueueConnection
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.usage.uncounted import PostgresUncounted
from gnomon.usecases.tasks.task_requests import SubmitTask

INVALID, FORBIDDEN, QUOTA, KEY_USED, SCHEMA = "GN101", "GN102", "GN103", "GN104", "GN105"


@pytest.fixture
async def role(superuser: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        yield found


@pytest.fixture
async def app(database_dsn: str, connection: Connection, role: str) -> AsyncIterator[Connection]:
    """A connection of an application, whose role may submit for the tenant `default`."""
    await grant(connection, role)
    found = await asyncpg.connect(as_role(database_dsn, role))
    yield found
    await found.close()


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[aiohttp.ClientSession]:
    orders = QueueConnection("redis://127.0.0.1:1")
    async with serving(database_dsn, targets_queues={"orders": orders}) as client:
        yield client


async def submit(app: Connection, body: Any, **more: Any) -> UUID:
    found: UUID = await app.fetchval(
        "SELECT gnomon.submit($1, checked_schema => $2)", json.dumps(body), more.get("checked")
    )
    return found


async def refused(app: Connection, body: Any, **more: Any) -> asyncpg.PostgresError:
    with pytest.raises(asyncpg.PostgresError) as error:
        await submit(app, body, **more)
    return error.value


_STORED = """
SELECT lane, state, delivery, execute_at - due_at AS waits, expires_at, retries_left,
    timeout_seconds, payload_size, task_type, name, target::jsonb AS target,
    payload::text AS payload, retry_of,
    (SELECT original FROM gnomon.task_copy AS c WHERE c.id = t.id) AS original,
    retry_policy::jsonb AS retry_policy, tags, idempotency_key, gated, preemptible, queue,
    limit_keys, flow, keep_payload, sla_seconds, warn_after_seconds, origin::jsonb AS origin,
    log_transitions,
    (SELECT p.payload::text FROM gnomon.task_payload AS p
     WHERE p.tenant_id = t.tenant_id AND p.task_id = t.id) AS apart
FROM gnomon.task AS t WHERE id = $1
"""
EVERYTHING = {
    "task_type": "send_email",
    "target": {
        "type": "http",
        "url": "https://example.com:8443/a?b=c",
        "method": "PUT",
        "headers": {"X-Shop": "7", "Accept": "*/*"},
    },
    "priority": "HIGH",
    "delivery": "exactly_once",
    "retry_policy": {"max_retries": 5, "backoff": "linear", "jitter": False, "base_seconds": 2.5},
    "timeout_seconds": 12.5,
    "tags": ["b", "a", "b"],
    "queue": "mail",
    "preemptible": True,
    "keep_payload": "failed",
    "sla_seconds": 60,
    "warn_after_seconds": 10,
    "name": "Grüße",
    "payload": {"to": "a@example.com", "n": [1, 2.5, None, "\n"]},
    "execute_at": "2199-01-01T09:00:00.25+02:00",
    "expires_at": "2199-01-02T00:00:00Z",
    "idempotency_key": "k-1",
    "correlation_id": "order-7",
}
ACCEPTED: list[dict[str, Any]] = [
    {"task_type": "send_email"},
    EVERYTHING,
    {"task_type": "t", "payload": None},
    {"task_type": "t", "payload": "x" * 5000},
    {"task_type": "t", "callback_url": "http://localhost/x"},
    {"task_type": "t", "target": {"type": "queue", "url": "queue://orders/created:eu", "key": "k"}},
    {
        "task_type": "t",
        "target": {"type": "grpc", "url": "grpc://localhost:50051/shop.Orders/Ship"},
    },
    {
        "task_type": "t",
        "target": {
            "type": "grpc",
            "url": "grpcs://[::1]/shop.Orders/Ship",
            "headers": {"Authorization": "x y"},
            "descriptor_set": "aGVsbG8=",
        },
    },
    {"task_type": "t", "callback_url": "http://[::1]:80/x", "callback_method": "GET"},
    {"task_type": "t", "target": {"type": "python", "function": "f"}, "priority": "LOW"},
    {"task_type": "t", "retry_policy": {"max_retries": 3, "max_seconds": 60.0}},
    {"task_type": "t", "delivery": "at_most_once"},
    {"task_type": "t", "queue": None, "expires_at": None, "name": None, "sla_seconds": None},
    {"task_type": "t", "delay_seconds": 3600},
    {"task_type": "t", "retry_of": "0199c0de-0000-7000-8000-000000000001"},
    {"task_type": "typed"},
    {"task_type": "typed", "queue": None, "priority": "LOW", "delivery": "at_most_once"},
    {"task_type": "typed", "payload": {"shop": {"id": "7"}, "n": [1]}, "queue": "other"},
]


@pytest.mark.parametrize("body", ACCEPTED)
async def test_the_same_is_stored_as_over_http(
    body: dict[str, Any], app: Connection, api: aiohttp.ClientSession, connection: Connection
) -> None:
    defaults = {
        "priority": "HIGH",
        "retry_policy": {"max_retries": 7},
        "preemptible": True,
        "queue": "typed",
        "tags": ["x"],
        "log_transitions": True,
        "sla_seconds": 5,
        "warn_after_seconds": 7,
    }
    for name, key in (("shops", "/shop/id"), ("first", "/n/0"), ("none", "/m")):
        limiter = {"concurrency": 5, "key": key, "task_type": "typed"}
        assert (await api.put(f"/api/v1/limiters/{name}", json=limiter)).status < 300
    await api.put("/api/v1/task-types/typed", json={"defaults": defaults})

    async def learnt() -> bool:
        """The API has read what it was told."""
        answer = await api.post("/api/v1/tasks", json={"task_type": "typed", "delay_seconds": 9})
        return bool((await answer.json())["queue"] == "typed")

    await eventually(learnt)
    answer = await api.post("/api/v1/tasks", json=body)
    assert answer.status == 202, await answer.text()
    over_http = await connection.fetchrow(_STORED, UUID((await answer.json())["task_id"]))
    if "idempotency_key" in body:
        await connection.execute("DELETE FROM gnomon.idempotency")
    text = json.dumps(body, separators=(",", ":"))
    if "payload" in body:  # as aiohttp writes it
        text = json.dumps(body)
    found = await app.fetchval("SELECT gnomon.submit($1)", text)
    by_sql = await connection.fetchrow(_STORED, found)
    assert over_http is not None
    assert by_sql is not None
    times = {"waits"}
    assert {k: v for k, v in by_sql.items() if k not in times} == {
        k: v for k, v in over_http.items() if k not in times
    }
    assert abs((by_sql["waits"] - over_http["waits"]).total_seconds()) < 1


REFUSED: list[Any] = [
    {},
    [],
    7,
    {"task_type": ""},
    {"task_type": None},
    {"task_type": 7},
    {"task_type": "x" * 201},
    {"task_type": "a\nb"},
    {"task_type": "t", "prioritty": "LOW"},
    {"task_type": "t", "priority": "low"},
    {"task_type": "t", "priority": None},
    {"task_type": "t", "delivery": "twice"},
    {"task_type": "t", "retry_policy": {"max_retries": -1}},
    {"task_type": "t", "retry_policy": {"max_retries": 1.5}},
    {"task_type": "t", "retry_policy": {"max_retries": 1001}},
    {"task_type": "t", "retry_policy": {"tries": 1}},
    {"task_type": "t", "retry_policy": {"backoff": "none"}},
    {"task_type": "t", "retry_policy": {"base_seconds": "1"}},
    {"task_type": "t", "retry_policy": None},
    {"task_type": "t", "delivery": "at_most_once", "retry_policy": {"max_retries": 1}},
    {"task_type": "t", "delivery": "at_most_once", "preemptible": True},
    {"task_type": "t", "timeout_seconds": 0},
    {"task_type": "t", "timeout_seconds": 86401},
    {"task_type": "t", "timeout_seconds": "30"},
    {"task_type": "t", "tags": "a"},
    {"task_type": "t", "tags": [""]},
    {"task_type": "t", "tags": ["a"] * 33},
    {"task_type": "t", "tags": ["a\tb"]},
    {"task_type": "t", "queue": ""},
    {"task_type": "t", "queue": "x" * 101},
    {"task_type": "t", "preemptible": "yes"},
    {"task_type": "t", "keep_payload": "no"},
    {"task_type": "t", "sla_seconds": 0},
    {"task_type": "t", "warn_after_seconds": 90000},
    {"task_type": "t", "name": "x" * 201},
    {"task_type": "t", "execute_at": "2030-01-01T09:00:00"},
    {"task_type": "t", "execute_at": "tomorrow"},
    {"task_type": "t", "execute_at": "2200-01-01T09:00:00Z"},
    {"task_type": "t", "execute_at": "2030-01-01T09:00:00Z", "delay_seconds": 1},
    {"task_type": "t", "delay_seconds": -1},
    {"task_type": "t", "jitter_seconds": 86401},
    {"task_type": "t", "expires_at": "2020-01-01T09:00:00Z"},
    {"task_type": "t", "idempotency_key": ""},
    {"task_type": "t", "idempotency_key": " k"},
    {"task_type": "t", "idempotency_key": "x" * 256},
    {"task_type": "t", "correlation_id": "a b"},
    {"task_type": "t", "retry_of": "x"},
    {"task_type": "t", "retry_of": 7},
    {"task_type": "t", "target": {"type": "grpc"}},
    {"task_type": "t", "target": {"type": "notification", "host": "a", "on_behalf_of": "b"}},
    {"task_type": "t", "target": {"type": "python"}},
    {"task_type": "t", "target": {"type": "python", "function": ""}},
    *(
        {"task_type": "t", "target": {"type": "grpc", "url": url}}
        for url in (
            "grpc://a:50051/",
            "grpc://a:50051/shop.Orders",
            "grpc://a/shop.Orders/Ship?x=1",
            "http://a/shop.Orders/Ship",
            "grpc:///shop.Orders/Ship",
            "grpc://u@a/shop.Orders/Ship",
            "grpc://a/shop.Orders/Ship/",
            "grpc://a/1shop.Orders/Ship",
            "grpc://a/shop..O/Ship",
        )
    ),
    *(
        {"task_type": "t", "target": {"type": "grpc", "url": "grpc://a/s.O/M", "headers": headers}}
        for headers in (
            {"grpc-timeout": "1"},
            {"x-bin": "a"},
            {"X": "é"},
            {"X": "***"},
            {"a!": "b"},
        )
    ),
    {
        "task_type": "t",
        "target": {"type": "grpc", "url": "grpc://a/s.O/M", "descriptor_set": "no base64"},
    },
    {"task_type": "t", "target": {"type": "grpc", "url": "grpc://a/s.O/M", "method": "POST"}},
    *(
        {"task_type": "t", "target": {"type": "queue", "url": url}}
        for url in ("queue://orders", "queue://Orders/a", "queue://orders/", "queue://o/a b", "x")
    ),
    {"task_type": "t", "target": {"type": "queue", "url": "queue://o/a", "key": ""}},
    {"task_type": "t", "target": {"type": "queue", "url": "queue://o/a", "method": "POST"}},
    {"task_type": "t", "target": {"type": "http"}},
    {"task_type": "t", "target": {"type": "http", "url": "ftp://example.com"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a b/"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://u:p@example.com/"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://example.com:0/"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://example.com:99999/"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a..b/"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://[::zz]/"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/?token=***"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/", "method": "HEAD"}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/", "headers": {"Host": "b"}}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/", "headers": {"X": "a\nb"}}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/", "headers": {"X": "***"}}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/", "headers": {"a b": "c"}}},
    {"task_type": "t", "target": {"type": "http", "url": "http://a/", "colour": "red"}},
    {"task_type": "t", "target": {"type": "python", "function": "f"}, "callback_url": "http://a"},
    {"task_type": "t", "callback_method": "GET"},
    {"task_type": "t", "callback_url": "example.com"},
    {"task_type": "t", "payload": "x" * 300_000},
]


async def test_what_is_refused_over_http_is_refused(
    app: Connection, api: aiohttp.ClientSession
) -> None:
    for body in REFUSED:
        answer = await api.post("/api/v1/tasks", json=body)
        assert answer.status in (413, 422), (body, await answer.text())
        error = await refused(app, body)
        assert error.sqlstate == INVALID, (body, error)


async def test_a_null_character_is_refused_in_the_words_of_postgres(app: Connection) -> None:
    """Over HTTP a payload may hold one; PostgreSQL reads no JSON that does."""
    error = await refused(app, {"task_type": "t", "payload": "\0"})
    assert isinstance(error, asyncpg.UntranslatableCharacterError)


async def test_it_knows_the_fields_of_the_api(app: Connection) -> None:
    error = await refused(app, {"task_type": "t", "colour": "red"})
    known = str(error).partition("known are ")[2].split(", ")
    # Closing a batch would wait for the transaction of whoever puts tasks in by SQL.
    assert set(known) == set(SubmitTask.__struct_fields__) - {"batch_id"}


async def test_what_only_the_api_takes_is_refused_as_such(app: Connection) -> None:
    for field in ("on_success", "on_failure", "batch_id"):
        error = await refused(app, {"task_type": "t", field: {"task_type": "t"}})
        assert error.sqlstate == INVALID
        assert str(error).startswith(f"/{field}: is not for gnomon.submit: callbacks and members")


async def test_a_message_says_where_and_what_would_be_right(app: Connection) -> None:
    error = await refused(app, {"task_type": "t", "priority": "urgent"})
    assert str(error) == '/priority: must be one of CRITICAL, HIGH, MEDIUM, LOW, got "urgent"'


async def test_a_task_is_there_when_its_transaction_commits(
    app: Connection, connection: Connection
) -> None:
    kept = app.transaction()
    await kept.start()
    first = await submit(app, {"task_type": "t"})
    inner = app.transaction()
    await inner.start()
    await submit(app, {"task_type": "t"})
    await inner.rollback()
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0
    await kept.commit()
    assert await connection.fetchval("SELECT id FROM gnomon.task") == first


async def test_many_are_submitted_by_one_statement(app: Connection, connection: Connection) -> None:
    await app.execute(
        "SELECT gnomon.submit(json_build_object('task_type', 't', 'payload', n))"
        " FROM generate_series(1, 500) AS n"
    )
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 500


async def test_a_role_without_a_grant_is_refused(
    database_dsn: str, connection: Connection, role: str
) -> None:
    stranger = await asyncpg.connect(as_role(database_dsn, role))
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await submit(stranger, {"task_type": "t"})
        await connection.execute(f"GRANT USAGE ON SCHEMA gnomon TO {role}")
        await connection.execute(
            f"GRANT EXECUTE ON FUNCTION gnomon.submit(json, text, text) TO {role}"
        )
        error = await refused(stranger, {"task_type": "t"})
        assert (error.sqlstate, error.hint) == (
            FORBIDDEN,
            f"Let an operator run: gnomon tenants grant-role TENANT {role}",
        )
    finally:
        await stranger.close()


async def test_a_role_submits_for_its_tenant_and_has_no_other_rights(
    database_dsn: str, connection: Connection, role: str
) -> None:
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('mine'), ('theirs')")
    await grant(connection, role, "mine")
    app = await asyncpg.connect(as_role(database_dsn, role))
    try:
        await app.execute("SET gnomon.tenant = 'theirs'")
        found = await submit(app, {"task_type": "t"})
        row = await connection.fetchrow("SELECT * FROM gnomon.task WHERE id = $1", found)
        assert row is not None
        assert (row["tenant_id"], row["created_by"]) == ("mine", f"role {role}")
        tables = await connection.fetch(
            "SELECT format('%I.%I', 'gnomon', c.relname) AS name FROM pg_class AS c"
            " WHERE c.relnamespace = 'gnomon'::regnamespace AND c.relkind IN ('r', 'p', 'v')"
        )
        for table in tables:
            for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                assert not await app.fetchval(
                    "SELECT has_table_privilege($1, $2)", table["name"], right
                ), table
        privileged = await connection.fetch(
            "SELECT 'gnomon.' || p.proname AS name FROM pg_proc AS p"
            " WHERE p.pronamespace = 'gnomon'::regnamespace AND p.prosecdef"
            " AND has_function_privilege($1::text, p.oid, 'EXECUTE')",
            role,
        )
        assert {row["name"] for row in privileged} <= {
            "gnomon.submit",
            "gnomon.hint",
            "gnomon.payload_schema",
            "gnomon.complete",
            "gnomon.revise",  # a trigger, which refuses other tables than Gnomon's
        }
        for call in ("gnomon.grant_role('x', 'theirs')", "gnomon.revoke_role('x')"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await app.execute(f"SELECT {call}")
        assert await connection.fetchval("SELECT gnomon.revoke_role($1::text::name)", role)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await submit(app, {"task_type": "t"})
    finally:
        await app.close()


async def test_triggers_of_other_tables_cannot_use_the_rights_of_the_owner(
    app: Connection,
) -> None:
    await app.execute("CREATE TEMPORARY TABLE own (id text)")
    await app.execute(
        "CREATE TRIGGER bump AFTER INSERT ON own REFERENCING NEW TABLE AS changed"
        " FOR EACH STATEMENT EXECUTE FUNCTION gnomon.revise('id')"
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="tables of the schema gnomon"):
        await app.execute("INSERT INTO own VALUES ('theirs')")


async def test_settings_of_the_session_change_nothing(app: Connection) -> None:
    """A function with the rights of its owner must not be led astray by its caller."""
    await app.execute("CREATE TEMPORARY TABLE role_grant (role name, tenant_id text)")
    await app.execute("SET search_path = pg_temp, public")
    await app.execute("SET standard_conforming_strings = off; SET DateStyle = 'German'")
    await app.execute("SET TimeZone = 'Asia/Tokyo'; SET row_security = off")
    error = await refused(app, {"task_type": "t", "execute_at": "tomorrow"})
    assert error.sqlstate == INVALID
    error = await refused(app, {"task_type": "a\tb"})
    assert error.sqlstate == INVALID
    await submit(app, {"task_type": "t", "execute_at": "2030-02-01T09:00:00Z"})


async def test_limits_of_a_grant_hold(
    database_dsn: str, connection: Connection, app: Connection, role: str
) -> None:
    await grant(
        connection,
        role,
        task_types=["mail", "call"],
        functions=["billing.*", "mail"],
        hosts=["example.com:8443", "*.example.org", "[::1]"],
    )
    await submit(app, {"task_type": "mail"})
    assert (await refused(app, {"task_type": "other"})).sqlstate == FORBIDDEN
    for function, state in (("billing.x", None), ("bill", FORBIDDEN), ("mailing", FORBIDDEN)):
        body = {"task_type": "mail", "target": {"type": "python", "function": function}}
        if state is None:
            await submit(app, body)
        else:
            assert (await refused(app, body)).sqlstate == state
    for url in (
        "https://example.com:8443/",
        "http://EXAMPLE.com.:8443/x",
        "http://a.example.org",
        "http://[0:0::1]:99/",
    ):
        await submit(app, {"task_type": "call", "callback_url": url})
    for url in (
        "https://example.com/",
        "http://example.org/",
        "http://xexample.org",
        "http://a.example.org.evil.com/",
        "http://evil.com/?.example.org",
        "http://evil.com#.example.org",
        "http://[::2]/",
    ):
        error = await refused(app, {"task_type": "call", "callback_url": url})
        assert error.sqlstate == FORBIDDEN, url
    await grant(connection, role)
    await connection.execute("UPDATE gnomon.tenant SET hosts = '{only.me}' WHERE id = 'default'")
    error = await refused(app, {"task_type": "call", "callback_url": "http://you/"})
    assert error.sqlstate == FORBIDDEN
    await submit(app, {"task_type": "call", "callback_url": "http://only.me/"})
    for host in ("you:80", "you.only.me"):
        grpc = {"type": "grpc", "url": f"grpc://{host}/a.B/C"}
        await refused(app, {"task_type": "call", "target": grpc})
    grpc = {"type": "grpc", "url": "grpc://only.me/a.B/C"}
    await submit(app, {"task_type": "call", "target": grpc})


async def test_a_key_gives_the_same_task_again(app: Connection, connection: Connection) -> None:
    body = {"task_type": "t", "payload": {"a": 1, "b": "\n"}, "idempotency_key": "k"}
    first = await submit(app, body)
    again = {"idempotency_key": "k", "correlation_id": "c", "task_type": "t"}
    assert await submit(app, again | {"payload": {"a": 1, "b": "\n"}}) == first
    error = await refused(app, body | {"payload": {"a": 2}})
    assert error.sqlstate == KEY_USED
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 1
    await connection.execute("UPDATE gnomon.idempotency SET expires_at = 'epoch'")
    assert await submit(app, body) != first


async def test_only_who_has_the_same_key_waits(
    app: Connection, database_dsn: str, role: str, connection: Connection
) -> None:
    other = await asyncpg.connect(as_role(database_dsn, role))
    body = {"task_type": "t", "idempotency_key": "k"}
    opened = app.transaction()
    await opened.start()
    first = await submit(app, body)
    await submit(other, body | {"idempotency_key": "another"})
    again = asyncio.ensure_future(submit(other, body))

    async def waits() -> bool:
        return bool(await blocked_by(app))

    await eventually(waits)
    await opened.commit()
    assert await again == first
    await other.close()


QUOTAS = {
    "scheduled_tasks": 3,
    "submissions_per_second": 1000,
    "payload_bytes": 100,
    "stored_bytes": 1_000_000,
}


async def _with_quotas(connection: Connection, **quotas: int) -> None:
    await connection.execute(
        "UPDATE gnomon.tenant SET quotas = $1 WHERE id = 'default'", json.dumps(QUOTAS | quotas)
    )


async def test_quotas_hold(app: Connection, connection: Connection) -> None:
    await _with_quotas(connection)
    error = await refused(app, {"task_type": "t", "payload": "x" * 200})
    assert (error.sqlstate, error.as_dict()["message"]) == (
        QUOTA,
        "the quota payload_bytes of the tenant is 100, and 202 are used",
    )
    for _ in range(3):
        await submit(app, {"task_type": "t"})
    assert "scheduled_tasks" in str(await refused(app, {"task_type": "t"}))
    await _with_quotas(connection, scheduled_tasks=100, stored_bytes=600)
    assert "stored_bytes" in str(await refused(app, {"task_type": "t"}))
    await _with_quotas(connection, scheduled_tasks=100, submissions_per_second=2)

    async def a_second_is_over() -> bool:
        used = await connection.fetchval("SELECT gnomon.used_pace('default', gnomon.now())")
        return bool(used == 0)

    await eventually(a_second_is_over)
    async with app.transaction():
        await submit(app, {"task_type": "t"})
        await submit(app, {"task_type": "t"})
        with pytest.raises(asyncpg.PostgresError, match="submissions_per_second"):
            async with app.transaction():
                await submit(app, {"task_type": "t"})


async def test_an_open_transaction_delays_nobody(
    app: Connection,
    database_dsn: str,
    role: str,
    connection: Connection,
    api: aiohttp.ClientSession,
) -> None:
    """Of the same tenant, with all its quotas: neither by SQL nor over HTTP."""
    await _with_quotas(connection, scheduled_tasks=1000, payload_bytes=10_000)
    assert (await api.post("/api/v1/tasks", json={"task_type": "t"})).status == 202
    other = await asyncpg.connect(as_role(database_dsn, role))
    try:
        async with app.transaction():
            await submit(app, {"task_type": "t", "payload": "x" * 3000})
            await other.execute("SET lock_timeout = '1ms'")
            for _ in range(20):
                await submit(other, {"task_type": "t", "payload": "y" * 3000})
            for _ in range(20):
                answer = await api.post("/api/v1/tasks", json={"task_type": "t"})
                assert answer.status == 202
            assert await blocked_by(app) == []
    finally:
        await other.close()


async def test_nodes_see_since_when_an_open_transaction_stores(
    app: Connection, database_dsn: str, superuser: Connection
) -> None:
    """Its rows are due since then once they can be seen, however long it was open. Also where the
    role of the nodes may not see when transactions of other roles began."""
    async with login_role(superuser) as blind:
        await superuser.execute(f"GRANT USAGE ON SCHEMA gnomon TO {blind}")
        node = await asyncpg.connect(as_role(database_dsn, blind))

        async def began() -> dict[int, datetime]:
            row = await node.fetchrow(query("open_writers"))
            assert row is not None
            return dict(zip(row["sessions"], row["began"], strict=True))

        async with app.transaction():
            session = await app.fetchval("SELECT pg_backend_pid()")
            before = await app.fetchval("SELECT now() FROM pg_current_xact_id()")
            assert session not in await began()
            await submit(app, {"task_type": "t"})
            await submit(app, {"task_type": "t"})
            assert timedelta(0) <= before - (await began())[session] < timedelta(seconds=1)
        assert session not in await began()
        await node.close()


async def test_locks_that_others_hold_are_not_waited_for(
    app: Connection, database_dsn: str, superuser: Connection
) -> None:
    """Any role of the database can take advisory locks."""
    session = await app.fetchval("SELECT pg_backend_pid()")
    locks = "SELECT pg_advisory_lock(1735550318, gnomon.began_key(gnomon.now()) + n)"
    await superuser.execute(f"{locks} FROM generate_series(-3, 60) AS n")
    await app.execute("SET statement_timeout = '5s'")
    try:
        async with app.transaction():
            await submit(app, {"task_type": "t"})
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = $1"
            assert await superuser.fetchval(held, session) == 1
        await superuser.execute(f"{locks} FROM generate_series(-200, 60) AS n")
        error = await refused(app, {"task_type": "t"})
        assert error.sqlstate == "GN106"
    finally:
        await superuser.execute("SELECT pg_advisory_unlock_all()")
    await submit(app, {"task_type": "t"})


async def test_nodes_count_what_was_submitted(
    app: Connection, connection: Connection, database: Database, clock: SystemClock
) -> None:
    await _with_quotas(connection, scheduled_tasks=10)
    quotas = Quotas(scheduled_tasks=10)
    tally = ActivityTally(clock)
    counter = SubmissionCounter(PostgresUncounted(database), lambda _: quotas, tally)
    await submit(app, {"task_type": "t", "priority": "LOW"})
    await submit(app, {"task_type": "t"})
    assert await counter.run_once() == 0  # within the second, for the sake of the pace
    await connection.execute("UPDATE gnomon.uncounted_submission SET at = at - interval '9 s'")
    async with app.transaction():
        await submit(app, {"task_type": "open"})
        assert await counter.run_once() == 2
    (keyed,) = tally.take().values()
    assert {(key.task_type, key.lane): counts.submitted for key, counts in keyed.items()} == {
        ("t", Lane.LOW): 1,
        ("t", Lane.MEDIUM): 1,
    }
    assert await connection.fetchval("SELECT sum(room) FROM gnomon.tenant_room") == 8
    await connection.execute("UPDATE gnomon.uncounted_submission SET at = at - interval '9 s'")
    assert await counter.run_once() == 1
    assert await connection.fetchval("SELECT sum(room) FROM gnomon.tenant_room") == 7
    assert await connection.fetchval("SELECT gnomon.left_room('default', 10)") == 7


async def test_the_settings_of_the_api_hold(app: Connection, database_dsn: str) -> None:
    plans = {"unlimited": {"payload_bytes": 50}}
    async with serving(database_dsn, api_max_payload_bytes=100, sharing_plans=plans):
        assert "at most 100 are kept" in str(
            await refused(app, {"task_type": "t", "payload": "x" * 101})
        )
        error = await refused(app, {"task_type": "t", "payload": "x" * 60})
        assert error.sqlstate == QUOTA


async def test_payloads_of_a_type_with_a_schema_must_be_checked(
    app: Connection, api: aiohttp.ClientSession
) -> None:
    assert await app.fetchrow("SELECT * FROM gnomon.payload_schema('t')") is None
    schema = {"type": "object", "required": ["to"]}
    await api.put("/api/v1/task-types/t", json={"schema": schema})
    error = await refused(app, {"task_type": "t", "payload": {}})
    assert error.sqlstate == SCHEMA
    row = await app.fetchrow("SELECT * FROM gnomon.payload_schema('t')")
    assert row is not None
    assert json.loads(row["schema"]) == schema
    await submit(app, {"task_type": "t", "payload": {"to": 1}}, checked=row["digest"])
    await api.put("/api/v1/task-types/t", json={"schema": {"type": "array"}})
    error = await refused(app, {"task_type": "t", "payload": {"to": 1}}, checked=row["digest"])
    assert error.sqlstate == SCHEMA
    await api.put("/api/v1/task-types/t", json={"defaults": {"priority": "LOW"}})
    await submit(app, {"task_type": "t", "payload": {"to": 1}})


async def test_nothing_is_stored_while_there_is_no_room(
    app: Connection, connection: Connection
) -> None:
    await connection.execute(
        "UPDATE gnomon.revision"
        " SET full_until = gnomon.now() + interval '1 minute', full_why = 'little room'"
    )
    assert "little room" in str(await refused(app, {"task_type": "t"}))


async def test_a_task_for_a_crowded_lane_is_refused(
    app: Connection, connection: Connection
) -> None:
    tenant = await connection.fetchval("SELECT tenant_id FROM gnomon.role_grant")
    await connection.execute(
        "INSERT INTO gnomon.crowded_lane VALUES ($1, 3, 120, 100, false, 7)", tenant
    )
    await connection.execute("UPDATE gnomon.revision SET crowded_at = gnomon.now()")
    low = {"task_type": "t", "priority": "LOW"}
    error = await refused(app, low)
    assert error.sqlstate == "GN103"
    assert "120 tasks are due and wait, and the quota ready_tasks is 100" in str(error)
    await submit(app, {"task_type": "t"})
    await submit(app, {**low, "delay_seconds": 120})
    await connection.execute("UPDATE gnomon.revision SET crowded_at = crowded_at - interval '15 s'")
    await submit(app, low)


async def test_a_trace_is_kept_where_it_is_sampled(app: Connection, connection: Connection) -> None:
    sampled = f"00-{'a' * 32}-{'b' * 16}-01"
    for given, kept in ((sampled, sampled), (f"00-{'a' * 32}-{'b' * 16}-00", None), ("x", None)):
        found = await app.fetchval(
            "SELECT gnomon.submit($1, traceparent => $2)", '{"task_type": "t"}', given
        )
        stored = await connection.fetchval(
            "SELECT origin ->> 'traceparent' FROM gnomon.task WHERE id = $1", found
        )
        assert stored == kept
