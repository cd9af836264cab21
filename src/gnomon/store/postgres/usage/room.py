"""How much room PostgreSQL has: on its disk, where that is this machine's, and by the size of the
database."""

import asyncio
import shutil
from pathlib import Path
from uuid import UUID

import asyncpg

from gnomon.model.fleet.room import Measured
from gnomon.store.postgres.database import Database

_CLUSTER = "postgres"  # where the embedded server is in its data directory
_START_SECONDS = 10.0  # between the two moments that PostgreSQL calls its start


class PostgresRoom:
    """Measures the room of PostgreSQL, and tells all processes when there is none."""

    def __init__(self, database: Database, data_dir: str) -> None:
        self._database = database
        self._data_dir = data_dir

    async def measure(self, *, sized: bool) -> Measured:
        """How much room there is. `sized`: with the size of the database."""
        row = await self._database.fetchrow("measure", sized)
        assert row is not None, "a SELECT without FROM gives its row"
        return await measured(row, self._data_dir)

    async def hold(self, process: UUID, seconds: float) -> bool:
        """Whether this process is the one to ask for the size of the database."""
        return await self._database.fetchrow("hold_chore", "measure", process, seconds) is not None

    async def refuse(self, why: str, seconds: float) -> None:
        """Let all processes refuse new work for that long."""
        await self._database.execute("refuse_work", why, seconds)

    async def accept(self, why: str) -> None:
        """Take back a refusal for this reason."""
        await self._database.execute("accept_work", why)


async def measured(row: asyncpg.Record, data_dir: str) -> Measured:
    """The room that a row of measure.sql tells of, with the free disk where it can be seen."""
    folders = [Path(data_dir, _CLUSTER)]
    if row["folder"] is not None:
        folders.append(Path(row["folder"]))
    # A network file system may take its time.
    disk = await asyncio.to_thread(_disk, folders, row["port"], row["started_at"])
    return Measured(*disk, row["database"])


def _disk(folders: list[Path], port: int, started_at: float) -> tuple[int | None, int | None]:
    """The free bytes where the server writes, and the size of that disk: of the smaller one, where
    its log is apart. None where none of the folders is the server's."""
    for folder in folders:
        if _serves(folder, port, started_at):
            places = [shutil.disk_usage(place) for place in (folder, folder / "pg_wal")]
            least = min(places, key=lambda usage: usage.free)
            return least.free, least.total
    return None, None


def _serves(folder: Path, port: int, started_at: float) -> bool:
    """Whether it is that of the server that answered us, and not of another one."""
    try:
        lines = (folder / "postmaster.pid").read_text().splitlines()
        return int(lines[3]) == port and abs(int(lines[2]) - started_at) <= _START_SECONDS
    except (OSError, IndexError, ValueError):
        return False
