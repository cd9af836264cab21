"""A PostgreSQL for tests, in a process of its own: it ends with whoever started it.

A test run that is killed cannot stop anything. So this process holds the server, and reads from a
pipe that nobody ever writes to: when its other end is gone, however that came, it stops the server
and removes the data.
"""

import asyncio
import json
import logging
import shutil
import sys
from datetime import date
from pathlib import Path

import asyncpg
import structlog

from gnomon.store.embedded import EmbeddedError, EmbeddedServer
from gnomon.store.embedded.roles import USER
from gnomon.store.postgres import migrate
from gnomon.store.postgres.retention import partitions
from gnomon.testing.databases import TEMPLATE, on_database

# Nothing here outlives the run, so nothing need survive a crash.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
}

# One partition holds all time up to here: a virtual clock goes wherever it is told to.
_END_OF_TIME = date(2300, 1, 1)


async def make_template(server: EmbeddedServer) -> None:
    """The database that those of the tests are copies of."""
    connection = await asyncpg.connect(server.superuser_dsn)
    await connection.execute(f"CREATE DATABASE {TEMPLATE} OWNER {USER}")
    await connection.close()
    connection = await asyncpg.connect(on_database(server.dsn, TEMPLATE))
    await migrate.up(connection)
    for parent in partitions.PARENTS:
        there = await partitions.listed(connection, parent)
        for first, end in partitions.holes(there, _END_OF_TIME):
            await partitions.attach(connection, partitions.wide(parent, first, end))
    await connection.close()  # a database that is in use cannot be copied


def main(folder: Path) -> int:
    # stdout is for whoever started this process.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    server = EmbeddedServer(folder / "data", settings_overrides=SETTINGS)
    try:
        try:
            server.start()
            asyncio.run(make_template(server))
        except EmbeddedError as error:
            print(json.dumps({"error": str(error)}), flush=True)
            return 1
        told = {"dsn": server.dsn, "superuser_dsn": server.superuser_dsn, "pid": server.pid}
        print(json.dumps(told), flush=True)
        sys.stdin.buffer.read()
    finally:
        server.stop(mode="immediate")
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
