"""`gnomon tenants grant-role`, `revoke-role` and `roles`; `gnomon relay --ddl`; workers without the
database of their handlers."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.commands import cli
from tests.integration.own_roles import as_role, login_role
from tests.integration.support import Connection

from gnomon import outbox


@pytest.fixture(autouse=True)
def here(database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)


@pytest.fixture
async def role(superuser: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        yield found


async def test_a_role_is_granted_listed_and_revoked(database_dsn: str, role: str) -> None:
    done = await cli("tenants", "grant-role", "default", role, "--type", "t", "--host", "A.example")
    assert done.out == f"the role {role} submits for default\n"
    listed = json.loads((await cli("tenants", "roles", "--json")).out)["roles"]
    assert [(each["role"], each["task_types"], each["hosts"]) for each in listed] == [
        (role, ["t"], ["a.example"])
    ]
    assert role in (await cli("tenants", "roles")).out
    app = await asyncpg.connect(as_role(database_dsn, role))
    assert await app.fetchval("""SELECT gnomon.submit('{"task_type": "t"}')""")
    await cli("tenants", "revoke-role", role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await app.execute("""SELECT gnomon.submit('{"task_type": "t"}')""")
    await app.close()
    again = await cli("tenants", "revoke-role", role, code=1)
    assert f"{role!r} had no grant" in again.err


async def test_what_is_not_there_is_told(role: str) -> None:
    unknown = await cli("tenants", "grant-role", "default", "nobody_of_this_name", code=1)
    assert "no role 'nobody_of_this_name'" in unknown.err
    nowhere = await cli("tenants", "grant-role", "nowhere", role, code=1)
    assert "no tenant 'nowhere'" in nowhere.err


async def test_the_table_of_an_outbox_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await cli("relay", "--ddl")).out == f"{outbox.ddl()};\n"
    monkeypatch.delenv("OUTBOX_URL", raising=False)
    refused = await cli("relay", code=1)
    assert "OUTBOX_URL must be like postgresql://" in refused.err


async def test_a_worker_whose_handlers_lack_their_database_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
from gnomon import Gnomon

app = Gnomon()


@app.task(delivery="exactly_once", transactional=True)
async def book(order: int) -> None: ...
"""
    (tmp_path / "lacking.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    refused = await cli("worker", "lacking:app", code=1)
    assert "set GNOMON_DATABASE_HANDLER_URL" in refused.err
