"""Tokens: the good ones are believed, and no bad one is, however it is made."""

import base64
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, call
from tests.integration.identity import bearer, make_tenant
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.tenant_cache import TenantCache

ISSUER, AUDIENCE = "https://issuer.example", "gnomon"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
SHORT_RSA = rsa.generate_private_key(65537, 1024)
STRANGER = ec.generate_private_key(ec.SECP256R1())

Api = aiohttp.ClientSession


def now() -> int:
    return int(SystemClock().now().timestamp())


def good() -> dict[str, Any]:
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice@example.com",
        "exp": now() + 3600,
        "tenant": "acme",
        "roles": ["submit", "read", "astronaut"],
    }


class Issuer(NamedTuple):
    """An API that believes one issuer, and the file with the keys of that."""

    api: Api
    jwks: Path


def jwk(private: Any, kid: str, **more: str) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(private, rsa.RSAPrivateKey) else ECAlgorithm
    public: dict[str, Any] = json.loads(algorithm.to_jwk(private.public_key()))
    return public | {"kid": kid, **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


KEYS = key_set(
    jwk(RSA, "rsa"),
    jwk(EC, "ec", use="sig", alg="ES256"),
    jwk(STRANGER, "sealing", use="enc"),
    jwk(SHORT_RSA, "short"),
    {"kty": "oct", "kid": "shared", "k": "c2hhcmVkLXNoYXJlZC1zaGFyZWQtc2hhcmVk"},
)


def signed(private: Any = EC, alg: str = "ES256", kid: str | None = "ec", **claims: Any) -> str:
    headers = {} if kid is None else {"kid": kid}
    payload = {name: value for name, value in (good() | claims).items() if value is not None}
    return jwt.encode(payload, private, algorithm=alg, headers=headers)


def forged(header: dict[str, Any], signature: bytes | None = None, key: bytes = b"") -> str:
    """A token put together by hand."""

    def part(content: bytes) -> str:
        return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

    head = f"{part(json.dumps(header).encode())}.{part(json.dumps(good()).encode())}"
    made = hmac.digest(key, head.encode(), "sha256") if signature is None else signature
    return f"{head}.{part(made)}"


def settings(jwks: str) -> dict[str, Any]:
    return {
        "auth_enabled": True,
        "auth_jwt_issuer": ISSUER,
        "auth_jwt_audience": AUDIENCE,
        "auth_jwt_jwks": jwks,
        "targets_allow": ("127.0.0.0/8",),
    }


@pytest.fixture
async def issuer(database_dsn: str, database: Database, tmp_path: Path) -> AsyncIterator[Issuer]:
    await make_tenant(database, "acme")
    file = tmp_path / "jwks.json"
    file.write_bytes(KEYS)
    async with serving(database_dsn, **settings(str(file))) as api:
        yield Issuer(api, file)


async def status_of(api: Api, token: str) -> int:
    async with api.get(TASKS, headers=bearer(token)) as answer:
        await answer.read()
        return answer.status


async def test_a_good_token_is_believed(issuer: Issuer) -> None:
    api = issuer.api
    for token in (
        signed(),
        signed(RSA, "RS256", "rsa"),
        signed(roles="read submit"),
        signed(exp=now() - 15, nbf=now() + 15),  # clocks differ a little
        signed(aud=["other", AUDIENCE]),
    ):
        task = await call(api, "POST", TASKS, 202, LATER, headers=bearer(token))
        assert task["created_by"] == "alice@example.com"
    tenant = await call(api, "GET", "/api/v1/tenant", 200, headers=bearer(signed()))
    assert tenant["tenant_id"] == "acme"
    problem = await call(api, "GET", "/api/v1/keys", 403, headers=bearer(signed()))
    assert "read, submit" in problem["detail"]
    nothing: list[object] = [None, [], "root", 7]
    for roles in nothing:
        assert await status_of(api, signed(roles=roles)) == 403


async def test_an_operators_token_names_no_tenant_and_no_other_role(issuer: Issuer) -> None:
    tenants = "/api/v1/tenants"
    for roles in ("operator", ["operator"]):
        token = bearer(signed(tenant=None, roles=roles))
        await call(issuer.api, "GET", tenants, 200, headers=token)
        await call(issuer.api, "GET", TASKS, 403, headers=token)
    made = await call(
        issuer.api, "POST", "/api/v1/operator-keys", 201, {"name": "k"}, headers=token
    )
    assert made["created_by"] == "alice@example.com"
    assert made["expires_at"] is not None  # no later than the token

    beside = bearer(signed(roles=["operator", "read"]))
    await call(issuer.api, "GET", TASKS, 200, headers=beside)
    await call(issuer.api, "GET", tenants, 403, headers=beside)
    forgotten: list[Any] = [
        {"tenant": None},
        {"tenant": None, "roles": ["operator", "read"]},
        {"tenant": None, "roles": ["operator", "operator"]},
        {"tenant": None, "roles": []},
        {"tenant": None, "roles": {"operator": True}},
        {"tenant": "", "roles": ["operator"]},
        {"tenant": False, "roles": ["operator"]},
    ]
    for claims in forgotten:
        token = bearer(signed(**claims))
        await call(issuer.api, "GET", tenants, 401, headers=token)
        await call(issuer.api, "GET", TASKS, 401, headers=token)


async def test_a_key_made_with_a_token_ends_with_it(issuer: Issuer) -> None:
    """Whoever is not signed in any more must not go on with a key of their own."""
    keys, body = "/api/v1/keys", {"name": "k", "roles": ["read"]}
    ends = now() + 600
    token = bearer(signed(roles=["admin"], exp=ends))
    made = await call(issuer.api, "POST", keys, 201, body, headers=token)
    assert datetime.fromisoformat(made["expires_at"]).timestamp() == ends
    assert (made["created_by"], made["made_by"]) == ("alice@example.com", None)
    later = body | {"expires_at": datetime.fromtimestamp(ends + 1, UTC).isoformat()}
    await call(issuer.api, "POST", keys, 403, later, headers=token)
    # Clocks differ a little: it is believed, but gives nothing any more.
    past = bearer(signed(roles=["admin"], exp=now() - 15))
    await call(issuer.api, "POST", keys, 403, body, headers=past)
    far = bearer(signed(roles=["admin"], exp=2**52))
    made = await call(issuer.api, "POST", keys, 201, body, headers=far)
    assert made["expires_at"] == "2199-12-31T00:00:00Z"


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")  # of whoever signs
async def test_no_bad_token_is_believed(issuer: Issuer) -> None:
    public = EC.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    token = signed()
    bad = {
        "unsigned": forged({"alg": "none", "kid": "ec"}, b""),
        "unsigned, spelt otherwise": forged({"alg": "nOnE", "kid": "ec"}, b""),
        "public key as shared secret": forged({"alg": "HS256", "kid": "ec"}, key=public),
        "shared secret of the set": forged(
            {"alg": "HS256", "kid": "shared"}, key=b"shared-shared-shared-shared"
        ),
        "signature of another": signed(STRANGER),
        "signature cut off": token.rpartition(".")[0] + ".",
        "claims of another": ".".join(
            [token.split(".")[0], signed(tenant="default").split(".")[1], token.split(".")[2]]
        ),
        "other algorithm than the key's": signed(RSA, "RS256", "ec"),
        "algorithm that is not allowed": signed(RSA, "RS512", "rsa"),
        "key for sealing": signed(STRANGER, kid="sealing"),
        "unknown key": signed(kid="nobody"),
        "no key named": signed(kid=None),
        "key in the header": forged({"alg": "ES256", "kid": "x", "jwk": jwk(STRANGER, "x")}, b"0"),
        "demands": jwt.encode(good(), EC, "ES256", headers={"kid": "ec", "crit": ["x"], "x": 1}),
        "wrong issuer": signed(iss="https://evil.example"),
        "no issuer": signed(iss=None),
        "wrong audience": signed(aud="other"),
        "no audience": signed(aud=None),
        "expired": signed(exp=now() - 60),
        "never expires": signed(exp=None),
        "no time": signed(exp=10**400),
        "not yet": signed(nbf=now() + 60),
        "issued tomorrow": signed(iat=now() + 86_400),
        "issued at no time": signed(iat="yesterday"),
        "short key": signed(SHORT_RSA, "RS256", "short"),
        "no tenant": signed(tenant=None),
        "unknown tenant": signed(tenant="nobody"),
        "tenant that is no name": signed(tenant=["acme"]),
        "subject with a line break": signed(sub="a\nb"),
        "endless": signed(more="x" * 10_000),
        "two dots": "..",
        "other letters": "é.é.é",
    }
    for what, each in bad.items():
        assert await status_of(issuer.api, each) == 401, what
    assert await status_of(issuer.api, token) == 200


async def test_the_file_is_read_again_when_it_changes(issuer: Issuer) -> None:
    new = signed(STRANGER, kid="new")
    assert await status_of(issuer.api, new) == 401
    old = signed()
    assert await status_of(issuer.api, old) == 200
    aside = issuer.jwks.with_suffix(".new")
    aside.write_bytes(key_set(jwk(STRANGER, "new")))
    aside.replace(issuer.jwks)
    assert await status_of(issuer.api, new) == 200

    async def out() -> bool:
        return await status_of(issuer.api, old) == 401

    await eventually(out)
    issuer.jwks.write_text("{")
    assert await status_of(issuer.api, signed(STRANGER, kid="new", sub="other")) == 200


async def test_keys_of_a_server_are_fetched_once_and_again_for_an_unknown_one(
    database_dsn: str, database: Database
) -> None:
    await make_tenant(database, "acme")
    asked = 0
    content = b"{}"

    async def answered(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(body=content, content_type="application/json")

    site = web.Application()
    site.router.add_get("/jwks", answered)
    runner = web.AppRunner(site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/jwks"
        async with serving(database_dsn, **settings(url)) as api:
            assert await status_of(api, signed()) == 503  # nothing could be read yet
            assert asked == 1
        content = KEYS
        async with serving(database_dsn, **settings(url)) as api:
            assert await status_of(api, signed()) == 200
            assert await status_of(api, signed(RSA, "RS256", "rsa")) == 200
            for kid in ("x", "y", "z"):
                assert await status_of(api, signed(kid=kid)) == 401
            assert asked == 2  # no sooner than after half a minute
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"auth_jwt_issuer": None}, "jwt_issuer"),
        ({"auth_jwt_audience": None}, "jwt_audience"),
        ({"auth_jwt_jwks": None}, "jwt_jwks"),
        ({"auth_jwt_algorithms": ("RS256", "none")}, "none"),
        ({"auth_jwt_algorithms": ("HS256",)}, "HS256"),
        ({"auth_jwt_algorithms": ()}, "jwt_algorithms"),
        ({"auth_jwt_jwks": "http://issuer.example/jwks"}, "https"),
        ({"auth_jwt_jwks": "/nowhere/jwks.json"}, "/nowhere/jwks.json"),
    ],
)
def test_settings_that_would_let_others_in_are_refused(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    from gnomon.api.auth.tokens import tokens_of

    file = tmp_path / "jwks.json"
    file.write_bytes(KEYS)
    clock = SystemClock()
    directory = TenantCache(PostgresTenantReader(Database("", 1)), clock, {})
    with pytest.raises(ValueError, match=words):
        tokens_of(settings_with(**(settings(str(file)) | change)).auth, directory, clock)
