"""The second wall: behind it, a statement that forgets its tenant reaches nothing of the others.

What is walled is asked of the catalogue, so that a table that is added later is held to it too.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.conftest import PostgresServer, on_database
from tests.integration.support import Connection, database_now, joined, key_of, store, submission
from tests.waiting import eventually

from gnomon.cli.admin.checks.server import tenant_wall
from gnomon.clock import new_id
from gnomon.model.errors import StatementRefused, StoreUnavailable
from gnomon.model.tasks.task import Submission
from gnomon.store.postgres import migrate
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.reading import circumstances

MINE, THEIRS = "mine", "theirs"
ROLE = "gnomon_tenant"
PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")

# Walled by the table that says whose their rows are; each has a test of its own.
BY_ANOTHER_TABLE = {"limit_window": {"SELECT"}}
# Tables of the installation that name a tenant in some rows: a session's in the roster. The role
# may only read single columns of them, which are listed below, and no rows of other tenants.
OF_THE_INSTALLATION = {"node"}

_TABLES = """
SELECT c.relname AS name,
    (SELECT a.attname FROM pg_attribute AS a
     WHERE a.attrelid = c.oid AND NOT a.attisdropped
       AND (a.attname = 'tenant_id' OR (c.relname = 'tenant' AND a.attname = 'id'))) AS owner,
    c.relrowsecurity AS walled, c.relispartition AS part
FROM pg_class AS c
WHERE c.relnamespace = 'gnomon'::regnamespace AND c.relkind IN ('r', 'p')
ORDER BY c.relname
"""
_COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type
FROM pg_attribute AS a
WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped
  AND a.attgenerated = '' AND a.attidentity = ''
"""


async def walled_tables(connection: Connection) -> dict[str, str]:
    """Each table that holds tenants' rows, with the column that says whose they are."""
    rows = await connection.fetch(_TABLES)
    return {
        r["name"]: r["owner"]
        for r in rows
        if r["owner"] and not r["part"] and r["name"] not in OF_THE_INSTALLATION
    }


async def values_of(connection: Connection, table: str, owner: str, tenant: str) -> dict[str, Any]:
    """A row of that tenant, with some value in every column."""
    now = await database_now(connection)
    some: dict[str, Any] = {
        "uuid": new_id(now),
        "bytea": tenant.encode(),
        "timestamp with time zone": now,
        "date": now.date(),
        "boolean": False,
        "text": "x",
        "name": tenant,
        "json": "{}",
        "jsonb": "[]",
    }
    rows = await connection.fetch(_COLUMNS, f"gnomon.{table}")
    values: dict[str, Any] = {}
    for row in rows:
        value = some.get(row["type"].removesuffix("[]"), 1)
        values[row["name"]] = [value] if row["type"].endswith("[]") else value
    return values | {owner: tenant}


def insertion(table: str, values: dict[str, Any]) -> str:
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    return f"INSERT INTO gnomon.{table} ({', '.join(values)}) VALUES ({places})"


@pytest.fixture
async def filled(superuser: Connection) -> dict[str, str]:
    """A row of each of two tenants in every table."""
    # Nothing here is about foreign keys; the rows need not fit together.
    await superuser.execute("SET session_replication_role = replica")
    tables = await walled_tables(superuser)
    for table, owner in tables.items():
        for tenant in (MINE, THEIRS):
            values = await values_of(superuser, table, owner, tenant)
            await superuser.execute(insertion(table, values), *values.values())
    return tables


async def owners(connection: Any, table: str, owner: str) -> set[str]:
    rows = await connection.fetch(f"SELECT {owner} FROM gnomon.{table}")
    return {row[owner] for row in rows} - {"default"}


async def may(connection: Connection, privilege: str, table: str) -> bool:
    found: bool = await connection.fetchval(
        "SELECT has_table_privilege($1, $2, $3)", ROLE, f"gnomon.{table}", privilege
    )
    return found


async def test_every_table_of_tenants_has_its_wall(connection: Connection) -> None:
    rows = await connection.fetch(_TABLES)
    assert {r["name"] for r in rows if r["owner"]} >= {"task", "task_archive", "tenant", "api_key"}
    for table in rows:
        granted = {p for p in PRIVILEGES if await may(connection, p, table["name"])}
        if table["part"] or not table["owner"] or table["name"] in OF_THE_INSTALLATION:
            assert granted <= BY_ANOTHER_TABLE.get(table["name"], set()), table
            continue
        assert granted <= {"SELECT", "INSERT", "UPDATE", "DELETE"}, table
        assert table["walled"], f"{table['name']} has no wall: see gnomon.wall"
        policies = await connection.fetch(
            """
            SELECT policyname, permissive, roles::text, cmd, qual, with_check FROM pg_policies
            WHERE schemaname = 'gnomon' AND tablename = $1 ORDER BY policyname
            """,
            table["name"],
        )
        assert [tuple(p) for p in policies] == [
            ("everybody", "PERMISSIVE", "{public}", "ALL", "true", None),
            (
                "tenant",
                "RESTRICTIVE",
                f"{{{ROLE}}}",
                "ALL",
                f"({table['owner']} = current_setting('gnomon.tenant'::text, true))",
                None,
            ),
        ]


async def test_the_role_owns_nothing_and_no_way_leads_around_it(connection: Connection) -> None:
    role = await connection.fetchrow("SELECT * FROM pg_roles WHERE rolname = $1", ROLE)
    assert role is not None
    powers = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolbypassrls")
    assert not any(role[power] for power in powers)
    assert await connection.fetchval(
        "SELECT count(*) = 0 FROM pg_shdepend WHERE refobjid = $1 AND deptype = 'o'", role["oid"]
    )
    for view in await connection.fetch(
        """
        SELECT relname, reloptions FROM pg_class
        WHERE relnamespace = 'gnomon'::regnamespace AND relkind IN ('v', 'm')
        """
    ):
        assert "security_invoker=true" in (view["reloptions"] or []), view
    definers = await connection.fetch(
        "SELECT proname, has_function_privilege($1, oid, 'EXECUTE') AS callable FROM pg_proc"
        " WHERE pronamespace = 'gnomon'::regnamespace AND prosecdef ORDER BY proname",
        ROLE,
    )
    assert {row["proname"]: row["callable"] for row in definers} == {
        # Programs whose role was granted.
        "complete": False,
        "hint": False,
        "payload_schema": False,
        "submit": False,
        # Nobody but the triggers of the owner: others could append what has not happened.
        "log_changed_task": False,
        "log_deleted_tasks": False,
        "log_gone_task": False,
        "log_new_task": False,
        "note_dead_member": False,
        "note_dead_outcome": False,
        "note_gone_outcome": False,
        "note_gone_member": False,
        # Likewise: others could let a workflow go on past what has not ended.
        "pass_dead_node": False,
        "pass_gone_node": False,
        "revise": True,
    }
    for privilege in ("INSERT", "UPDATE", "REFERENCES"):
        assert not await connection.fetchval(
            "SELECT has_any_column_privilege($1, 'gnomon.node', $2)", ROLE, privilege
        )
    of_nodes = await connection.fetch(
        """
        SELECT attname FROM pg_attribute
        WHERE attrelid = 'gnomon.node'::regclass AND attnum > 0 AND NOT attisdropped
          AND has_column_privilege($1, attrelid, attname, 'SELECT')
        """,
        ROLE,
    )
    assert {row["attname"] for row in of_nodes} == {"incarnation", "name", "dead", "kind"}


async def test_a_statement_without_its_tenant_sees_and_changes_no_foreign_row(
    database: Database, connection: Connection, filled: dict[str, str]
) -> None:
    for table, owner in filled.items():
        async with database.scoped(MINE) as scoped:
            assert await owners(scoped, table, owner) == {MINE}
        if await may(connection, "UPDATE", table):
            async with database.scoped(MINE) as scoped:
                done = await scoped.execute(f"UPDATE gnomon.{table} SET {owner} = {owner}")
                assert done == "UPDATE 1", table
            with pytest.raises(StatementRefused, match="row-level security"):
                async with database.scoped(MINE) as scoped:
                    await scoped.execute(f"UPDATE gnomon.{table} SET {owner} = $1", THEIRS)
        if await may(connection, "DELETE", table):
            async with database.scoped(MINE) as scoped:
                assert await scoped.execute(f"DELETE FROM gnomon.{table}") == "DELETE 1", table
            assert await owners(connection, table, owner) == {THEIRS}


async def test_nothing_can_be_written_under_a_foreign_name(
    database: Database, connection: Connection, filled: dict[str, str]
) -> None:
    for table, owner in filled.items():
        values = await values_of(connection, table, owner, THEIRS)
        why = "row-level security" if await may(connection, "INSERT", table) else "permission"
        with pytest.raises(StatementRefused, match=why):
            async with database.scoped(MINE) as scoped:
                await scoped.execute(insertion(table, values), *values.values())


async def test_whoever_names_no_tenant_sees_nobodys_rows(
    connection: Connection, filled: dict[str, str]
) -> None:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL ROLE {ROLE}")
        for table, owner in filled.items():
            assert await owners(connection, table, owner) == set()


async def test_tries_are_seen_by_their_owner_only(
    database: Database, connection: Connection, filled: dict[str, str]
) -> None:
    assert await owners(connection, "try", "tenant_id") == {MINE, THEIRS}
    async with database.scoped(MINE) as scoped:
        assert await owners(scoped, "try", "tenant_id") == {MINE}


async def test_starts_of_limiters_are_seen_by_their_owner_only(
    database: Database, connection: Connection, filled: dict[str, str]
) -> None:
    await connection.execute(
        "INSERT INTO gnomon.limit_window SELECT id, gnomon.now(), 1 FROM gnomon.limit_bucket"
    )
    async with database.scoped(MINE) as scoped:
        buckets = await scoped.fetch("SELECT bucket FROM gnomon.limit_window")
        assert buckets == await scoped.fetch("SELECT id FROM gnomon.limit_bucket")
        assert len(buckets) == 1


async def test_only_what_can_be_a_tenant_opens_a_scope(database: Database) -> None:
    for wrong in ("", "A", "a'; RESET ROLE; --", "-a", "a" * 64, "a\n", "ä"):
        with pytest.raises(ValueError, match="cannot be the id of a tenant"):
            async with database.scoped(wrong):
                pass


async def test_tasks_of_others_that_come_first_are_counted(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    mine = submission(now, -1.0, tenant_id=MINE)
    before: list[Submission] = []
    while len(before) < 3:
        one = submission(now, -10.0, tenant_id=THEIRS)
        if one.id.bytes[15] == mine.id.bytes[15]:
            before.append(one)
    await store(database, *before)
    await store(database, mine)
    await joined(database)
    found = await circumstances(database, key_of(mine))
    assert (found.ahead, found.server) == (3, "node")
    assert found.due_at is not None


class Single:
    """A pool of one connection, which is looked at between two uses."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def whose(self) -> tuple[bool, str]:
        async with self.database.connection() as connection:
            row = await connection.fetchrow(
                """
                SELECT current_user = session_user AS itself,
                    coalesce(current_setting('gnomon.tenant', true), '') AS tenant
                """
            )
        assert row is not None
        return row["itself"], row["tenant"]


@pytest.fixture
async def single(database_dsn: str) -> Any:
    database = Database(database_dsn, 1)
    await database.open()
    # The driver tells the loop when it finds a transaction on a connection that is given back.
    left_open: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: left_open.append(context))
    yield Single(database)
    loop.set_exception_handler(None)
    await database.close()
    assert not left_open


NOBODYS = (True, "")


async def test_a_scope_ends_with_its_transaction(single: Single) -> None:
    async with single.database.scoped(MINE) as scoped:
        assert await scoped.fetchval("SELECT current_user::text") == ROLE
    assert await single.whose() == NOBODYS
    with pytest.raises(StatementRefused, match="42P01"):
        async with single.database.scoped(MINE) as scoped:
            await scoped.fetchval("SELECT FROM gnomon.nothing")
    assert await single.whose() == NOBODYS


async def test_what_is_cancelled_at_any_moment_leaves_no_role_behind(single: Single) -> None:
    async def work() -> None:
        async with single.database.scoped(MINE) as scoped:
            await scoped.fetchval("SELECT pg_sleep(0.001)")

    for turns in range(60):
        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await single.whose() == NOBODYS, turns


async def test_a_statement_that_is_cancelled_leaves_no_role_behind(
    single: Single, connection: Connection
) -> None:
    async def hang() -> None:
        async with single.database.scoped(MINE) as scoped:
            await scoped.fetchval("SELECT pg_sleep(60)")

    task = asyncio.create_task(hang())
    await eventually(lambda: sleeping(connection))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await single.whose() == NOBODYS

    task = asyncio.create_task(hang())
    pid = await eventually(lambda: sleeping(connection))
    await connection.execute("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises(StoreUnavailable):
        await task
    assert await single.whose() == NOBODYS


async def sleeping(connection: Connection) -> int | None:
    """The session that hangs in a statement of the test's database."""
    pid: int | None = await connection.fetchval(
        """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep' LIMIT 1
        """
    )
    return pid


PLAIN = "gnomon_plain_user"


@pytest.fixture
async def plain(postgres: PostgresServer, empty_dsn: str) -> Any:
    """A connection of a user that may make a schema in its database, and nothing else."""
    name = urlsplit(empty_dsn).path.strip("/")
    connection = await asyncpg.connect(on_database(postgres.superuser_dsn, name))
    await connection.execute(f"DROP ROLE IF EXISTS {PLAIN}; CREATE ROLE {PLAIN} LOGIN")
    await connection.execute(f"GRANT CREATE ON DATABASE {name} TO {PLAIN}")
    await connection.execute(f"SET SESSION AUTHORIZATION {PLAIN}")
    yield connection
    await connection.execute("RESET SESSION AUTHORIZATION")
    await connection.execute(f"DROP OWNED BY {PLAIN} CASCADE; DROP ROLE {PLAIN}")
    await connection.close()


async def test_a_user_that_may_not_take_on_the_role_is_told_what_to_ask_for(
    plain: Connection,
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError) as refused:
        await migrate.up(plain)
    hint = str(refused.value.hint)
    asked = hint.partition("NOLOGIN; ")[2]
    assert hint.startswith("Let an administrator run: CREATE ROLE gnomon_tenant NOLOGIN; GRANT")
    await plain.execute(f"RESET SESSION AUTHORIZATION; {asked}; SET SESSION AUTHORIZATION {PLAIN}")
    await migrate.up(plain)

    # It owns the tables, so no wall is before itself; there is one before the role.
    await plain.execute("INSERT INTO gnomon.tenant (id) VALUES ('mine'), ('theirs')")
    assert await owners(plain, "tenant", "id") == {MINE, THEIRS}
    async with plain.transaction():
        await plain.execute(f"SET LOCAL ROLE {ROLE}; SET LOCAL gnomon.tenant = '{MINE}'")
        assert await owners(plain, "tenant", "id") == {MINE}

    assert (await tenant_wall(plain)).ok
    revoke = f"REVOKE gnomon_tenant FROM {PLAIN}"
    await plain.execute(f"RESET SESSION AUTHORIZATION; {revoke}; SET SESSION AUTHORIZATION {PLAIN}")
    found = await tenant_wall(plain)
    assert not found.ok
    assert asked.rstrip(";") in found.remedy


async def test_plain_sql_of_other_users_goes_on_as_before(
    superuser: Connection, filled: dict[str, str]
) -> None:
    user = f"{PLAIN}_sql"
    await superuser.execute(
        f"DROP ROLE IF EXISTS {user}; CREATE ROLE {user}; GRANT USAGE ON SCHEMA gnomon TO {user};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON gnomon.task TO {user}"
    )
    try:
        await superuser.execute(f"SET ROLE {user}")
        assert await owners(superuser, "task", "tenant_id") == {MINE, THEIRS}
        assert await superuser.execute("DELETE FROM gnomon.task") == "DELETE 2"
        # A node that inherited from the role would find nothing to run: `gnomon doctor` tells.
        await superuser.execute(f"RESET ROLE; GRANT gnomon_tenant TO {user}; SET ROLE {user}")
        assert "is shown no tasks" in (await tenant_wall(superuser)).detail
    finally:
        await superuser.execute(f"RESET ROLE; DROP OWNED BY {user}; DROP ROLE {user}")


async def test_a_tenant_sees_nodes_and_its_own_sessions(
    database: Database, connection: Connection
) -> None:
    for name in ("node", MINE, THEIRS):
        await joined(database, name)
    await connection.execute(
        "UPDATE gnomon.node SET kind = 2, tenant_id = name WHERE name <> 'node'"
    )
    async with database.scoped(MINE) as scoped:
        rows = await scoped.fetch("SELECT name, kind FROM gnomon.node")
    assert {row["name"] for row in rows} == {"node", MINE}
