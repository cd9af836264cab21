"""The role that Gnomon works as on its embedded server, and clusters that had only a superuser."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.conftest import FAST, PostgresServer, migrated
from tests.integration.support import Connection

from gnomon.store.embedded import EmbeddedServer, binaries, identity, postmaster
from gnomon.store.embedded.roles import SUPERUSER, USER

FORBIDDEN = [
    "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'",
    "COPY pg_temp.t FROM PROGRAM 'echo 1'",
    "COPY (SELECT 1) TO '/tmp/gnomon-was-here'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('PG_VERSION')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
    "ALTER SYSTEM SET log_statement = 'all'",
    "SELECT pg_reload_conf()",
    "CREATE ROLE another SUPERUSER",
    f"ALTER ROLE {USER} SUPERUSER",
    f"SET ROLE {SUPERUSER}",
    f"SET SESSION AUTHORIZATION {SUPERUSER}",
    "CREATE DATABASE another",
    "CREATE EXTENSION plpython3u",
    "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
    "SET session_replication_role = replica",
]


own_server = pytest.mark.skipif(
    bool(os.environ.get("GNOMON_TEST_SERVER")), reason="on another server the role is given"
)


@own_server
async def test_the_role_in_use_is_no_superuser(connection: Connection) -> None:
    await connection.execute("CREATE TEMP TABLE t (x text)")
    allowed = []
    for statement in FORBIDDEN:
        try:
            await connection.execute(statement)
        except (asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError):
            continue  # a missing extension is found missing before rights are looked at
        allowed.append(statement)
    assert allowed == []


@own_server
async def test_it_has_no_powers_and_owns_all_that_is_gnomons(connection: Connection) -> None:
    row = await connection.fetchrow("SELECT * FROM pg_roles WHERE rolname = current_user")
    assert row is not None
    powers = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls")
    assert (row["rolname"], [row[power] for power in powers]) == (USER, [False] * 5)
    granted = (
        "SELECT roleid::regrole::text FROM pg_auth_members WHERE member = current_user::regrole"
    )
    assert {r[0] for r in await connection.fetch(granted)} == {"gnomon_tenant", "pg_read_all_stats"}
    assert await owners_of(connection) == {USER}


async def owners_of(connection: Connection) -> set[str]:
    """Who owns anything in the database that is not the system's."""
    rows = await connection.fetch(
        """
        WITH schema AS (
            SELECT oid, nspowner FROM pg_namespace
            WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')
        )
        SELECT nspowner::regrole::text FROM schema
        UNION SELECT relowner::regrole::text FROM pg_class
            WHERE relnamespace IN (SELECT oid FROM schema)
        UNION SELECT proowner::regrole::text FROM pg_proc
            WHERE pronamespace IN (SELECT oid FROM schema)
        UNION SELECT typowner::regrole::text FROM pg_type
            WHERE typnamespace IN (SELECT oid FROM schema)
        UNION SELECT datdba::regrole::text FROM pg_database WHERE datname = current_database()
        """
    )
    return {row[0] for row in rows}


class EarlierCluster:
    """A data directory as it was made before there was a role beside the superuser."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o700)
        self.cluster = data_dir / "postgres"
        self._run = data_dir / "run"
        self._run.mkdir(mode=0o700)
        (data_dir / "postgres-password").write_text("earlier")
        self._who = identity.choose(data_dir, self.cluster, created=True)
        programs = binaries.reachable(self._who, data_dir)
        self._postgres = programs.postgres
        flags = ("--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256")
        self._who.run(
            *(programs.initdb, "--pgdata", self.cluster, "--username=gnomon", *flags),
            *("--no-instructions", "--no-sync"),
        )
        self._who.run(
            *(self._postgres, "--single", "-D", self.cluster, "-F", "postgres"),
            text="CREATE DATABASE gnomon\nALTER ROLE gnomon PASSWORD 'earlier'\n",
        )

    def start(self) -> tuple["subprocess.Popen[bytes]", str]:
        settings = FAST | {
            "listen_addresses": "",
            "unix_socket_directories": str(self._run),
            "log_min_messages": "fatal",
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        process = subprocess.Popen(
            self._who.command(self._postgres, "-D", self.cluster, *options),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **self._who.popen_options(),
        )
        while not ((file := postmaster.read(self.cluster)) and file.ready):
            assert process.poll() is None
        return process, f"postgresql:///gnomon?host={self._run}&port=5432&user=gnomon"


def with_connection(dsn: str, use: Callable[[Connection], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            return await use(connection)
        finally:
            await connection.close()

    return asyncio.run(within())


async def fill(connection: Connection) -> None:
    assert await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    await connection.execute(
        """
        INSERT INTO gnomon.tenant (id) VALUES ('acme');
        CREATE TYPE public.mood AS ENUM ('fine');
        CREATE TABLE public.mine (id int GENERATED ALWAYS AS IDENTITY, now serial, mood mood);
        CREATE MATERIALIZED VIEW public.seen AS SELECT 1 AS one;
        CREATE SEQUENCE public.counting;
        """
    )


@pytest.mark.parametrize("ended", ["stopped", "abandoned", "killed"])
def test_a_cluster_of_before_is_adopted(tmp_path: Path, ended: str) -> None:
    """Its first start makes the role, hands it everything, and leaves the superuser aside."""
    before = EarlierCluster(tmp_path / "data")
    process, dsn = before.start()
    asyncio.run(migrated(dsn))
    with_connection(dsn, fill)
    if ended != "abandoned":
        process.send_signal(signal.SIGINT if ended == "stopped" else signal.SIGKILL)
        process.wait()
    server = EmbeddedServer(tmp_path / "data", settings_overrides=FAST)
    try:
        with server:
            assert server.dsn.endswith("user=gnomon")
            assert with_connection(server.dsn, look) == {"acme", "default"}
            asyncio.run(migrated(server.dsn))
            passwords = with_connection(server.superuser_dsn, roles)
        with server:  # and once more, with nothing left to do
            assert with_connection(server.superuser_dsn, roles) == passwords
            assert with_connection(server.dsn, look) == {"acme", "default"}
    finally:
        process.kill()
        process.wait()


async def look(connection: Connection) -> set[str]:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("SELECT * FROM pg_authid")
    assert await owners_of(connection) == {USER}
    await connection.execute("INSERT INTO public.mine (mood) VALUES ('fine')")
    await connection.execute("REFRESH MATERIALIZED VIEW public.seen")
    assert await connection.fetchval("SELECT nextval('public.counting')") > 0
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE gnomon_tenant; SET LOCAL gnomon.tenant = 'acme'")
        assert await connection.fetchval("SELECT count(*) FROM gnomon.tenant") == 1
    return {row["id"] for row in await connection.fetch("SELECT id FROM gnomon.tenant")}


async def roles(connection: Connection) -> dict[str, str]:
    rows = await connection.fetch(
        "SELECT rolname, rolpassword FROM pg_authid WHERE rolname !~ '^pg_'"
    )
    found = {row["rolname"]: row["rolpassword"] for row in rows}
    assert set(found) == {USER, SUPERUSER, "gnomon_tenant"}
    assert found[USER] != found[SUPERUSER] is not None
    return found


def test_the_roles_have_passwords_of_their_own_on_loopback(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data", settings_overrides=FAST, sockets=False) as server:
        for name in ("postgres-password", "postgres-superuser-password"):
            assert (tmp_path / "data" / name).stat().st_mode & 0o077 == 0
        assert with_connection(server.superuser_dsn, roles)
        password = server.dsn.partition("gnomon:")[2].partition("@")[0]
        guessed = server.dsn.replace(f"{USER}:", f"{SUPERUSER}:")
        assert password in guessed
        with pytest.raises(asyncpg.InvalidPasswordError):
            with_connection(guessed, roles)


@own_server
async def test_what_gnomon_cannot_do_its_superuser_can(postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(postgres.superuser_dsn)
    try:
        assert await connection.fetchval("SELECT count(*) FROM pg_authid") > 0
    finally:
        await connection.close()
    assert postgres.superuser_dsn != postgres.dsn
