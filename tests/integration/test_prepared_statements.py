"""A connection parses and plans a statement once, however long it is: to settle a task would take
four times as long otherwise."""

from gnomon.store.postgres.database import Database
from gnomon.store.postgres.queries import query, statements


async def test_the_longest_statement_is_prepared_once(database_dsn: str) -> None:
    longest = max(map(query, statements()), key=len)
    assert longest == query("settle"), "call that one, then"
    database = Database(database_dsn, 1)
    await database.open(quiet=True)
    try:
        for _ in range(3):
            await database.fetch("settle", *([[]] * 19), *([None] * 5))
        async with database.connection() as connection:
            times = await connection.fetchval(
                """SELECT generic_plans + custom_plans FROM pg_prepared_statements
                WHERE statement = $1""",
                longest,
            )
    finally:
        await database.close()
    assert times == 3
