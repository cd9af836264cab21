"""TLS to a PostgreSQL that takes nothing else, with certificates of our own."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.certificates import Authority
from tests.commands import gnomon_here
from tests.conftest import migrated, serving
from tests.integration.nodes import running_node
from tests.waiting import eventually, eventually_sync

from gnomon.model.errors import StoreUnavailable
from gnomon.store.embedded import identity, postmaster
from gnomon.store.postgres.database import Database, connect
from gnomon.store.postgres.encryption import protection_of

MISSING = "no PostgreSQL with TLS is installed (Debian: apt-get install postgresql)"
_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_PROGRAMS = next((place for place in _PLACES if (place / "postgres").exists()), None)
PASSWORD = "secret-of-the-test"


def own_address() -> str:
    """One of this machine that is not loopback. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


ADDRESS = own_address()
far = pytest.mark.skipif(ADDRESS.startswith("127."), reason="this machine has only loopback")


class TlsServer:
    """A PostgreSQL on all addresses of this machine, with a password, and TLS or nothing."""

    def __init__(self, folder: Path) -> None:
        assert _PROGRAMS is not None
        self.folder = folder
        self.right = Authority(folder, "right")
        self.wrong = Authority(folder, "wrong")
        cluster = folder / "cluster"
        self._who = who = identity.choose(folder, cluster, created=True)
        (folder / "password").write_text(PASSWORD)
        flags = ("--auth=scram-sha-256", "--no-sync", "--locale=C", "--encoding=UTF8")
        cluster.mkdir(mode=0o700)
        who.own(cluster)
        who.own(folder / "password")
        who.run(
            *(_PROGRAMS / "initdb", "--pgdata", cluster, "--username=gnomon", *flags),
            f"--pwfile={folder / 'password'}",
        )
        self.right.sign(cluster, "127.0.0.1", ADDRESS)
        (cluster / "pg_hba.conf").write_text("hostssl all gnomon all scram-sha-256\n")
        for name in ("server.crt", "server.key", "pg_hba.conf"):
            who.own(cluster / name)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        settings = f"ssl=on fsync=off listen_addresses={ADDRESS},127.0.0.1 port={self.port}"
        settings += " unix_socket_directories="
        options = [part for each in settings.split() for part in ("-c", each)]
        self.process = subprocess.Popen(
            [*who.command(_PROGRAMS / "postgres", "-D", cluster), *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **who.popen_options(),
        )
        eventually_sync(lambda: (file := postmaster.read(cluster)) is not None and file.ready)

    def dsn(self, mode: str | None, root: Authority | None = None, host: str = ADDRESS) -> str:
        query = [f"sslmode={mode}"] if mode else []
        query += [f"sslrootcert={root.file}"] if root else []
        return f"postgresql://gnomon:{PASSWORD}@{host}:{self.port}/postgres?{'&'.join(query)}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    if _PROGRAMS is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("tls")
    started = TlsServer(folder)
    yield started
    started.process.send_signal(signal.SIGQUIT)
    started.process.wait()


async def test_verify_full_accepts_the_right_certificate_and_no_other(server: TlsServer) -> None:
    connection = await connect(server.dsn("verify-full", server.right))
    found = protection_of(connection)
    assert (found.protocol, found.certificate_checked, found.name_checked) == (
        "TLSv1.3",
        True,
        True,
    )
    await connection.close()
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        await connect(server.dsn("verify-full", server.wrong))
    opened = Database(server.dsn("verify-full", server.wrong), 1)
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        await opened.open()


async def test_a_certificate_of_another_name_is_refused(server: TlsServer) -> None:
    wrong_name = server.dsn("verify-full", server.right, "localhost")
    with pytest.raises(StoreUnavailable, match="Hostname mismatch"):
        await connect(wrong_name)
    connection = await connect(wrong_name.replace("verify-full", "verify-ca"))
    assert protection_of(connection).certificate_checked
    assert not protection_of(connection).name_checked
    await connection.close()


@pytest.mark.parametrize("root", ["missing.crt", "system"])
async def test_a_root_certificate_that_is_not_there_is_named(server: TlsServer, root: str) -> None:
    with pytest.raises(StoreUnavailable):
        await connect(f"{server.dsn('verify-full')}&sslrootcert={root}")


async def test_the_default_encrypts_and_checks_nothing(server: TlsServer) -> None:
    for mode in (None, "prefer", "require"):
        connection = await connect(server.dsn(mode))
        found = protection_of(connection)
        assert (found.protocol, found.certificate_checked) == ("TLSv1.3", False), mode
        await connection.close()
    # Naming who signs is not enough below `require`, and is checked from there on.
    connection = await connect(server.dsn("prefer", server.wrong))
    await connection.close()
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        await connect(server.dsn("require", server.wrong))
    with pytest.raises(asyncpg.PostgresError):
        await asyncpg.connect(server.dsn("disable"))


async def test_the_variables_of_libpq_say_the_same(
    server: TlsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(server.wrong.file))
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        await connect(server.dsn(None))
    monkeypatch.setenv("PGSSLROOTCERT", str(server.right.file))
    connection = await connect(server.dsn(None))
    assert protection_of(connection).name_checked
    await connection.close()


def doctor(dsn: str) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", dsn)
        told = gnomon_here("doctor", "--json").json["checks"]
    found = {check["name"]: check for check in told}
    return dict(found.get("encryption") or found["PostgreSQL"])


@far
def test_doctor_tells_what_is_checked(server: TlsServer) -> None:
    good = doctor(server.dsn("verify-full", server.right))
    assert good["ok"]
    assert good["detail"] == f"TLSv1.3 with {ADDRESS}, certificate and name checked"
    unchecked = doctor(server.dsn(None))
    assert not unchecked["ok"]
    assert unchecked["detail"].endswith("but its certificate is not checked")
    assert "sslmode=verify-full" in unchecked["remedy"]
    refused = doctor(server.dsn("verify-full", server.wrong))
    assert not refused["ok"]
    assert "certificate verify failed" in refused["detail"]
    local = doctor(server.dsn(None, host="127.0.0.1"))
    assert local["ok"]


@far
def test_doctor_tells_that_nothing_is_encrypted(server: TlsServer) -> None:
    """Of a server that takes both."""
    dsn = server.dsn("disable")
    rules = server.folder / "cluster" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all gnomon all scram-sha-256\n")
    server.process.send_signal(signal.SIGHUP)  # read the rules again
    try:
        found = eventually_sync(
            lambda: check if (check := doctor(dsn))["name"] == "encryption" else None
        )
        assert not found["ok"]
        assert found["detail"] == f"none: all on the way can be read ({ADDRESS})"
    finally:
        rules.write_text(before)
        server.process.send_signal(signal.SIGHUP)


async def test_everything_that_connects_is_encrypted(server: TlsServer) -> None:
    """The server takes only TLS; so what works at all, works with it: leases and hints, too."""
    dsn = server.dsn("verify-full", server.right)
    await migrated(dsn)
    async with serving(dsn) as api, running_node(dsn):
        body = {"task_type": "t", "target": {"type": "python", "function": "none"}}
        async with api.post("/api/v1/tasks", json=body) as answer:
            assert answer.status == 202
            task = (await answer.json())["task_id"]

        async def ended() -> bool:
            async with api.get(f"/api/v1/tasks/{task}") as answer:
                return bool((await answer.json())["status"] == "DEAD_LETTERED")

        await eventually(ended)
        watching = await connect(dsn)
        rows = await watching.fetch(
            "SELECT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
            "WHERE application_name = 'gnomon'"
        )
        await watching.close()
    assert len(rows) > 4
    assert all(row["ssl"] for row in rows)
