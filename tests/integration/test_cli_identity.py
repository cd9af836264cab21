"""`gnomon tenants`, `gnomon keys`, and the key that the other commands send."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from structlog.testing import capture_logs
from tests.commands import Finished, cli, gnomon_here, running
from tests.conftest import serving
from tests.integration.identity import make_operator, make_tenant
from tests.waiting import eventually_sync

from gnomon.access.api_key import is_key
from gnomon.store.postgres.database import Database

PLANS = {"pro": {"cron_jobs": 7, "payload_bytes": 10}}


@pytest.fixture(autouse=True)
def here(database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)


@pytest.fixture
async def local(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """An API without authentication."""
    # Its log would go where the commands of this process print.
    with capture_logs():
        async with serving(database_dsn, sharing_plans=PLANS) as api:
            monkeypatch.setenv("GNOMON_URL", str(api._base_url))
            yield


@pytest.fixture
async def secured(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[aiohttp.ClientSession]:
    """An API with authentication."""
    with capture_logs():
        async with serving(database_dsn, auth_enabled=True) as api:
            monkeypatch.setenv("GNOMON_URL", str(api._base_url))
            yield api


def done(*arguments: str) -> Finished:
    finished = gnomon_here(*arguments)
    assert finished.code == 0, finished.err
    return finished


def refused(*arguments: str, code: int = 1) -> str:
    finished = gnomon_here(*arguments)
    assert finished.code == code, finished
    return finished.err


@pytest.mark.usefixtures("local")
async def test_a_tenant_from_its_making_to_its_end() -> None:
    made = (await cli("tenants", "create", "acme", "--quota", "scheduled_tasks=500", "--json")).json
    assert (made["plan"], made["weight"]) == ("standard", 1.0)
    assert made["quotas"]["scheduled_tasks"] == 500
    assert made["quotas"]["executions_per_minute"] == 1000
    assert "already" in (await cli("tenants", "create", "acme", code=1)).err

    changed = (await cli("tenants", "set", "acme", "--plan", "pro", "--weight", "2.5",
                         "--quota", "cron_jobs=none", "--quota", "cron_interval_seconds=1.5",
                         "--quota", "scheduled_tasks=plan", "--json")).json  # fmt: skip
    assert (changed["plan"], changed["weight"]) == ("pro", 2.5)
    assert changed["quotas"]["scheduled_tasks"] is None
    assert changed["quotas"]["cron_jobs"] is None
    assert changed["quotas"]["payload_bytes"] == 10
    assert changed["quotas"]["cron_interval_seconds"] == 1.5
    assert "payload bytes" in (await cli("tenants", "show", "acme")).out
    listed = (await cli("tenants", "list", "--json")).json["tenants"]
    assert [tenant["tenant_id"] for tenant in listed] == ["acme", "default"]
    assert listed[0] == changed
    assert "cron_jobs=none" in (await cli("tenants", "list")).out
    plans = (await cli("tenants", "plans")).out.splitlines()
    assert [line.split()[0] for line in plans] == ["plan", "pro", "standard", "unlimited"]

    assert (await cli("tenants", "rm", "acme", "--yes")).out == "removed acme\n"
    assert "no tenant 'acme'" in (await cli("tenants", "show", "acme", code=1)).err
    assert "no tenant 'acme'" in (await cli("tenants", "set", "acme", code=1)).err
    assert "default" in (await cli("tenants", "rm", "default", "--yes", code=1)).err


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (["create", "Acme"], 2),
        (["create", "acme", "--plan", "gold"], 1),
        (["create", "acme", "--weight", "0"], 2),
        (["create", "acme", "--quota", "tasks=1"], 2),
        (["create", "acme", "--quota", "cron_jobs=-1"], 2),
        (["create", "acme", "--quota", "cron_jobs=1.5"], 2),
        (["create", "acme", "--targets-allow", "here"], 2),
    ],
)
async def test_a_tenant_that_makes_no_sense_is_refused(wrong: list[str], code: int) -> None:
    await cli("tenants", *wrong, code=code)
    assert len((await cli("tenants", "list", "--json")).json["tenants"]) == 1


@pytest.mark.usefixtures("local")
async def test_a_tenant_with_work_stays(connection: Any) -> None:
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('busy')")
    await connection.execute(
        """INSERT INTO gnomon.cron_job
               (tenant_id, id, name, tags, definition, created_at, updated_at)
           VALUES ('busy', $1, 'j', '[]', '{}', now(), now())""",
        uuid4(),
    )
    assert "cron jobs" in (await cli("tenants", "rm", "busy", "--yes", code=1)).err
    await connection.execute("DELETE FROM gnomon.cron_job")
    await cli("tenants", "rm", "busy", "--yes")


@pytest.mark.usefixtures("local")
async def test_a_tenant_is_limited_to_functions_and_hosts() -> None:
    hosts = ("--host", "API.Example.com", "--host", "*.acme.example:443")
    create = ("tenants", "create", "acme", "--function", "billing.*", *hosts, "--json")
    made = (await cli(*create)).json
    assert made["functions"] == ["billing.*"]
    assert made["hosts"] == ["api.example.com", "*.acme.example:443"]
    changed = (await cli("tenants", "set", "acme", "--host", "none", "--json")).json
    assert (changed["functions"], changed["hosts"]) == (["billing.*"], [])
    assert "billing.*" in (await cli("tenants", "show", "acme")).out
    lifted = (await cli("tenants", "set", "acme", "--function", "all", "--json")).json
    assert (lifted["functions"], lifted["hosts"]) == (None, [])
    same = (await cli("tenants", "set", "acme", "--weight", "2", "--json")).json
    assert same["hosts"] == []
    for wrong in (["--host", "http://x"], ["--host", "all", "--host", "x"], ["--function", "*"]):
        await cli("tenants", "set", "acme", *wrong, code=2)


@pytest.mark.usefixtures("secured")
async def test_tenants_are_for_operators(database: Database) -> None:
    await cli("keys", "create", "--operator", "--name", "ops", "--out", "ops")
    await cli("keys", "create", "--role", "admin", "--name", "boss", "--out", "boss")
    await cli("--key-file", "ops", "tenants", "create", "acme")
    assert "--operator" in (await cli("--key-file", "boss", "tenants", "list", code=1)).err
    assert "--key-file" in (await cli("tenants", "list", code=1)).err


async def test_first_keys_are_made_on_the_database_whatever_is_running(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_tenant(database, "acme")
    create = ("keys", "create", "--json", "--name")
    assert (await cli(*create, "a", "--role", "admin")).json["tenant_id"] == "default"
    named = (await cli(*create, "b", "--role", "admin", "--tenant", "acme")).json
    assert named["tenant_id"] == "acme"
    operator = (await cli(*create, "c", "--operator")).json
    assert (operator["tenant_id"], operator["roles"]) == (None, ["operator"])
    assert "of the operators" in (await cli("keys", "create", "--operator", "--name", "d")).err
    # Whoever names a tenant asks the database, whatever key they have.
    monkeypatch.setenv("GNOMON_API_KEY", named["key"])
    assert (await cli(*create, "e", "--role", "read", "--tenant", "default")).code == 0
    monkeypatch.setenv("GNOMON_URL", "http://127.0.0.1:9")
    assert "gnomon up" in (await cli(*create, "f", "--role", "read", code=1)).err
    monkeypatch.delenv("GNOMON_API_KEY")
    # An API that is named may be another installation's: nothing is created here.
    other = ("--api", "http://127.0.0.1:9")
    assert "127.0.0.1:9" in (await cli(*create, "f", "--role", "read", *other, code=1)).err
    assert "127.0.0.1:9" in (await cli("secrets", "create", *other, code=1)).err
    named_both = ("--role", "read", "--tenant", "acme", *other)
    assert "--api" in (await cli(*create, "f", *named_both, code=2)).err
    assert "/name: must be" in (await cli(*create, "", "--operator", code=1)).err
    assert (
        "no tenant" in (await cli(*create, "x", "--role", "read", "--tenant", "nobody", code=1)).err
    )
    for wrong in (
        ["--role", "read", "--tenant", "No Body"],
        ["--role", "king"],
        ["--role", "operator"],
        ["--operator", "--role", "read"],
        ["--operator", "--tenant", "acme"],
        ["--operator", "--type", "mail"],
        [],
    ):
        await cli(*create, "x", *wrong, code=2)


@pytest.mark.usefixtures("secured")
async def test_a_key_from_its_making_to_its_end(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_tenant(database, "acme")
    first = ("keys", "create", "--tenant", "acme", "--name", "first", "--role", "admin")
    monkeypatch.setenv("GNOMON_API_KEY", (await cli(*first)).out.strip())

    plain = await cli("keys", "create", "--name", "shop", "--role", "read")
    assert is_key(plain.out.strip())
    assert "of acme" in plain.err
    assert "not shown again" in plain.err
    made = (await cli("keys", "create", "--name", "mail", "--role", "submit", "--role", "read",
                      "--type", "mail", "--expires", "90d", "--json")).json  # fmt: skip
    assert is_key(made["key"])
    assert (made["roles"], made["task_types"]) == (["read", "submit"], ["mail"])
    assert (made["created_by"], made["expires_at"] is not None) == ("first", True)
    new = (await cli("keys", "rotate", made["key_id"], "--overlap", "1h", "--json")).json
    assert new["key"] != made["key"]
    assert "revoke" in (await cli("keys", "rotate", made["key_id"], code=1)).err
    assert (await cli("keys", "revoke", made["key_id"])).out == f"revoked {made['key_id']}\n"

    listing = await cli("keys", "list", "--json")
    assert made["key"] not in listing.out
    keys = listing.json["keys"]
    assert [key["name"] for key in keys] == ["mail", "mail", "shop", "first"]
    assert [key["revoked_at"] is not None for key in keys] == [False, True, False, False]
    assert made["hint"] in (await cli("keys", "list")).out
    assert "no API key" in (await cli("keys", "revoke", str(uuid4()), code=1)).err
    await cli("keys", "revoke", "x", code=2)

    limited = (await cli("keys", "create", "--name", "k", "--role", "submit", "--host",
                         "*.example.com", "--function", "none", "--json")).json  # fmt: skip
    assert (limited["functions"], limited["hosts"]) == ([], ["*.example.com"])
    listed = (await cli("keys", "list")).out
    assert "functions: none; hosts: *.example.com" in " ".join(listed.split())
    for wrong in (["--host", "http://x"], ["--host", "all", "--host", "x"], ["--function", "*"]):
        await cli("keys", "create", "--name", "wrong", "--role", "submit", *wrong, code=2)


@pytest.mark.usefixtures("secured")
async def test_a_key_is_revoked_with_those_made_with_it(database: Database, tmp_path: Path) -> None:
    (tmp_path / "ops.key").write_text((await make_operator(database))[1])
    maker, ids = "ops", []
    for name in ("a", "b", "c"):
        create = ("keys", "create", "--operator", "--json", "--name", name, "--out", f"{name}.key")
        ids.append((await cli("--key-file", f"{maker}.key", *create)).json["key_id"])
        maker = name
    revoke = ("keys", "revoke", ids[0], "--operator", "--cascade")
    revoked = (await cli("--key-file", "ops.key", *revoke)).out
    assert {line.removeprefix("revoked ") for line in revoked.splitlines()} == set(ids)
    listed = (await cli("--key-file", "ops.key", "keys", "list", "--operator", "--json")).json
    assert {key["key_id"] for key in listed["keys"] if key["revoked_at"]} == set(ids)


@pytest.mark.usefixtures("secured")
async def test_a_key_revokes_itself_and_those_made_with_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, key = await make_operator(database)
    monkeypatch.setenv("GNOMON_API_KEY", key)
    create = ("keys", "create", "--operator", "--json", "--name", "made")
    made = (await cli(*create)).json["key_id"]
    # After that it cannot ask for anything more.
    revoked = (await cli("keys", "revoke", str(own), "--operator", "--cascade")).out
    assert revoked == f"revoked {made}\nrevoked {own}\n"


def test_commands_send_their_key(
    database_dsn: str, unused_tcp_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"DATABASE_URL": database_dsn, "GNOMON_AUTH_ENABLED": "true"}
    monkeypatch.setenv("GNOMON_API_PORT", str(unused_tcp_port))
    port = str(unused_tcp_port)
    with running("api", "--port", port, cwd=tmp_path, env=env) as api:
        eventually_sync(lambda: "api started" in api.errors)
        assert "gnomon keys create" in api.errors  # there was none yet
        key = done("keys", "create", "--name", "cli", "--role", "read").out.strip()
        assert "GNOMON_API_KEY" in refused("tasks", "list")
        (tmp_path / "wrong").write_text(key[:-1])
        assert "--key-file" in refused("--key-file", "wrong", "tasks", "pause", str(uuid4()))
        (tmp_path / "key").write_text(f"{key}\n")
        listing = ("tasks", "list", "--json")
        assert done("--key-file", "key", *listing).json == {"tasks": []}
        assert gnomon_here("--key-file", "-", *listing, stdin=key).json == {"tasks": []}
        assert "holds nothing" in refused("--key-file", "-", *listing, code=2)
        assert "nowhere" in refused("--key-file", "nowhere", *listing, code=2)
        assert key not in refused("--key", key, *listing, code=2)
        monkeypatch.setenv("GNOMON_API_KEY", key)
        assert done("cron", "list", "--json").json == {"cron_jobs": []}
        problem = refused("submit", "http://93.184.216.34/")
        assert "'submit'" in problem
        assert "read" in problem
