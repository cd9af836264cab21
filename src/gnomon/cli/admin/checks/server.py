"""Checks of the PostgreSQL server, and of the way to it."""

from typing import TYPE_CHECKING

import msgspec

from gnomon.cli.admin.checks.check import Check
from gnomon.cli.admin.checks.encryption import encryption
from gnomon.cli.shared import database
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.errors import StoreError
from gnomon.settings import Settings

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

OLDEST_POSTGRES = 15
CLOCK_SECONDS = 1.0
DIRECT_VARIABLE = "GNOMON_DATABASE_DIRECT_URL"
# Which server it is that answers, whatever the way to it.
_SERVER = "SELECT current_database(), pg_postmaster_start_time()"


async def server_version(connection: "Connection") -> Check:
    version = connection.get_server_version()
    good = version.major >= OLDEST_POSTGRES
    detail = f"{await connection.fetchval('SHOW server_version')} answers"
    return Check("PostgreSQL", good, detail, f"use PostgreSQL {OLDEST_POSTGRES} or newer")


async def migrations(connection: "Connection") -> Check:
    from gnomon.store.postgres import migrate

    refused = await migrate.refusal(connection)
    if refused is not None:
        detail, _, remedy = refused.partition("; ")
        return Check("migrations", False, detail, remedy)
    known = await migrate.status(connection)
    missing = [migration.name for migration in known if not migration.applied]
    detail = f"not applied: {', '.join(missing)}" if missing else "all applied"
    return Check("migrations", not missing, detail, "run `gnomon migrate`")


async def durability(connection: "Connection") -> Check:
    values = {
        name: await connection.fetchval("SELECT current_setting($1)", name)
        for name in ("fsync", "synchronous_commit")
    }
    good = values["fsync"] == "on" and values["synchronous_commit"] != "off"
    detail = ", ".join(f"{name} {value}" for name, value in values.items())
    return Check("durability", good, detail, "turn both on: else a crash loses acknowledged tasks")


async def planner_costs(connection: "Connection") -> Check:
    cost = float(await connection.fetchval("SELECT current_setting('random_page_cost')"))
    remedy = "ALTER SYSTEM SET random_page_cost = 1.1: batches by key beat reading whole tables"
    return Check("planner", cost <= 2, f"random_page_cost {cost:g}", remedy)


async def database_clock(connection: "Connection") -> Check:
    from gnomon.clock import SystemClock

    clock = SystemClock()
    before = clock.now()
    theirs = await connection.fetchval("SELECT clock_timestamp()")
    middle = before + (clock.now() - before) / 2
    difference = (theirs - middle).total_seconds()
    good = abs(difference) < CLOCK_SECONDS
    detail = f"{difference * 1000:+.0f} ms from this machine's"
    return Check("database clock", good, detail, "let both machines follow the same NTP servers")


async def pooler(connection: "Connection", settings: Settings) -> Check:
    from gnomon.store.postgres.database import is_pooled

    name, remedy = "pooler", f"set {DIRECT_VARIABLE} to the server itself, past the pooler"
    if settings.database.direct_url is None:
        if not is_pooled(connection):
            return Check(name, True, "none in between")
        seconds = settings.node.scan_seconds
        detail = f"one is in between: no node hears of new tasks, each looks every {seconds:g} s"
        return Check(name, False, detail, remedy)
    try:
        async with database.connection(settings.database.direct_url) as direct:
            if not (protected := encryption(direct, DIRECT_VARIABLE)).ok:
                return msgspec.structs.replace(
                    protected, detail=f"on the direct way: {protected.detail}"
                )
            if is_pooled(direct):
                return Check(name, False, "one is in between on the direct way, too", remedy)
            if await direct.fetchrow(_SERVER) != await connection.fetchrow(_SERVER):
                detail = "the direct way leads to another server or another database"
                return Check(name, False, detail, f"set {DIRECT_VARIABLE} to the one behind it")
    except (CommandFailed, StoreError) as error:
        return Check(name, False, f"the direct way is closed: {error}", remedy)
    return Check(name, True, "hints and leases have a direct way")


async def tenant_wall(connection: "Connection") -> Check:
    """Row security: the API takes on a role that sees one tenant, and this user sees all."""
    means, alone = "MEMBER", ""
    if connection.get_server_version().major >= 16:
        means, alone = "SET", " WITH INHERIT FALSE, SET TRUE"
    row = await connection.fetchrow(
        """
        SELECT quote_ident(current_user) AS user, pg_has_role('gnomon_tenant', $1) AS may,
            pg_has_role('gnomon_tenant', 'USAGE') AND row_security_active('gnomon.task') AS behind
        """,
        means,
    )
    assert row is not None, "a SELECT without FROM gives a row"
    user = row["user"]
    if not row["may"]:
        remedy = f"let an administrator run: GRANT gnomon_tenant TO {user}{alone}"
        return Check("tenants", False, f"{user} may not take on the role gnomon_tenant", remedy)
    remedy = f"let {user} own the tables, or not inherit from gnomon_tenant"
    detail = (
        f"{user} is shown no tasks itself" if row["behind"] else "kept apart by PostgreSQL, too"
    )
    return Check("tenants", not row["behind"], detail, remedy)
