"""Nobody makes, ends, replaces or sees a key that may do more than their own, and no key outlives
its maker: every standing of an administrator against every kind of key."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection, blocked_by
from tests.waiting import eventually

from gnomon.access.api_key import MOST_ENDED_KEYS
from gnomon.access.principal import Grant, Role
from gnomon.clock import SystemClock, new_id
from gnomon.model.targets.allow_list import AllowList
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.api_keys import PostgresKeys
from gnomon.store.postgres.queries import query

KEYS = "/api/v1/keys"
SECRETS = "/api/v1/webhook-secrets"
DAY = timedelta(days=1)

Api = aiohttp.ClientSession


def grant(
    role: Role,
    types: list[str] | None = None,
    functions: list[str] | None = None,
    hosts: list[str] | None = None,
) -> Grant:
    lists = [None if each is None else tuple(each) for each in (functions, hosts)]
    return Grant(
        roles=frozenset([role]),
        task_types=None if types is None else frozenset(types),
        allow=AllowList(*lists),
    )


STANDINGS = {
    "admin": grant(Role.ADMIN),
    "admin of mail": grant(Role.ADMIN, ["mail", "sms"]),
    "admin of billing": grant(Role.ADMIN, functions=["billing.*"]),
    "admin of acme": grant(Role.ADMIN, hosts=["*.acme.example"]),
    "admin of little": grant(Role.ADMIN, ["mail"], ["billing.*"], ["*.acme.example"]),
    "operator": grant(Role.OPERATE),
    "sender of mail": grant(Role.SUBMIT, ["mail"]),
    "sender of pay": grant(Role.SUBMIT, ["pay"]),
    "biller": grant(Role.SUBMIT, functions=["billing.charge"]),
    "caller": grant(Role.SUBMIT, hosts=["api.acme.example:443"]),
    "sender of little": grant(Role.SUBMIT, ["mail"], ["billing.charge"], ["api.acme.example"]),
}
# Whom each may make, rotate, revoke and see. What is not here may none of it.
MAY = {
    "admin": set(STANDINGS),
    "admin of mail": {"admin of mail", "admin of little", "sender of mail", "sender of little"},
    "admin of billing": {"admin of billing", "admin of little", "biller", "sender of little"},
    "admin of acme": {"admin of acme", "admin of little", "caller", "sender of little"},
    "admin of little": {"admin of little", "sender of little"},
    "operator": set(),
}


@pytest.fixture
async def secured(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as client:
        yield client


async def made(
    database: Database, given: Grant, name: str, expires_at: datetime | None = None
) -> tuple[UUID, dict[str, str]]:
    """A key's id, and the headers of whoever has it."""
    key_id, key = await make_key(
        database,
        name=name,
        roles=given.roles,
        task_types=given.task_types,
        allow=given.allow,
        expires_at=expires_at,
    )
    return key_id, bearer(key)


def body_of(given: Grant, name: str) -> dict[str, Any]:
    types = given.task_types
    return {
        "name": name,
        "roles": sorted(given.roles),
        "task_types": None if types is None else sorted(types),
        "functions": given.allow.functions,
        "hosts": given.allow.hosts,
    }


async def status_of(api: Api, method: str, path: str, headers: Any, body: Any = None) -> int:
    async with api.request(method, path, headers=headers, json=body) as answer:
        await answer.read()
        return answer.status


@pytest.mark.parametrize("actor", MAY)
async def test_who_may_do_what_to_which_key(secured: Api, database: Database, actor: str) -> None:
    _, headers = await made(database, STANDINGS[actor], "actor")
    expected: dict[str, tuple[int, ...]] = {}
    found: dict[str, tuple[int, ...]] = {}
    seen: list[str] = []
    for other, given in STANDINGS.items():
        victim, _ = await made(database, given, f"the {other}")
        path = f"{KEYS}/{victim}"
        found[other] = (
            await status_of(secured, "POST", KEYS, headers, body_of(given, f"like {other}")),
            await status_of(secured, "POST", f"{path}/rotate", headers),
            # By its name: so it could not be rotated any more, and work of both would look alike.
            await status_of(secured, "POST", KEYS, headers, _least(f"the {other}")),
            await status_of(secured, "DELETE", path, headers),
            await status_of(secured, "DELETE", f"{path}?cascade=true", headers),
        )
        may = other in MAY[actor]
        expected[other] = (201, 201, 409, 204, 204) if may else (403,) * 5
        if may:
            seen.append(str(victim))
    assert found == expected
    if MAY[actor]:
        listed = await call(secured, "GET", f"{KEYS}?limit=500", 200, headers=headers)
        victims = [key["key_id"] for key in listed["keys"] if key["name"].startswith("the ")]
        assert {*seen} <= {*victims}
        names = {key["name"] for key in listed["keys"]} - {"actor"}
        assert {name.partition(" ")[2] for name in names} == MAY[actor]
    else:
        await call(secured, "GET", KEYS, 403, headers=headers)


def _least(name: str) -> dict[str, Any]:
    """What everybody who makes keys may give."""
    return body_of(STANDINGS["sender of little"], name)


async def test_a_limited_administrator_leaves_alone_what_holds_for_all(
    secured: Api, database: Database
) -> None:
    actors = {
        name: (await made(database, STANDINGS[name], name))[1] for name in MAY if "admin" in name
    }
    admin = actors.pop("admin")
    for name in ("mail", "pay"):
        await call(secured, "PUT", f"/api/v1/task-types/{name}", 201, {"schema": {}}, headers=admin)
    for name, task_type in (("all", None), ("pay", "pay"), ("mail", "mail")):
        limiter = {"concurrency": 9, "task_type": task_type}
        await call(secured, "PUT", f"/api/v1/limiters/{name}", 201, limiter, headers=admin)
    secret = await call(secured, "POST", SECRETS, 201, {}, headers=admin)
    await call(secured, "POST", SECRETS, 201, {}, headers=admin)
    shown = f"{SECRETS}/{secret['secret_id']}"
    none: dict[str, Any] = {"concurrency": 0}
    changes: tuple[tuple[str, str, Any], ...] = (
        ("PUT", "/api/v1/task-types/pay", {"schema": {"type": "null"}}),
        ("DELETE", "/api/v1/task-types/pay", None),
        ("PUT", "/api/v1/limiters/new", none),
        ("PUT", "/api/v1/limiters/new", none | {"task_type": "pay"}),
        ("PUT", "/api/v1/limiters/all", none | {"task_type": "mail"}),
        ("PUT", "/api/v1/limiters/pay", none | {"task_type": "mail"}),
        ("DELETE", "/api/v1/limiters/all", None),
        ("DELETE", "/api/v1/limiters/pay", None),
        ("POST", SECRETS, {}),
        ("POST", SECRETS, {"host": "api.acme.example"}),
        ("GET", shown, None),
        ("POST", f"{shown}/rotate", {}),
        ("DELETE", shown, None),
    )
    for method, path, body in changes:
        found = {a: await status_of(secured, method, path, h, body) for a, h in actors.items()}
        assert found == dict.fromkeys(actors, 403), (method, path)
    mail = actors["admin of mail"]
    await call(
        secured, "PUT", "/api/v1/limiters/mail", 200, none | {"task_type": "mail"}, headers=mail
    )
    await call(secured, "DELETE", "/api/v1/limiters/mail", 204, headers=mail)
    await call(secured, "PUT", "/api/v1/task-types/mail", 200, {"schema": {}}, headers=mail)
    await call(secured, "DELETE", "/api/v1/task-types/mail", 204, headers=mail)
    await call(secured, "GET", shown, 200, headers=admin)


async def test_a_key_ends_no_later_than_its_maker(secured: Api, database: Database) -> None:
    ends = SystemClock().now().replace(microsecond=0) + DAY
    _, headers = await made(database, STANDINGS["admin"], "short", ends)
    child = {"name": "child", "roles": ["admin"]}
    made_key = await call(secured, "POST", KEYS, 201, child, headers=headers)
    assert datetime.fromisoformat(made_key["expires_at"]) == ends
    sooner = (ends - DAY / 2).isoformat()
    soon = await call(secured, "POST", KEYS, 201, child | {"expires_at": sooner}, headers=headers)
    assert datetime.fromisoformat(soon["expires_at"]) == ends - DAY / 2
    later = child | {"name": "late", "expires_at": (ends + DAY).isoformat()}
    problem = await call(secured, "POST", KEYS, 403, later, headers=headers)
    assert f"{ends:%Y-%m-%dT%H:%M:%SZ}" in problem["detail"]
    # Nor does the child's child.
    grandchild = await call(
        secured, "POST", KEYS, 201, {"name": "x", "roles": ["read"]}, headers=bearer(soon["key"])
    )
    assert datetime.fromisoformat(grandchild["expires_at"]) == ends - DAY / 2
    assert grandchild["made_by"] == soon["key_id"]


async def test_no_key_prolongs_itself_or_cuts_another_short(
    secured: Api, database: Database
) -> None:
    ends = SystemClock().now() + DAY
    key_id, headers = await made(database, STANDINGS["admin"], "short", ends)
    renewed = await call(secured, "POST", f"{KEYS}/{key_id}/rotate", 201, headers=headers)
    assert datetime.fromisoformat(renewed["expires_at"]) == ends
    assert renewed["made_by"] == str(key_id)
    for_ever, _ = await made(database, STANDINGS["biller"], "for ever")
    longer, _ = await made(database, STANDINGS["biller"], "longer", ends + DAY)
    for other in (for_ever, longer):
        problem = await call(secured, "POST", f"{KEYS}/{other}/rotate", 403, headers=headers)
        assert "lasts longer" in problem["detail"]
    _, admin = await made(database, STANDINGS["admin"], "for good")
    whole = await call(secured, "POST", f"{KEYS}/{longer}/rotate", 201, headers=admin)
    assert datetime.fromisoformat(whole["expires_at"]) > ends + DAY
    await call(secured, "DELETE", f"{KEYS}/{for_ever}", 204, headers=headers)


async def test_keys_are_revoked_with_all_that_was_made_with_them(
    secured: Api, database: Database
) -> None:
    admin = {"roles": ["admin"]}
    root_id, root = await made(database, STANDINGS["admin"], "root")
    _, other = await made(database, STANDINGS["admin"], "other")

    async def make(name: str, by: dict[str, str]) -> tuple[str, dict[str, str]]:
        made_key = await call(secured, "POST", KEYS, 201, admin | {"name": name}, headers=by)
        return made_key["key_id"], bearer(made_key["key"])

    first_id, first = await make("first", root)
    second_id, second = await make("second", first)
    third_id, _ = await make("third", second)
    beside_id, _ = await make("beside", other)
    await call(secured, "DELETE", f"{KEYS}/{second_id}", 204, headers=root)

    async def revoked() -> set[str]:
        listed = await call(secured, "GET", KEYS, 200, headers=other)
        return {key["key_id"] for key in listed["keys"] if key["revoked_at"] is not None}

    assert await revoked() == {second_id}, "without being asked, it ends alone"
    await call(secured, "DELETE", f"{KEYS}/{root_id}?cascade=true", 204, headers=other)
    assert await revoked() == {str(root_id), first_id, second_id, third_id}
    assert beside_id not in await revoked()
    await call(secured, "DELETE", f"{KEYS}/{root_id}?cascade=yes", 422, headers=other)


async def test_a_key_that_was_just_revoked_makes_no_other(secured: Api, database: Database) -> None:
    """Processes trust what they know of a key for a moment: it must not be enough to survive."""
    key_id, headers = await made(database, STANDINGS["admin"], "stolen")
    victim, _ = await made(database, STANDINGS["biller"], "victim")
    await call(secured, "GET", KEYS, 200, headers=headers)  # it is known now
    await PostgresKeys(database).revoke("default", key_id, cascade=True)
    await call(secured, "POST", KEYS, 401, {"name": "x", "roles": ["admin"]}, headers=headers)
    await call(secured, "POST", f"{KEYS}/{victim}/rotate", 401, headers=headers)


async def test_a_key_that_is_being_made_does_not_slip_through(
    database: Database, connection: Connection
) -> None:
    maker, _ = await make_key(database, name="maker")
    middle, child = (new_id(SystemClock().now()) for _ in range(2))
    insert = """INSERT INTO gnomon.api_key (id, tenant_id, name, hash, hint, roles, made_by)
                VALUES ($1, 'default', 'x', $2, '', '{admin}', $3)"""
    await connection.execute(insert, middle, middle.bytes, maker)
    async with connection.transaction():
        await connection.execute(query("lock_api_keys"), "default")
        await connection.execute(insert, child, child.bytes, middle)
        revoking = asyncio.create_task(
            PostgresKeys(database).revoke("default", maker, cascade=True)
        )

        async def waits() -> bool:
            return bool(await blocked_by(connection))

        await eventually(waits)
    assert {*await revoking} == {maker, middle, child}


async def test_a_chain_of_keys_is_forgotten_and_still_ends_as_a_whole(
    secured: Api, database: Database, connection: Connection
) -> None:
    """Each is made with the one before it, which then ends."""
    root_id, root = await made(database, STANDINGS["admin"], "root")
    chain = """
        INSERT INTO gnomon.api_key (id, tenant_id, name, hash, hint, roles, made_by, revoked_at)
        SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'default', 'k' || n,
            sha256(('k' || n)::bytea), 'k', '{admin}',
            CASE WHEN n = 1 THEN $1
                ELSE ('00000000-0000-7000-8000-' || lpad(to_hex(n - 1), 12, '0'))::uuid END,
            CASE WHEN n < 1501 THEN gnomon.now() END
        FROM generate_series(1, 1501) AS n
    """
    await connection.execute(chain, root_id)
    last = UUID(f"00000000-0000-7000-8000-{1501:012x}")
    await call(secured, "POST", KEYS, 201, {"name": "x", "roles": ["read"]}, headers=root)
    ended = "SELECT count(*) FROM gnomon.api_key WHERE revoked_at IS NOT NULL"
    assert await connection.fetchval(ended) == MOST_ENDED_KEYS
    assert last in {*await PostgresKeys(database).revoke("default", root_id, cascade=True)}


async def test_a_circle_written_by_hand_ends(database: Database, connection: Connection) -> None:
    one, _ = await make_key(database, name="one")
    two, _ = await make_key(database, name="two")
    statement = "UPDATE gnomon.api_key SET made_by = $2 WHERE id = $1"
    await connection.execute(statement, one, two)
    await connection.execute(statement, two, one)
    assert {*await PostgresKeys(database).revoke("default", one, cascade=True)} == {one, two}
    assert await PostgresKeys(database).revoke("default", one, cascade=True) == []


async def test_no_key_of_another_tenant_is_touched(secured: Api, database: Database) -> None:
    await make_tenant(database, "acme")
    theirs, key = await make_key(database, "acme", name="theirs")
    ours, headers = await made(database, STANDINGS["admin"], "ours")
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE gnomon.api_key SET made_by = $2 WHERE id = $1", theirs, ours
        )
    for path in (f"{KEYS}/{theirs}", f"{KEYS}/{theirs}?cascade=true"):
        await call(secured, "DELETE", path, 404, headers=headers)
    await PostgresKeys(database).revoke("default", ours, cascade=True)
    await call(secured, "POST", TASKS, 202, LATER, headers=bearer(key))
