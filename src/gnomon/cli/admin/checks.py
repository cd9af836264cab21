"""What `gnomon doctor` looks at. Each check says what it found and, if it is wrong, the remedy."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gnomon.cli.admin.check import Check
from gnomon.cli.admin.encryption_check import encryption
from gnomon.cli.admin.room_check import room
from gnomon.cli.admin.trouble_checks import chores, parked_jobs
from gnomon.cli.shared import database, remote
from gnomon.cli.shared.options import API_VARIABLE, SETTINGS_VARIABLE
from gnomon.cli.shared.output import CommandFailed
from gnomon.file_limit import file_limit, own_files
from gnomon.model.errors import StoreError
from gnomon.settings import (
    DEFAULT_FILE,
    Settings,
    SettingsError,
    load,
    unknown_variables,
)

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

OLDEST_PYTHON = (3, 11)
OLDEST_POSTGRES = 15
DAYS_AHEAD = 2
CLOCK_SECONDS = 1.0
OVERDUE_SECONDS = 60.0
RETENTION_SECONDS = 600.0
WAITING_SECONDS = 3600.0
_SHOWN = 3  # examples of what nobody serves
DIRECT_VARIABLE = "GNOMON_DATABASE_DIRECT_URL"
# Which server it is that answers, whatever the way to it.
_SERVER = "SELECT current_database(), pg_postmaster_start_time()"


async def examine(file: Path | None, api: str | None) -> list[Check]:
    """All checks, from the machine outwards. What cannot be looked at counts as failed."""
    checks = [_python(), _variables(os.environ)]
    try:
        settings = load(os.environ, file)
    except SettingsError as error:
        return [*checks, Check("settings", False, str(error), "correct it, or leave it out")]
    checks.append(_settings(file))
    checks.append(_data_dir(Path(settings.database.data_dir)))
    checks.append(_files(settings))
    if settings.database.url is None:
        checks.append(_binaries())
    checks += await _database(settings)
    checks.append(await _api(remote.api_url(settings, api)))
    return checks


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= OLDEST_PYTHON
    return Check("Python", good, version, "use Python 3.11 or newer")


def _variables(environ: Mapping[str, str]) -> Check:
    own = {API_VARIABLE, SETTINGS_VARIABLE}
    unknown = [name for name in unknown_variables(environ) if name not in own]
    detail = f"{', '.join(unknown)} set nothing" if unknown else "every GNOMON_ variable is known"
    return Check("environment", not unknown, detail, "look for a typing mistake, or unset them")


def _settings(file: Path | None) -> Check:
    found = file or Path(DEFAULT_FILE)
    return Check("settings", True, f"read from {found}" if found.exists() else "no file; defaults")


def _data_dir(folder: Path) -> Check:
    # The nearest folder that exists decides whether the rest can be made.
    nearest = next(f for f in (folder.absolute(), *folder.absolute().parents) if f.exists())
    good = nearest.is_dir() and os.access(nearest, os.W_OK)
    detail = f"{folder} {'can' if good else 'cannot'} be written"
    return Check(
        "data directory", good, detail, "give it to this user, or set GNOMON_DATABASE_DATA_DIR"
    )


def _files(settings: Settings) -> Check:
    allowed, own = file_limit(), own_files(settings.database)
    needed = max(settings.api.connections, settings.node.slots) + own
    if allowed >= needed:
        return Check("open files", True, f"{allowed} allowed")
    detail = (
        f"{allowed} allowed: the API holds {max(allowed - own, 1)} connections, not the "
        f"{settings.api.connections} of api.connections"
        if settings.api.connections > settings.node.slots
        else f"{allowed} allowed: too few for {settings.node.slots} slots"
    )
    remedy = f"raise the hard limit to {needed} (LimitNOFILE in systemd, ulimit -Hn), or lower it"
    return Check("open files", False, detail, remedy)


def _binaries() -> Check:
    from gnomon.store.embedded import EmbeddedError
    from gnomon.store.embedded.binaries import installed

    try:
        return Check("embedded PostgreSQL", True, f"in {installed().root}")
    except EmbeddedError as error:
        return Check("embedded PostgreSQL", False, str(error), "install it, or set DATABASE_URL")


async def _database(settings: Settings) -> list[Check]:
    import asyncpg

    try:
        async with database.connection(database.existing_dsn(settings)) as connection:
            checks = [await _version(connection), await _migrations(connection)]
            checks.append(encryption(connection))
            checks += [await _durability(connection), await _costs(connection)]
            checks += [await _clock(connection), await _pooler(connection, settings)]
            if checks[1].ok:
                looks = (_wall, _partitions, _keys, _nodes, _pools, _overdue)
                checks += [await look(connection) for look in looks]
                checks.append(await room(connection, settings.database))
                checks += await chores(connection) + await parked_jobs(connection)
            return checks
    except (CommandFailed, StoreError, asyncpg.PostgresError) as error:
        remedy = "start `gnomon up`, or correct DATABASE_URL"
        return [Check("PostgreSQL", False, str(error), remedy)]


async def _version(connection: "Connection") -> Check:
    version = connection.get_server_version()
    good = version.major >= OLDEST_POSTGRES
    detail = f"{await connection.fetchval('SHOW server_version')} answers"
    return Check("PostgreSQL", good, detail, f"use PostgreSQL {OLDEST_POSTGRES} or newer")


async def _migrations(connection: "Connection") -> Check:
    from gnomon.store.postgres import migrate

    refused = await migrate.refusal(connection)
    if refused is not None:
        detail, _, remedy = refused.partition("; ")
        return Check("migrations", False, detail, remedy)
    known = await migrate.status(connection)
    missing = [migration.name for migration in known if not migration.applied]
    detail = f"not applied: {', '.join(missing)}" if missing else "all applied"
    return Check("migrations", not missing, detail, "run `gnomon migrate`")


async def _durability(connection: "Connection") -> Check:
    values = {
        name: await connection.fetchval("SELECT current_setting($1)", name)
        for name in ("fsync", "synchronous_commit")
    }
    good = values["fsync"] == "on" and values["synchronous_commit"] != "off"
    detail = ", ".join(f"{name} {value}" for name, value in values.items())
    return Check("durability", good, detail, "turn both on: else a crash loses acknowledged tasks")


async def _costs(connection: "Connection") -> Check:
    cost = float(await connection.fetchval("SELECT current_setting('random_page_cost')"))
    remedy = "ALTER SYSTEM SET random_page_cost = 1.1: batches by key beat reading whole tables"
    return Check("planner", cost <= 2, f"random_page_cost {cost:g}", remedy)


async def _clock(connection: "Connection") -> Check:
    from gnomon.clock import SystemClock

    clock = SystemClock()
    before = clock.now()
    theirs = await connection.fetchval("SELECT clock_timestamp()")
    middle = before + (clock.now() - before) / 2
    difference = (theirs - middle).total_seconds()
    good = abs(difference) < CLOCK_SECONDS
    detail = f"{difference * 1000:+.0f} ms from this machine's"
    return Check("database clock", good, detail, "let both machines follow the same NTP servers")


async def _pooler(connection: "Connection", settings: Settings) -> Check:
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


async def _wall(connection: "Connection") -> Check:
    """The API takes on a role that sees one tenant; this user itself must see all of them."""
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


async def _partitions(connection: "Connection") -> Check:
    from gnomon.store.postgres.retention import partitions

    today = (await connection.fetchval("SELECT gnomon.now()")).date()
    days = await partitions.days_ahead(connection, today)
    detail = f"made for {days} days from today"
    remedy = "run `gnomon migrate`; a running node makes them by itself"
    if days >= DAYS_AHEAD and (waiting := await partitions.waiting(connection)):
        return await _waiting(connection, waiting)
    return Check("partitions", days >= DAYS_AHEAD, detail, remedy)


async def _waiting(connection: "Connection", partitions: list[str]) -> Check:
    """Those past retention, which go when the transactions have ended that may still read them."""
    oldest = await connection.fetchrow(
        """
        SELECT pid, application_name,
            extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
        FROM pg_stat_activity
        WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
        ORDER BY xact_start
        LIMIT 1
        """
    )
    seconds = 0.0 if oldest is None else oldest["seconds"]
    detail = f"{', '.join(partitions[:_SHOWN])} wait to be dropped"
    if oldest is not None:
        who = f"{oldest['pid']} ({oldest['application_name'] or 'unnamed'})"
        detail += f"; the oldest transaction is of session {who}, open for {seconds:.0f} s"
    remedy = "end that session: SELECT pg_terminate_backend(PID)"
    return Check("partitions", seconds < WAITING_SECONDS, detail, remedy)


async def _keys(connection: "Connection") -> Check:
    """Idempotency keys are what comes fastest and goes by time: where they wait, others do."""
    seconds = await connection.fetchval(
        """
        SELECT extract(epoch FROM gnomon.now() - (
            SELECT expires_at FROM gnomon.idempotency ORDER BY expires_at LIMIT 1
        ))::float8
        """
    )
    late = max(seconds or 0.0, 0.0)
    detail = "nothing is past its time"
    if late >= 1:
        detail = f"the oldest idempotency key is {late:.0f} s past its time"
    remedy = "look for `does not keep pace` in the log of the nodes, and for long transactions"
    return Check("retention", late < RETENTION_SECONDS, detail, remedy)


async def _nodes(connection: "Connection") -> Check:
    alive = await connection.fetchval(
        "SELECT count(*) FROM gnomon.node WHERE NOT dead AND alive_until > gnomon.now()"
    )
    return Check("nodes", alive > 0, f"{alive} alive", "start `gnomon up` or `gnomon scheduler`")


async def _pools(connection: "Connection") -> Check:
    from gnomon.store.postgres.dispatch.pools import unserved

    waiting = await unserved(connection)
    if not waiting:
        return Check("pools", True, "every waiting task has a node that serves it")
    named = "; ".join(map(str, waiting[:_SHOWN])) + ("; …" if len(waiting) > _SHOWN else "")
    remedy = "start a node without a pool, or one that serves them (`gnomon scheduler --serve-…`)"
    return Check("pools", False, f"no node serves {named}", remedy)


async def _overdue(connection: "Connection") -> Check:
    # One look into the index for each shard, however large the backlog.
    seconds = await connection.fetchval(
        """
        SELECT extract(epoch FROM gnomon.now() - min(head.due_at))::float8
        FROM generate_series(0, 255) AS shard
        CROSS JOIN LATERAL (
            SELECT due_at FROM gnomon.task t
            WHERE t.state = 0 AND t.shard = shard.shard
            ORDER BY t.due_at LIMIT 1
        ) AS head
        """
    )
    late = max(seconds or 0.0, 0.0)
    detail = f"the oldest waiting task is {late:.0f} s late" if late >= 1 else "nothing is late"
    remedy = "add a node or slots (`gnomon scheduler --slots N`), or look at `gnomon nodes`"
    return Check("due tasks", late < OVERDUE_SECONDS, detail, remedy)


async def _api(api: remote.ApiAddress) -> Check:
    async with remote.connected(api) as client:
        good = await client.ready()
    detail = f"{'answers' if good else 'does not answer'} at {api}"
    return Check("API", good, detail, "start `gnomon up` or `gnomon api`, or give --api URL")
