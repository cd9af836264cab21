"""`/webhook-secrets`: made, listed, shown, rotated and revoked by a tenant's administrator; and
`/webhook-keys`, which anybody may read."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection
from tests.integration.webhook_calls import secret_of
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

Api = aiohttp.ClientSession

SECRETS = "/api/v1/webhook-secrets"
KEYS = "/api/v1/webhook-keys"
UNKNOWN = "019a0000-0000-7000-8000-000000000000"
OWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VALUES = {"secret"}


@pytest.fixture
async def secured(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, auth_enabled=True) as client:
        yield client


@pytest.fixture
async def admin(database: Database) -> dict[str, str]:
    """The headers of an administrator of `acme`."""
    await make_tenant(database, "acme")
    _, key = await make_key(database, "acme", name="boss", roles=[Role.ADMIN])
    return bearer(key)


async def listed(api: Api, headers: dict[str, str]) -> list[dict[str, Any]]:
    found = await call(api, "GET", SECRETS, 200, headers=headers)
    assert not any(VALUES & each.keys() for each in found["webhook_secrets"])
    secrets: list[dict[str, Any]] = found["webhook_secrets"]
    return secrets


async def test_a_secret_from_its_making_to_its_end(
    secured: Api, admin: dict[str, str], connection: Connection
) -> None:
    (born,) = await listed(secured, admin)
    shown = await call(secured, "GET", f"{SECRETS}/{born['secret_id']}", 200, headers=admin)
    assert shown == born | {"secret": await secret_of(connection, "acme")}

    made = await call(secured, "POST", SECRETS, 201, {"host": "A.Example."}, headers=admin)
    value = made.pop("secret")
    assert value.startswith("whsec_")
    assert (made["host"], made["scheme"], made["created_by"]) == ("a.example", "v1", "boss")
    assert made["shared_until"] is not None
    assert await listed(secured, admin) == [made, born]
    assert value not in str(await listed(secured, admin))

    rotate = f"{SECRETS}/{born['secret_id']}/rotate"
    newer = await call(secured, "POST", rotate, 201, {"overlap_seconds": 60}, headers=admin)
    assert newer["secret"] != shown["secret"]
    old = next(e for e in await listed(secured, admin) if e["secret_id"] == born["secret_id"])
    assert old["expires_at"] is not None
    problem = await call(secured, "POST", rotate, 409, headers=admin)
    assert "took its place" in problem["detail"]

    path = f"{SECRETS}/{newer['secret_id']}"
    problem = await call(secured, "DELETE", path, 409, headers=admin)
    assert "overlap of 0" in problem["detail"]
    for _ in range(2):
        await call(secured, "DELETE", f"{SECRETS}/{made['secret_id']}", 204, headers=admin)
    gone = await call(secured, "GET", f"{SECRETS}/{made['secret_id']}", 200, headers=admin)
    assert gone["secret"] is None
    assert gone["revoked_at"] is not None


async def test_answers_with_a_value_are_kept_nowhere(secured: Api, admin: dict[str, str]) -> None:
    async with secured.post(SECRETS, headers=admin) as answer:
        assert answer.status == 201
        assert answer.headers["Cache-Control"] == "no-store"
    (made, born) = await listed(secured, admin)
    async with secured.get(f"{SECRETS}/{born['secret_id']}", headers=admin) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
    for path in (SECRETS, f"{SECRETS}/{made['secret_id']}/rotate"):
        headers = admin | {"Idempotency-Key": "k"}
        problem = await call(secured, "POST", path, 422, headers=headers)
        assert "Idempotency-Key" in problem["detail"]


async def test_a_secret_of_ones_own(secured: Api, admin: dict[str, str]) -> None:
    made = await call(secured, "POST", SECRETS, 201, {"secret": OWN}, headers=admin)
    assert made["secret"] == OWN


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"host": ""}, "/host"),
        ({"host": "a.example:80"}, "/host"),
        ({"host": "*.example"}, "/host"),
        ({"host": "a\x00.example"}, "/host"),
        ({"host": "x" * 254}, "/host"),
        ({"scheme": "v2"}, "/scheme"),
        ({"scheme": "v1a", "secret": OWN}, "/secret"),
        ({"secret": "whsec_canary?"}, "/secret"),
        ({"secret": "whsec_AAAA"}, "/secret"),
        ({"secret": "canary"}, "/secret"),
        ({"overlap_seconds": -1}, "/overlap_seconds"),
        ({"overlap_seconds": 1e9}, "/overlap_seconds"),
        ({"nothing": 1}, "/nothing"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    secured: Api, admin: dict[str, str], wrong: dict[str, Any], pointer: str
) -> None:
    problem = await call(secured, "POST", SECRETS, 422, wrong, headers=admin)
    assert problem["errors"][0]["pointer"] == pointer
    assert "canary" not in str(problem)
    assert len(await listed(secured, admin)) == 1


async def test_unknown_ones_and_anothers_answer_alike(
    secured: Api, admin: dict[str, str], database: Database
) -> None:
    await make_tenant(database, "beta")
    _, key = await make_key(database, "beta")
    (theirs,) = await listed(secured, bearer(key))
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
        for wrong in (theirs["secret_id"], UNKNOWN, "x", "x" * 36):
            path = f"{SECRETS}/{wrong}{tail}"
            problem = await call(secured, method, path, 404, headers=admin)
            assert problem["detail"] == f"webhook secret {wrong} not found"


async def test_a_key_that_is_held_to_types_reads_and_changes_none(
    secured: Api, admin: dict[str, str], database: Database
) -> None:
    _, key = await make_key(database, "acme", name="some", roles=[Role.ADMIN], task_types=["mail"])
    (born,) = await listed(secured, bearer(key))
    path = f"{SECRETS}/{born['secret_id']}"
    for method, where in (
        ("POST", SECRETS),
        ("GET", path),
        ("DELETE", path),
        ("POST", f"{path}/rotate"),
    ):
        problem = await call(secured, method, where, 403, headers=bearer(key))
        assert "task" in problem["detail"]


async def test_without_authentication_secrets_are_not_for_http(api: Api) -> None:
    for method, path in (("GET", SECRETS), ("POST", SECRETS), ("GET", f"{SECRETS}/{UNKNOWN}")):
        problem = await call(api, method, path, 403)
        assert "gnomon secrets" in problem["detail"]
    await call(api, "GET", f"{KEYS}/default", 200)


async def test_public_keys_are_for_everybody_and_tell_nothing_else(
    secured: Api, admin: dict[str, str]
) -> None:
    made = await call(secured, "POST", SECRETS, 201, {"scheme": "v1a"}, headers=admin)
    assert made["secret"] is None
    assert made["public_key"].startswith("whpk_")
    private = {"scheme": "v1a", "host": "customer.example"}
    hosts = await call(secured, "POST", SECRETS, 201, private, headers=admin)

    async def served() -> Any:
        async with secured.get(f"{KEYS}/acme") as answer:
            assert answer.headers["Cache-Control"] == "public, max-age=60"
            return (await answer.json())["keys"]

    (key,) = await eventually(served)
    assert key == {
        "key_id": made["secret_id"],
        "public_key": made["public_key"],
        "expires_at": None,
    }
    # Neither whom a tenant calls, nor who there is.
    assert hosts["public_key"] not in str(await served())
    for nobody in ("default", "nobody", "x" * 300, "%00", "%0d%0a"):
        assert await call(secured, "GET", f"{KEYS}/{nobody}", 200) == {"keys": []}

    rotate = f"{SECRETS}/{made['secret_id']}/rotate"
    newer = await call(secured, "POST", rotate, 201, {"overlap_seconds": 0}, headers=admin)

    async def replaced() -> bool:
        return [each["key_id"] for each in await served()] == [newer["secret_id"]]

    await eventually(replaced)
    await call(secured, "DELETE", f"{SECRETS}/{newer['secret_id']}", 204, headers=admin)

    async def gone() -> bool:
        return not await served()

    await eventually(gone)
