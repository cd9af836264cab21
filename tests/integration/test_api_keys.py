"""Who is let in, as whom, and how keys are made, rotated and ended."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.api.http.listener import listen
from gnomon.settings import SettingsError
from gnomon.store.postgres.database import Database

KEYS = "/api/v1/keys"
DEAD = "/api/v1/dead-letters"
CRON = "/api/v1/cron-jobs"
JOB = {"name": "nightly", "task_type": "mail", "callback_url": "http://127.0.0.1:9/",
       "cron_expression": "0 3 * * *"}  # fmt: skip
READER = {"name": "reader", "roles": ["read"]}

Api = aiohttp.ClientSession


@pytest.fixture
async def secured(database_dsn: str) -> AsyncIterator[Api]:
    """A client of an API that asks who one is."""
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as client:
        yield client


@pytest.fixture
async def admin(database: Database) -> dict[str, str]:
    """The headers of an administrator of the tenant `default`."""
    _, key = await make_key(database, name="boss", roles=[Role.ADMIN])
    return bearer(key)


async def refused(api: Api, header: str | None) -> tuple[int, str, dict[str, Any]]:
    headers = {} if header is None else {"Authorization": header}
    async with api.get(TASKS, headers=headers) as answer:
        return answer.status, answer.headers["WWW-Authenticate"], await answer.json()


async def test_nobody_is_let_in_without_a_key_that_is_known(
    secured: Api, database: Database
) -> None:
    _, expired = await make_key(database, name="old")
    key_id, revoked = await make_key(database, name="gone")
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE gnomon.api_key SET expires_at = gnomon.now() WHERE name = 'old'"
        )
        await connection.execute(
            "UPDATE gnomon.api_key SET revoked_at = gnomon.now() WHERE id = $1", key_id
        )
    _, unknown = await make_key(database, name="never")
    async with database.connection() as connection:
        await connection.execute("DELETE FROM gnomon.api_key WHERE name = 'never'")

    for header in (None, "", "Bearer", "Bearer ", "Basic YTpi", unknown):
        status, challenge, problem = await refused(secured, header)
        assert (status, challenge) == (401, "Bearer"), header
        assert "Authorization: Bearer" in problem["detail"]

    wrong = [expired, revoked, unknown, unknown[:-1], "gn_", "abc", "a.b.c", "é", "x" * 20_000]
    answers = [await refused(secured, f"Bearer {key}") for key in wrong]
    assert answers == [answers[0]] * len(wrong)  # which of these it is, is not told
    assert answers[0][:2] == (401, 'Bearer error="invalid_token"')


async def test_what_is_open_stays_open(secured: Api) -> None:
    for path in ("/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/docs", "/sign-in"):
        async with secured.get(path, allow_redirects=False) as answer:
            assert answer.status in (200, 307), path
    async with secured.get("/metrics") as answer:
        assert answer.status == 401


async def test_a_large_body_is_refused_with_an_answer(secured: Api, database: Database) -> None:
    _, reads = await make_key(database, name="reader", roles=[Role.READ])
    assert await _sent_whole(secured, "gn_no") == (401, "Unauthorized")
    assert await _sent_whole(secured, reads) == (403, "Forbidden")


async def _sent_whole(api: Api, key: str) -> tuple[int, str]:
    """What a client is told that looks for an answer only when it has sent all, as most do."""
    size = 16 * 1024 * 1024  # more than the system takes from it before anybody reads
    assert api._base_url is not None
    reader, writer = await asyncio.open_connection(api._base_url.host, api._base_url.port)
    writer.write(
        f"POST {TASKS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()
    )
    for _ in range(256):
        writer.write(b"x" * (size // 256))
        await writer.drain()
    status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
    problem = msgspec.json.decode(await reader.readuntil(b"}"))
    writer.close()
    return status, problem["title"]


async def test_tasks_and_cron_jobs_say_by_whom_they_are(secured: Api, database: Database) -> None:
    _, key = await make_key(database, name="robot")
    _, other = await make_key(database, name="person")
    task = await call(secured, "POST", TASKS, 202, LATER, headers=bearer(key))
    assert task["created_by"] == "robot"
    read = await call(secured, "GET", f"{TASKS}/{task['task_id']}", 200, headers=bearer(key))
    assert read["created_by"] == "robot"
    await call(secured, "POST", f"{TASKS}/{task['task_id']}/cancel", 200, headers=bearer(key))
    again = f"{TASKS}/{task['task_id']}/retry"
    repeated = await call(secured, "POST", again, 202, headers=bearer(other))
    assert (repeated["created_by"], repeated["retry_of"]) == ("person", task["task_id"])
    job = await call(secured, "POST", CRON, 201, JOB, headers=bearer(other))
    assert job["created_by"] == "person"
    put = await call(secured, "PUT", f"{CRON}/nightly", 200, JOB, headers=bearer(key))
    assert put["cron_job"]["created_by"] == "person"
    run = await call(secured, "POST", f"{CRON}/nightly/trigger", 202, headers=bearer(key))
    made = await call(secured, "GET", f"{TASKS}/{run['run_id']}", 200, headers=bearer(key))
    assert made["created_by"] == "person"


async def test_tenants_do_not_see_each_other(secured: Api, database: Database) -> None:
    await make_tenant(database, "acme")
    _, theirs = await make_key(database, "acme")
    _, ours = await make_key(database)
    task = await call(secured, "POST", TASKS, 202, LATER, headers=bearer(theirs))
    path = f"{TASKS}/{task['task_id']}"
    await call(secured, "GET", path, 200, headers=bearer(theirs))
    await call(secured, "GET", path, 404, headers=bearer(ours))
    assert (await call(secured, "GET", TASKS, 200, headers=bearer(ours)))["tasks"] == []
    tenant = await call(secured, "GET", "/api/v1/tenant", 200, headers=bearer(theirs))
    assert (tenant["tenant_id"], tenant["plan"], tenant["weight"]) == ("acme", "unlimited", 1.0)
    assert tenant["quotas"]["scheduled_tasks"] is None


async def test_a_key_is_held_to_its_task_types(secured: Api, database: Database) -> None:
    _, all_types = await make_key(database, name="all")
    _, some = await make_key(database, name="some", task_types=["mail", "sms"])
    headers, full = bearer(some), bearer(all_types)
    other = BODY | {"task_type": "payment"}

    async def forbidden(method: str, path: str, body: Any = None, at: str = "/task_type") -> None:
        problem = await call(secured, method, path, 403, body, headers=headers)
        assert problem["errors"][0]["pointer"] == at
        assert "mail, sms" in problem["detail"]

    await call(secured, "POST", TASKS, 202, LATER, headers=headers)
    await forbidden("POST", TASKS, other)
    await forbidden("POST", f"{TASKS}/batch", {"tasks": [LATER, other]}, "/tasks/1/task_type")
    stored = await call(secured, "GET", TASKS, 200, headers=full)
    assert len(stored["tasks"]) == 1

    await call(secured, "POST", CRON, 201, JOB, headers=headers)
    payments = JOB | {"task_type": "payment"}
    await forbidden("POST", CRON, payments | {"name": "x"})
    await forbidden("PUT", f"{CRON}/nightly", payments)
    await forbidden("PATCH", f"{CRON}/nightly", {"task_type": "payment"})
    await call(secured, "POST", CRON, 201, payments | {"name": "theirs"}, headers=full)
    await forbidden("PATCH", f"{CRON}/theirs", {"task_type": "mail"})
    await forbidden("PUT", f"{CRON}/theirs", JOB | {"name": "theirs"})
    await forbidden("POST", f"{CRON}/theirs/trigger")
    hour = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
    await forbidden("POST", f"{CRON}/theirs/backfill", hour)

    task = await call(secured, "POST", TASKS, 202, other | {"delay_seconds": 99}, headers=full)
    path = f"{TASKS}/{task['task_id']}"
    await forbidden("PATCH", path, {"payload": 1})
    for change in ("cancel", "pause", "resume", "retry"):
        await forbidden("POST", f"{path}/{change}")
    await forbidden("DELETE", path)
    for change in ("retry", "archive", "discard"):
        await forbidden("POST", f"{DEAD}/{task['task_id']}/{change}")
    for change in ("pause", "resume"):
        await forbidden("POST", f"{CRON}/theirs/{change}")
    await forbidden("DELETE", f"{CRON}/theirs")
    await call(secured, "POST", f"{path}/cancel", 200, headers=full)
    await forbidden("POST", f"{path}/retry")


async def test_a_key_is_made_shown_once_and_revoked(secured: Api, admin: dict[str, str]) -> None:
    asked = READER | {"task_types": ["mail"], "expires_at": "2100-01-01T00:00:00Z"}
    made = await call(secured, "POST", KEYS, 201, asked, headers=admin)
    key = made.pop("key")
    assert made["hint"] == key[:8]
    assert made["created_by"] == "boss"
    assert (made["roles"], made["task_types"]) == (["read"], ["mail"])
    listed = await call(secured, "GET", KEYS, 200, headers=admin)
    assert listed["keys"][0] == made
    assert key not in str(listed)

    await call(secured, "GET", TASKS, 200, headers=bearer(key))
    problem = await call(secured, "POST", TASKS, 403, BODY, headers=bearer(key))
    assert "'submit'" in problem["detail"]
    assert "read" in problem["detail"]
    await call(secured, "GET", KEYS, 403, headers=bearer(key))

    await call(secured, "DELETE", f"{KEYS}/{made['key_id']}", 204, headers=admin)
    await call(secured, "DELETE", f"{KEYS}/{made['key_id']}", 204, headers=admin)

    async def out() -> bool:
        async with secured.get(TASKS, headers=bearer(key)) as answer:
            return answer.status == 401

    await eventually(out)
    listed = await call(secured, "GET", KEYS, 200, headers=admin)
    assert listed["keys"][0]["revoked_at"] is not None
    await call(secured, "POST", f"{KEYS}/{made['key_id']}/rotate", 409, headers=admin)


async def test_rotation_lets_two_keys_live_and_no_third(
    secured: Api, admin: dict[str, str]
) -> None:
    expiring = READER | {"expires_at": "2100-01-01T00:00:00Z"}
    first = await call(secured, "POST", KEYS, 201, expiring, headers=admin)
    rotate = f"{KEYS}/{first['key_id']}/rotate"
    second = await call(secured, "POST", rotate, 201, {"overlap_seconds": 7200}, headers=admin)
    for made in (first, second):
        await call(secured, "GET", TASKS, 200, headers=bearer(made["key"]))
    assert {k: second[k] for k in ("name", "roles")} == {k: first[k] for k in ("name", "roles")}
    listed = (await call(secured, "GET", KEYS, 200, headers=admin))["keys"]
    old, new = (next(k for k in listed if k["key_id"] == m["key_id"]) for m in (first, second))
    assert old["expires_at"] < "2099" < new["expires_at"]

    for path, body in ((KEYS, READER), (rotate, {}), (f"{KEYS}/{second['key_id']}/rotate", {})):
        problem = await call(secured, "POST", path, 409, body, headers=admin)
        assert first["key_id"] in problem["detail"]
        assert "revoke" in problem["detail"]
    await call(secured, "DELETE", f"{KEYS}/{first['key_id']}", 204, headers=admin)
    third = f"{KEYS}/{second['key_id']}/rotate"
    await call(secured, "POST", third, 201, {"overlap_seconds": 0}, headers=admin)

    async def out() -> bool:
        async with secured.get(TASKS, headers=bearer(second["key"])) as answer:
            return answer.status == 401

    await eventually(out)


async def test_nobody_gives_more_than_they_have(secured: Api, database: Database) -> None:
    _, key = await make_key(database, name="limited", roles=[Role.ADMIN], task_types=["mail"])
    wide_id, _ = await make_key(database, name="wide")
    headers = bearer(key)
    for types in (None, ["mail", "sms"]):
        body = READER | {"task_types": types}
        problem = await call(secured, "POST", KEYS, 403, body, headers=headers)
        assert problem["errors"][0]["pointer"] == "/task_types"
    await call(secured, "POST", f"{KEYS}/{wide_id}/rotate", 403, headers=headers)
    await call(secured, "POST", KEYS, 201, READER | {"task_types": ["mail"]}, headers=headers)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"roles": []}, "/roles"),
        ({"roles": ["root"]}, "/roles/0"),
        ({"name": " x"}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"task_types": ["a\0"]}, "/task_types/0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(
    secured: Api, admin: dict[str, str], wrong: dict[str, Any], pointer: str
) -> None:
    problem = await call(secured, "POST", KEYS, 422, READER | wrong, headers=admin)
    assert problem["errors"][0]["pointer"] == pointer


async def test_the_answer_with_a_key_in_it_is_never_kept(
    secured: Api, admin: dict[str, str]
) -> None:
    headers = admin | {"Idempotency-Key": "k"}
    for path in (KEYS, f"{KEYS}/019a0000-0000-7000-8000-000000000000/rotate"):
        problem = await call(secured, "POST", path, 422, READER, headers=headers)
        assert "Idempotency-Key" in problem["detail"]


async def test_keys_are_listed_in_pages(secured: Api, admin: dict[str, str]) -> None:
    new = [READER | {"name": f"key {n}"} for n in range(3)]
    made = [await call(secured, "POST", KEYS, 201, body, headers=admin) for body in new]
    first = await call(secured, "GET", f"{KEYS}?limit=2", 200, headers=admin)
    after = f"{KEYS}?limit=2&cursor={first['next_cursor']}"
    rest = await call(secured, "GET", after, 200, headers=admin)
    listed = [key["key_id"] for key in first["keys"] + rest["keys"]]
    assert listed[:3] == [key["key_id"] for key in reversed(made)]
    assert len(listed) == 4  # that of the administrator, too
    assert rest["next_cursor"] is None


async def test_a_tenant_has_no_more_than_so_many_keys(
    secured: Api, admin: dict[str, str], database: Database
) -> None:
    """Live ones are refused beyond that, and ended ones are forgotten."""
    made = """
        INSERT INTO gnomon.api_key (id, tenant_id, name, hash, hint, roles, revoked_at)
        SELECT gen_random_uuid(), 'default', 'k' || n, sha256(('k' || n)::bytea), 'k', '{read}',
            CASE WHEN $2 THEN gnomon.now() END
        FROM generate_series(1, $1::integer) AS n
    """
    async with database.connection() as connection:
        await connection.execute(made, 1_500, True)
        await call(secured, "POST", KEYS, 201, READER, headers=admin)
        ended = "SELECT count(*) FROM gnomon.api_key WHERE revoked_at IS NOT NULL"
        assert await connection.fetchval(ended) == 1_000
        await connection.execute("UPDATE gnomon.api_key SET revoked_at = NULL")
    problem = await call(secured, "POST", KEYS, 409, READER | {"name": "next"}, headers=admin)
    assert "1000 live keys" in problem["detail"]


async def test_the_last_use_is_noted(
    secured: Api, database: Database, admin: dict[str, str]
) -> None:
    async def noted() -> Any:
        listed = await call(secured, "GET", KEYS, 200, headers=admin)
        return listed["keys"][0]["last_used_at"]

    assert await eventually(noted)
    async with database.connection() as connection:
        age = await connection.fetchval("SELECT gnomon.now() - last_used_at FROM gnomon.api_key")
    assert age < timedelta(minutes=1)


def test_only_with_authentication_others_can_connect() -> None:
    listen(settings_with(api_host="0.0.0.0", api_port=0, auth_enabled=True)).close()
    with pytest.raises(SettingsError, match="GNOMON_AUTH_ENABLED"):
        listen(settings_with(api_host="0.0.0.0", api_port=0))
