"""Statements that a pooled connection keeps prepared."""

from tests.conftest import opened


async def test_a_statement_is_prepared_once_however_long_it_is(database_dsn: str) -> None:
    """What the driver does not keep is parsed and planned anew, every time."""
    statement = f"SELECT $1::integer -- {'long ' * 20_000}"
    async with opened(database_dsn) as database, database.connection() as connection:
        for number in range(2):
            assert await connection.fetchval(statement, number) == number
        uses = await connection.fetch(
            "SELECT generic_plans + custom_plans FROM pg_prepared_statements WHERE statement = $1",
            statement,
        )
    assert [tuple(row) for row in uses] == [(2,)]
