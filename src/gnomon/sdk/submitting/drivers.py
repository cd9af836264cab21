"""Runs statements on the connection that a program has, of whichever driver it is.

Drivers are told apart by the package of the connection's class: nothing is imported that the
program has not imported itself.
"""

import inspect
import re
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, NamedTuple, Protocol, overload

from gnomon.sdk.errors import NoTransaction

_NAME = re.compile(r":([a-z_]+)")
_IDLE = 0  # of libpq: no transaction
_NO_TRANSACTION = "25P01"


class Statement(NamedTuple):
    """A statement with `:name` for each value."""

    text: str
    values: Mapping[str, Any]


Row = tuple[Any, ...] | None
# Yields statements, and is sent the first row of each.
Statements = Generator[Statement, Row, Any]
Run = Callable[[Any, Statement], Any]


class AsyncConnection(Protocol):
    """Of asyncpg, of psycopg for asyncio, or of SQLAlchemy's asyncio (or a session)."""

    def execute(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]: ...


class BlockingConnection(Protocol):
    """Of psycopg, or of SQLAlchemy (or a session)."""

    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class CursorConnection(Protocol):
    """Of psycopg2, or Django's."""

    def cursor(self, *args: Any, **kwargs: Any) -> Any: ...


class Driver(NamedTuple):
    """How to run a statement, and to tell whether a transaction is open."""

    package: str
    run: Run
    check: Callable[[Any], Any]  # raises NoTransaction
    is_async: bool


@overload
def carried_out(
    connection: AsyncConnection, statements: Statements, *, in_transaction: bool
) -> Coroutine[Any, Any, Any]: ...
@overload
def carried_out(
    connection: BlockingConnection | CursorConnection,
    statements: Statements,
    *,
    in_transaction: bool,
) -> Any: ...
def carried_out(connection: Any, statements: Statements, *, in_transaction: bool) -> Any:
    """Run the statements, and return what their generator does: as a coroutine where the driver is
    asynchronous. Raises NoTransaction where there must be one, and is none."""
    driver = driver_of(connection)
    if driver.is_async:
        return _awaited(driver, connection, statements, in_transaction)
    if in_transaction:
        driver.check(connection)
    row: Row = None
    while True:
        try:
            statement = statements.send(row)
        except StopIteration as end:
            return end.value
        row = driver.run(connection, statement)


async def _awaited(
    driver: Driver, connection: Any, statements: Statements, in_transaction: bool
) -> Any:
    if in_transaction and (checked := driver.check(connection)) is not None:
        await checked
    row: Row = None
    while True:
        try:
            statement = statements.send(row)
        except StopIteration as end:
            return end.value
        row = await driver.run(connection, statement)


def driver_of(connection: Any) -> Driver:
    """By the package that the connection's class comes from, or inherits from. Raises TypeError."""
    packages = [each.__module__.partition(".")[0] for each in type(connection).__mro__]
    is_async = inspect.iscoroutinefunction(getattr(connection, "execute", None))
    match next((name for name in packages if name in _PACKAGES), None):
        case "asyncpg":
            return Driver("asyncpg", _asyncpg, _check_asyncpg, True)
        case "psycopg" if is_async:
            return Driver("psycopg", _async_psycopg, _check_libpq, True)
        case "psycopg":
            return Driver("psycopg", _psycopg, _check_libpq, False)
        case "psycopg2":
            return Driver("psycopg2", _cursor, _check_libpq, False)
        case "sqlalchemy" if is_async:
            return Driver("sqlalchemy", _async_sqlalchemy, _check_async_sqlalchemy, True)
        case "sqlalchemy":
            return Driver("sqlalchemy", _sqlalchemy, _check_sqlalchemy, False)
        case "django":
            return Driver("django", _cursor, _check_django, False)
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise TypeError(
        f"a connection of {', '.join(_PACKAGES)} is needed, with PostgreSQL behind it; got {kind}"
    )


_PACKAGES = ("asyncpg", "psycopg", "psycopg2", "sqlalchemy", "django")


async def _asyncpg(connection: Any, statement: Statement) -> Row:
    names = list(statement.values)
    text = _NAME.sub(lambda found: f"${names.index(found[1]) + 1}", statement.text)
    row = await connection.fetchrow(text, *statement.values.values())
    return None if row is None else tuple(row)


def _check_asyncpg(connection: Any) -> None:
    if not connection.is_in_transaction():
        raise NoTransaction


def _percent(text: str) -> str:
    return _NAME.sub(r"%(\1)s", text)


def _psycopg(connection: Any, statement: Statement) -> Row:
    return _plain(connection.execute(_percent(statement.text), dict(statement.values)).fetchone())


async def _async_psycopg(connection: Any, statement: Statement) -> Row:
    done = await connection.execute(_percent(statement.text), dict(statement.values))
    return _plain(await done.fetchone())


def _cursor(connection: Any, statement: Statement) -> Row:
    with connection.cursor() as cursor:
        cursor.execute(_percent(statement.text), dict(statement.values))
        return _plain(cursor.fetchone())


def _plain(row: Any) -> Row:
    """Connections may have row factories of their own."""
    if row is None:
        return None
    return tuple(row.values()) if hasattr(row, "values") else tuple(row)


def _check_libpq(connection: Any) -> None:
    """Without autocommit the first statement begins a transaction."""
    if connection.autocommit and connection.info.transaction_status == _IDLE:
        raise NoTransaction


def _check_django(connection: Any) -> None:
    if connection.get_autocommit():
        raise NoTransaction


def _sqlalchemy(connection: Any, statement: Statement) -> Row:
    from sqlalchemy import text

    return _plain(connection.execute(text(statement.text), dict(statement.values)).fetchone())


async def _async_sqlalchemy(connection: Any, statement: Statement) -> Row:
    from sqlalchemy import text

    done = await connection.execute(text(statement.text), dict(statement.values))
    return _plain(done.fetchone())


# SQLAlchemy tells of a transaction in autocommit, too; but PostgreSQL has savepoints only in one.
_PROBES = ("SAVEPOINT gnomon_probe", "RELEASE SAVEPOINT gnomon_probe")


def _check_sqlalchemy(connection: Any) -> None:
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    try:
        for probe in _PROBES:
            connection.execute(text(probe))
    except DBAPIError as error:
        raise _explained(error.orig) from error


async def _check_async_sqlalchemy(connection: Any) -> None:
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    try:
        for probe in _PROBES:
            await connection.execute(text(probe))
    except DBAPIError as error:
        raise _explained(error.orig) from error


def _explained(error: Any) -> BaseException:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    found: BaseException = NoTransaction() if state == _NO_TRANSACTION else error
    return found
