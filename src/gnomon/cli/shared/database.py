"""The PostgreSQL that a command uses: DATABASE_URL, or the embedded server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from gnomon import loop
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.errors import StatementRefused, StoreUnavailable, Unstorable
from gnomon.settings import Settings

if TYPE_CHECKING:
    import asyncpg

    from gnomon.store.postgres.database import Database
    from gnomon.store.postgres.migrate import StepProgress

_T = TypeVar("_T")

EXAMPLE_URL = "postgresql://user:password@host:5432/database"

_NO_SCHEMA = ("42P01", "3F000")  # a table, or the whole schema, is not there

NO_DATABASE = (
    "there is no database: DATABASE_URL is not set, and no embedded server runs in {data_dir} "
    "(start `gnomon up`, or set DATABASE_URL)"
)


def known_dsn(settings: Settings) -> str | None:
    """DATABASE_URL, or the address that an embedded server has left in its data directory."""
    from gnomon.store.embedded import running_dsn

    check_address(settings)
    return settings.database.url or running_dsn(Path(settings.database.data_dir))


def check_address(settings: Settings) -> None:
    """Raise WrongAddress unless the address of the database, where there is one, has the form of
    one. Whether it is right, PostgreSQL says."""
    for url in (settings.database.url, settings.database.direct_url):
        if url is not None and not is_postgres_url(url):
            raise WrongAddress(f"the database's address must be like {EXAMPLE_URL}")


def existing_dsn(settings: Settings) -> str:
    """The same. CommandFailed where there is none."""
    dsn = known_dsn(settings)
    if dsn is None:
        raise CommandFailed(NO_DATABASE.format(data_dir=settings.database.data_dir))
    return dsn


@contextmanager
def running_database(settings: Settings) -> Iterator[str]:
    """The address of a running server. The embedded one is started if needed, and stopped after."""
    dsn = known_dsn(settings)
    folder = Path(settings.database.data_dir)
    if settings.database.url is None and (folder / "postgres").exists():
        # A killed owner leaves the note of its server's address behind.
        if dsn is not None and loop.run(_answers(dsn)):
            yield dsn
            return
        with embedded(folder) as server:
            yield server.dsn
        return
    yield settings.database.direct_url or existing_dsn(settings)


@contextmanager
def embedded(folder: Path) -> Iterator[Any]:
    """Start and stop the embedded server. Its errors become CommandFailed."""
    from gnomon.store.embedded import EmbeddedError, EmbeddedServer

    server = EmbeddedServer(folder)
    try:
        server.start()
    except EmbeddedError as error:
        raise CommandFailed(str(error)) from error
    try:
        yield server
    finally:
        server.stop()


class WrongAddress(CommandFailed):
    """The address of the database is none, or PostgreSQL knows no such user, password or database
    there. The message does not name the address: it may hold a password."""


def is_postgres_url(text: str) -> bool:
    """Whether it has the form of an address of PostgreSQL."""
    try:
        parts = urlsplit(text)
        hosts = parts.netloc.rpartition("@")[2].split(",")  # there may be several
        ports = [host.rpartition(":")[2] for host in hosts if ":" in host and host[-1:] != "]"]
    except ValueError:
        return False
    well_formed = all(port.isdecimal() and 0 < int(port) < 2**16 for port in ports)
    return text.startswith(("postgresql://", "postgres://")) and well_formed


@asynccontextmanager
async def connection(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """One connection. CommandFailed if the server refuses it."""
    from gnomon.store.postgres.database import connect

    try:
        opened = await connect(dsn)
    except (StatementRefused, Unstorable) as error:
        raise WrongAddress(f"PostgreSQL refused the connection: {error}") from error
    try:
        yield opened
    finally:
        await opened.close()


async def prepare(
    dsn: str, on_progress: Callable[["StepProgress"], None] | None = None
) -> list[str]:
    """Bring the schema up to date and make the partitions of the days ahead.

    Progress is logged, unless it is shown otherwise; of a new database, only that its schema was
    made. Returns the names of the migrations that were applied.
    """
    import asyncpg
    import structlog

    from gnomon.store.postgres import migrate
    from gnomon.store.postgres.retention import partitions

    async with connection(dsn) as opened:
        try:
            is_new = await opened.fetchval("SELECT to_regnamespace('gnomon') IS NULL")
            shown = on_progress or (migrate.to_nobody if is_new else migrate.to_log)
            applied = await migrate.up(opened, on_progress=shown)
            if is_new and on_progress is None:
                structlog.get_logger("gnomon.migrate").info(
                    "made the schema in a new database", migrations=len(applied)
                )
            today = (await opened.fetchval("SELECT gnomon.now()")).date()
            await partitions.make(opened, today)
        except migrate.MigrationError as error:
            raise CommandFailed(str(error)) from error
        except asyncpg.PostgresError as error:
            told = ", ".join([str(error), *getattr(error, "__notes__", ())])
            raise CommandFailed(f"the schema could not be brought up to date: {told}") from error
    return [str(migration) for migration in applied]


def with_database(settings: Settings, use: Callable[["Database"], Awaitable[_T]]) -> _T:
    """The result of `use` on the database; the embedded server is started if needed."""
    with running_database(settings) as dsn:
        return loop.run(used(dsn, use))


async def used(dsn: str, use: Callable[["Database"], Awaitable[_T]]) -> _T:
    """The result of `use` on the database at an address."""
    from gnomon.store.postgres.database import Database

    opened = Database(dsn, 1)
    try:
        await opened.open(quiet=True)
    except (StatementRefused, Unstorable) as error:
        raise WrongAddress(f"PostgreSQL refused the connection: {error}") from error
    try:
        return await use(opened)
    except StatementRefused as error:
        if error.sqlstate in _NO_SCHEMA:
            raise CommandFailed("the schema is not up to date; run `gnomon migrate`") from error
        raise CommandFailed(str(error)) from error
    finally:
        await opened.close()


async def _answers(dsn: str) -> bool:
    try:
        async with connection(dsn):
            return True
    except (CommandFailed, StoreUnavailable):
        return False
