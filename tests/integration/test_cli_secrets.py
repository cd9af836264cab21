"""`gnomon secrets`: on the database where authentication is off, and with a key over the API."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.commands import Finished, cli, gnomon_here
from tests.conftest import serving
from tests.integration.identity import make_key, make_tenant

from gnomon.store.postgres.database import Database
from gnomon.wiring.processes import prepare

OWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(autouse=True)
async def here(database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    await prepare(database_dsn)


def done(*arguments: str, stdin: str = "") -> Finished:
    finished = gnomon_here("secrets", *arguments, stdin=stdin)
    assert finished.code == 0, finished.err
    return finished


def refused(*arguments: str, code: int = 1, stdin: str = "") -> str:
    finished = gnomon_here("secrets", *arguments, stdin=stdin)
    assert finished.code == code, finished
    return finished.err


def listed(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = done("list", "--json", *arguments).json["webhook_secrets"]
    return found


def test_a_secret_from_its_making_to_its_end() -> None:
    (first,) = listed()
    old = done("show", first["secret_id"]).out.strip()
    assert old.startswith("whsec_")
    assert old not in done("list").out

    made = done("rotate", first["secret_id"], "--overlap", "1h", "--json").json
    assert made["secret"] not in (old, None)
    assert made["secret"] not in done("list").out
    assert [each["secret_id"] for each in listed()] == [made["secret_id"], first["secret_id"]]
    assert listed()[1]["expires_at"] is not None
    assert "overlap of 0" in refused("revoke", made["secret_id"])
    assert "took its place" in refused("rotate", first["secret_id"])
    assert done("revoke", first["secret_id"]).out == f"revoked {first['secret_id']}\n"
    assert "has ended" in refused("show", first["secret_id"])


def test_a_host_a_public_key_and_a_secret_of_ones_own(tmp_path: Path) -> None:
    made = done("create", "--host", "Hooks.Example.com", "--overlap", "10m", "--json").json
    assert (made["host"], made["scheme"]) == ("hooks.example.com", "v1")
    assert "hooks.example.com" in done("list").out
    public = done("create", "--scheme", "v1a")
    assert public.out.startswith("whpk_")
    assert "public key" in public.err
    pair = next(each for each in listed() if each["scheme"] == "v1a")
    assert done("show", pair["secret_id"]).out == public.out
    (tmp_path / "own").write_text(f"{OWN}\n")
    assert done("create", "--secret-file", str(tmp_path / "own")).out.strip() == OWN
    again = done("create", "--secret-file", "-", "--host", "b.example", stdin=OWN)
    assert again.out.strip() == OWN


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["create", "--host", "a:80"], "--host"),
        (["create", "--scheme", "v2"], "v2"),
        (["create", "--scheme", "v1a", "--secret-file", "-"], "never leave"),
        (["create", "--secret-file", "-"], "base64"),
        (["create", "--secret-file", "nowhere"], "nowhere"),
        (["create", "--host", "a", "--overlap", "31d"], "30d"),
        (["rotate", "x"], "secrets list"),
        (["revoke", "x"], "secrets list"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: list[str], why: str) -> None:
    assert why in refused(*wrong, code=2, stdin="whsec_canary?")
    assert len(listed()) == 1


def test_unknown_secrets() -> None:
    unknown = "019a0000-0000-7000-8000-000000000000"
    for command in ("show", "rotate", "revoke"):
        assert "not found" in refused(command, unknown)


async def test_a_key_chooses_the_tenant_and_is_needed_where_authentication_is_on(
    database_dsn: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_tenant(database, "acme")
    (tmp_path / "key").write_text((await make_key(database, "acme"))[1])
    secrets = ("--key-file", "key", "secrets")
    with capture_logs():
        async with serving(database_dsn, auth_enabled=True) as api:
            monkeypatch.setenv("GNOMON_URL", str(api._base_url))
            made = (await cli(*secrets, "create", "--host", "a.example", "--json")).json
            assert (made["tenant_id"], made["host"]) == ("acme", "a.example")
            new = (await cli(*secrets, "rotate", made["secret_id"], "--json")).json
            assert (await cli(*secrets, "show", new["secret_id"])).out == f"{new['secret']}\n"
            found = (await cli(*secrets, "list", "--json")).json["webhook_secrets"]
            assert {each["tenant_id"] for each in found} == {"acme"}
            assert new["secret"] not in (await cli(*secrets, "list")).out
            await cli(*secrets, "revoke", made["secret_id"])
            for command in (["list"], ["show", made["secret_id"]], ["create"]):
                assert "authentication is on" in (await cli("secrets", *command, code=1)).err
