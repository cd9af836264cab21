"""A process that migrates, to be killed: `python -m tests.integration.migrating DSN`.

Its migrations are those of the release and those in `step_migrations`, which have steps of every
kind."""

import asyncio
import sys
from pathlib import Path

from tests.conftest import connected

from gnomon.store.postgres import migrate

FOLDER = Path(__file__).with_name("step_migrations")
LABELS = 9001


def known() -> list[migrate.Migration]:
    return migrate.migrations() + migrate.migrations(FOLDER)


async def _main(dsn: str) -> None:
    connection = await connected(dsn)
    await migrate.up(connection, known=known())
    await connection.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
