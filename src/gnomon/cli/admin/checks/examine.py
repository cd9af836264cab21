"""The checks of `gnomon doctor`: each says what it found and, if that is wrong, the remedy."""

import os
from pathlib import Path

from gnomon.cli.admin.checks.check import Check
from gnomon.cli.admin.checks.encryption import encryption
from gnomon.cli.admin.checks.limits import database_load, fleet
from gnomon.cli.admin.checks.machine import (
    data_dir,
    embedded_binaries,
    environment,
    open_files,
    python_version,
    settings_file,
)
from gnomon.cli.admin.checks.room import room
from gnomon.cli.admin.checks.server import (
    database_clock,
    durability,
    migrations,
    planner_costs,
    pooler,
    server_version,
    tenant_wall,
)
from gnomon.cli.admin.checks.troubles import chores, parked_jobs
from gnomon.cli.admin.checks.work import (
    crowding,
    due_tasks,
    feeds,
    handlers,
    nodes,
    partitions_ahead,
    pools,
    retention,
)
from gnomon.cli.shared import database, remote
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.errors import StoreError
from gnomon.settings import Settings, SettingsError, load


async def examine(file: Path | None, api: str | None) -> list[Check]:
    """All checks, from the machine outwards. One that cannot be made counts as failed."""
    checks = [python_version(), environment(os.environ)]
    try:
        settings = load(os.environ, file)
    except SettingsError as error:
        return [*checks, Check("settings", False, str(error), "correct it, or leave it out")]
    checks.append(settings_file(file))
    checks.append(data_dir(Path(settings.database.data_dir)))
    checks.append(open_files(settings))
    if settings.database.url is None:
        checks.append(embedded_binaries())
    checks += await _database(settings)
    checks.append(await _api(remote.api_url(settings, api)))
    return checks


async def _database(settings: Settings) -> list[Check]:
    import asyncpg

    try:
        dsn = database.existing_dsn(settings)
        async with database.connection(dsn) as connection:
            checks = [await server_version(connection), await migrations(connection)]
            checks.append(encryption(connection))
            checks += [await durability(connection), await planner_costs(connection)]
            checks += [await database_clock(connection), await pooler(connection, settings)]
            if checks[1].ok:
                looks = (
                    tenant_wall,
                    partitions_ahead,
                    retention,
                    nodes,
                    handlers,
                    pools,
                    due_tasks,
                    crowding,
                    feeds,
                )
                checks += [await look(connection) for look in looks]
                checks.append(await room(connection, settings.database))
                checks += await chores(connection) + await parked_jobs(connection)
                checks += [await database_load(connection), await database.used(dsn, fleet)]
            return checks
    except (CommandFailed, StoreError, asyncpg.PostgresError) as error:
        remedy = "start `gnomon up`, or correct DATABASE_URL"
        return [Check("PostgreSQL", False, str(error), remedy)]


async def _api(api: remote.ApiAddress) -> Check:
    async with remote.connected(api) as client:
        good = await client.ready()
    detail = f"{'answers' if good else 'does not answer'} at {api}"
    return Check("API", good, detail, "start `gnomon up` or `gnomon api`, or give --api URL")
