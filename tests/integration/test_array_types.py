"""Arrays that the driver is told of, so that it need not look them up."""

import asyncpg
import pytest
from tests.conftest import opened
from tests.integration.support import Connection

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
