"""`gnomon top`, `gnomon doctor` and `gnomon bundle` against the real API."""

import asyncio
import json
import tarfile
from pathlib import Path

import asyncpg
import pytest
from tests.commands import api_running, gnomon_here
from tests.integration.identity import make_key, make_operator
from tests.integration.support import Connection, database_now, joined, store, submission

from gnomon.access.api_key import RANDOM_BYTES, key_from
from gnomon.access.principal import Role
from gnomon.cli.admin.checks.limits import fleet
from gnomon.store.postgres.database import Database

CANARIES = {
    name: f"canary-{name}-0123456789"
    for name in ("payload", "header", "error", "variable", "event")
}


async def _plant(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        """
        UPDATE gnomon.task SET state = 4, attempt = 1, last_error = $1
        WHERE task_type = 'planted'
        """,
        CANARIES["error"],
    )
    await connection.execute(
        """
        INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
        SELECT 'default', id, 'breaker.opened', now(), json_build_object('error', $1::text)
        FROM gnomon.task
        """,
        CANARIES["event"],
    )
    await connection.close()


def test_a_bundle_holds_no_secret_and_overwrites_nothing(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_from(b"\x05" * RANDOM_BYTES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    monkeypatch.setenv("GNOMON_API_KEY", key)
    monkeypatch.setenv("MY_SECRET", CANARIES["variable"])
    (tmp_path / "node.log").write_text(f"a line\nthe secret is {CANARIES['variable']} {key}\n")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        gnomon_here(
            "submit", "http://127.0.0.1:9/", "--type", "planted",
            "--payload", json.dumps({"a": CANARIES["payload"]}),
            "--header", f"X-Secret: {CANARIES['header']}",
        )  # fmt: skip
        asyncio.run(_plant(database_dsn))
        told = gnomon_here("bundle", "b.tar.gz", "--log", "node.log", "--json").json
        again = gnomon_here("bundle", "b.tar.gz")
        shown = gnomon_here("top")
        figures = gnomon_here("top", "--once", "--json").json
    assert (told["left_out"], again.code) == ({}, 1)
    assert "exists, and is not overwritten" in again.err
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        texts = {
            member.name.removeprefix("b/"): read.read().decode()
            for member in archive.getmembers()
            if (read := archive.extractfile(member)) is not None
        }
    assert set(texts) == set(told["files"])
    assert json.loads(texts["stats.json"])["statuses"]["DEAD_LETTERED"]["count"] == 1
    assert "a line" in texts["log.txt"]
    for name, text in texts.items():
        for canary in (*CANARIES.values(), key):
            assert canary not in text, name
    assert shown.out.startswith("gnomon top")
    assert {lane["priority"] for lane in figures["lanes"]} >= {"CRITICAL", "LOW"}


async def _made_keys(dsn: str) -> tuple[str, str]:
    database = Database(dsn, 1)
    await database.open(quiet=True)
    try:
        _, operator = await make_operator(database)
        _, own = await make_key(database, roles=[Role.READ])
    finally:
        await database.close()
    return operator, own


def test_a_bundle_has_the_metrics_of_all_if_the_key_may_read_them(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, own = asyncio.run(_made_keys(database_dsn))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    with api_running(database_dsn, unused_tcp_port, tmp_path, auth_enabled=True):
        monkeypatch.setenv("GNOMON_API_KEY", operator)
        by_operator = gnomon_here("bundle", "a.tar.gz", "--json").json
        monkeypatch.setenv("GNOMON_API_KEY", own)
        by_tenant = gnomon_here("bundle", "b.tar.gz", "--json").json
    assert "metrics.txt" in by_operator["files"], by_operator["left_out"]
    assert "operator's key" in by_tenant["left_out"]["metrics.txt"]
    assert "stats.json" in by_tenant["files"]


async def test_the_doctor_says_what_limits_the_fleet(
    database: Database, connection: Connection
) -> None:
    assert (await fleet(database)).ok
    now = await database_now(connection)
    await store(database, submission(now))
    await connection.execute("UPDATE gnomon.task SET due_at = gnomon.now() - interval '1 minute'")
    found = await fleet(database)
    assert (found.ok, found.detail) == (False, "1 kind of tasks wait, and no node is alive")
    node = await joined(database)
    assert "nothing known holds them up (1 of 1)" in (await fleet(database)).detail
    await connection.execute("UPDATE gnomon.node SET slots = 0")
    busy = await fleet(database)
    assert "all slots are busy (1 of 1)" in busy.detail
    assert "add nodes" in busy.remedy
    await connection.execute(
        """
        INSERT INTO gnomon.breaker (node, tenant_id, host, until)
        VALUES ($1, 'default', NULL, gnomon.now() + interval '1 minute')
        """,
        node,
    )
    assert "breaker" in (await fleet(database)).detail
