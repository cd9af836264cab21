"""`gnomon tenants`, `gnomon keys`, and the key that the other commands send."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.commands import Finished, gnomon_here, running
from tests.waiting import eventually_sync

from gnomon.access.api_key import is_key


@pytest.fixture(autouse=True)
def here(database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)


def done(*arguments: str) -> Finished:
    finished = gnomon_here(*arguments)
    assert finished.code == 0, finished.err
    return finished


def refused(*arguments: str, code: int = 1) -> str:
    finished = gnomon_here(*arguments)
    assert finished.code == code, finished
    return finished.err


def test_a_tenant_from_its_making_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_SHARING_PLANS", '{"pro": {"cron_jobs": 7, "payload_bytes": 10}}')
    made = done("tenants", "create", "acme", "--quota", "scheduled_tasks=500", "--json").json
    assert (made["plan"], made["weight"]) == ("standard", 1.0)
    assert made["quotas"]["scheduled_tasks"] == 500
    assert made["quotas"]["executions_per_minute"] == 1000
    assert "set" in refused("tenants", "create", "acme")

    changed = done("tenants", "set", "acme", "--plan", "pro", "--weight", "2.5",
                   "--quota", "cron_jobs=none", "--quota", "cron_interval_seconds=1.5",
                   "--quota", "scheduled_tasks=plan", "--json").json  # fmt: skip
    assert (changed["plan"], changed["weight"]) == ("pro", 2.5)
    assert changed["quotas"]["scheduled_tasks"] is None
    assert changed["quotas"]["cron_jobs"] is None
    assert changed["quotas"]["payload_bytes"] == 10
    assert changed["quotas"]["cron_interval_seconds"] == 1.5
    shown = done("tenants", "show", "acme").out
    assert "payload bytes" in shown
    listed = done("tenants", "list", "--json").json["tenants"]
    assert [tenant["tenant_id"] for tenant in listed] == ["acme", "default"]
    assert listed[0] == changed
    assert "cron_jobs=none" in done("tenants", "list").out

    assert done("tenants", "rm", "acme", "--yes").out == "removed acme\n"
    assert "no tenant 'acme'" in refused("tenants", "show", "acme")
    assert "no tenant 'acme'" in refused("tenants", "set", "acme", "--weight", "1")
    assert "default" in refused("tenants", "rm", "default", "--yes")


@pytest.mark.parametrize(
    "wrong",
    [
        ["create", "Acme"],
        ["create", "acme", "--plan", "gold"],
        ["create", "acme", "--weight", "0"],
        ["create", "acme", "--quota", "tasks=1"],
        ["create", "acme", "--quota", "cron_jobs=-1"],
        ["create", "acme", "--quota", "cron_jobs=1.5"],
    ],
)
def test_a_tenant_that_makes_no_sense_is_refused(wrong: list[str]) -> None:
    refused("tenants", *wrong, code=2)
    assert len(done("tenants", "list", "--json").json["tenants"]) == 1


async def test_a_tenant_with_work_stays(connection: Any) -> None:
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('busy')")
    await connection.execute(
        """INSERT INTO gnomon.cron_job
               (tenant_id, id, name, tags, definition, created_at, updated_at)
           VALUES ('busy', $1, 'j', '[]', '{}', now(), now())""",
        uuid4(),
    )
    assert "cron jobs" in await asyncio.to_thread(refused, "tenants", "rm", "busy", "--yes")
    await connection.execute("DELETE FROM gnomon.cron_job")
    await asyncio.to_thread(done, "tenants", "rm", "busy", "--yes")


def test_a_key_from_its_making_to_its_end() -> None:
    done("tenants", "create", "acme")
    plain = done("keys", "create", "--tenant", "acme", "--name", "shop", "--role", "read")
    assert is_key(plain.out.strip())
    assert "not shown again" in plain.err
    made = done("keys", "create", "--tenant", "acme", "--name", "mail", "--role", "submit",
                "--role", "read", "--type", "mail", "--expires", "90d", "--json").json  # fmt: skip
    assert is_key(made["key"])
    assert (made["roles"], made["task_types"]) == (["read", "submit"], ["mail"])
    assert made["expires_at"] is not None
    new = done("keys", "rotate", made["key_id"], "--tenant", "acme", "--overlap", "1h", "--json")
    assert new.json["key"] != made["key"]
    assert "revoke" in refused("keys", "rotate", made["key_id"], "--tenant", "acme")
    done("keys", "revoke", made["key_id"], "--tenant", "acme")

    listing = done("keys", "list", "--tenant", "acme", "--json")
    assert made["key"] not in listing.out
    keys = listing.json["keys"]
    assert [key["name"] for key in keys] == ["mail", "mail", "shop"]
    assert [key["revoked_at"] is not None for key in keys] == [False, True, False]
    assert made["hint"] in done("keys", "list", "--tenant", "acme").out
    assert done("keys", "list", "--json").json == {"keys": []}

    assert "no API key" in refused("keys", "revoke", made["key_id"])
    assert "no tenant" in refused(
        "keys", "create", "--tenant", "nobody", "--name", "x", "--role", "read"
    )
    refused("keys", "create", "--tenant", "No Body", "--name", "x", "--role", "read", code=2)
    refused("keys", "create", "--name", "x", "--role", "king", code=2)
    refused("keys", "create", "--name", "x", code=2)
    refused("keys", "revoke", "x", code=2)


def test_tenants_and_keys_are_held_to_functions_and_hosts() -> None:
    made = done("tenants", "create", "acme", "--function", "billing.*", "--host", "API.Example.com",
                "--host", "*.acme.example:443", "--json").json  # fmt: skip
    assert made["functions"] == ["billing.*"]
    assert made["hosts"] == ["api.example.com", "*.acme.example:443"]
    changed = done("tenants", "set", "acme", "--host", "none", "--json").json
    assert (changed["functions"], changed["hosts"]) == (["billing.*"], [])
    shown = done("tenants", "show", "acme").out
    assert "billing.*" in shown
    lifted = done("tenants", "set", "acme", "--function", "all", "--json").json
    assert (lifted["functions"], lifted["hosts"]) == (None, [])
    assert done("tenants", "set", "acme", "--weight", "2", "--json").json["hosts"] == []

    create = ("keys", "create", "--tenant", "acme", "--role", "submit", "--name")
    key = done(*create, "k", "--host", "*.example.com", "--function", "none", "--json").json
    assert (key["functions"], key["hosts"], key["made_by"]) == ([], ["*.example.com"], None)
    new = done("keys", "rotate", key["key_id"], "--tenant", "acme", "--json").json
    assert (new["functions"], new["hosts"]) == ([], ["*.example.com"])
    listed = done("keys", "list", "--tenant", "acme").out
    assert "functions: none; hosts: *.example.com" in " ".join(listed.split())
    for wrong in (["--host", "http://x"], ["--host", "all", "--host", "x"], ["--function", "*"]):
        refused(*create, "wrong", *wrong, code=2)
        refused("tenants", "set", "acme", *wrong, code=2)


async def test_a_key_is_revoked_with_those_made_with_it(connection: Any) -> None:
    create = ("keys", "create", "--role", "admin", "--json", "--name")
    first, second, third = [
        (await asyncio.to_thread(done, *create, name)).json["key_id"] for name in ("a", "b", "c")
    ]
    for made, by in ((second, first), (third, second)):
        await connection.execute(
            "UPDATE gnomon.api_key SET made_by = $2::text::uuid WHERE id = $1::text::uuid", made, by
        )
    revoked = (await asyncio.to_thread(done, "keys", "revoke", first, "--cascade")).out
    assert {line.removeprefix("revoked ") for line in revoked.splitlines()} == {
        first,
        second,
        third,
    }


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
