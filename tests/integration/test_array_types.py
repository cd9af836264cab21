"""Arrays that the driver is told of, and those that are written for it."""

from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest
from tests.conftest import opened
from tests.integration.support import Connection

from gnomon.clock import new_id
from gnomon.model.errors import Unstorable
from gnomon.store.postgres.array_types import ARRAYS

VALUES = {
    "bool": "true",
    "bytea": "'\\x00'",
    "date": "'2026-01-01'",
    "json": "'{}'",
    "jsonb": "'{}'",
    "tid": "'(7,2)'",
    "timestamptz": "now()",
    "uuid": "gen_random_uuid()",
}


async def test_their_numbers_are_those_of_postgresql(connection: Connection) -> None:
    rows = await connection.fetch(
        "SELECT typname::text, typarray::integer, oid::integer FROM pg_type"
        " WHERE typname = ANY ($1::text[]) AND typnamespace = 'pg_catalog'::regnamespace",
        list(ARRAYS),
    )
    assert {name: (array, element) for name, array, element in rows} == ARRAYS


async def test_a_pooled_connection_looks_none_of_them_up(
    database_dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go there and back as they do on a connection that has looked them up."""

    async def refuse(*_: object) -> None:
        raise AssertionError("types are looked up")

    arrays = ", ".join(
        f"ARRAY[{VALUES.get(name, '1')}, NULL]::{name}[] AS {name}" for name in ARRAYS
    )
    (found,) = await connection.fetch(f"SELECT {arrays}")
    back = ", ".join(f"${n}::{name}[]" for n, name in enumerate(ARRAYS, 1))
    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", refuse)
    async with opened(database_dsn) as database, database.connection() as pooled:
        (echoed,) = await pooled.fetch(f"SELECT {back}", *found)
    assert tuple(echoed) == tuple(found)


_ID = new_id(datetime(2026, 1, 1, tzinfo=UTC))
COLUMNS = {
    "uuid": [[], [_ID], [None], [_ID, None, uuid4()], [uuid4() for _ in range(1000)]],
    "float8": [[], [1.5], [None], [1.5, None, float("inf"), 7], [n / 7 for n in range(1000)]],
    "tid": [[], [(0, 1)], [None], [(7, 2), None, (2**32 - 2, 65535)], [(n, 1) for n in range(999)]],
}


@pytest.mark.parametrize("element", COLUMNS)
async def test_a_connection_that_settles_writes_and_reads_columns_as_postgresql_does(
    database_dsn: str, element: str
) -> None:
    ask = f"SELECT $1::{element}[], $1::{element}[]::text"
    async with (
        opened(database_dsn, reserved=1) as database,
        database.connection() as usual,
        database.reserved() as settling,
    ):
        for column in COLUMNS[element]:
            ((written, text),) = await settling.fetch(ask, column)
            ((read, usual_text),) = await usual.fetch(ask, column)
            assert (written, text) == (read, usual_text) == (column, text)


@pytest.mark.parametrize(
    ("element", "column"),
    [
        ("uuid", ["no id"]),
        ("uuid", [7, None]),
        ("float8", ["x"]),
        ("float8", [1.5, None, "x"]),
        ("tid", [(1,), None]),
        ("tid", [(-1, 1)]),
        ("tid", [(1, 65536)]),
        ("tid", ["x"]),
    ],
)
async def test_what_does_not_fit_a_column_is_refused_and_the_connection_goes_on(
    database_dsn: str, element: str, column: list[object]
) -> None:
    async with opened(database_dsn, reserved=1) as database:
        with pytest.raises(Unstorable):
            async with database.reserved() as settling:
                await settling.fetchrow(f"SELECT $1::{element}[]", column)
        async with database.reserved() as settling:
            assert await settling.fetchval(f"SELECT $1::{element}[]", []) == []
