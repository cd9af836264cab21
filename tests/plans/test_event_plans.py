"""Events are read in their order by their numbers, whatever is known of their table."""

from collections.abc import Awaitable, Callable

import pytest
from tests.integration.support import Connection
from tests.plans.test_hot_plans import reads
from tests.plans.test_pressed_plans import pinned

from gnomon.store.postgres.queries import query

ROWS = 8_000
_FILL = """
    INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
    SELECT 't' || n % $2, md5(n::text)::uuid, 'kind', gnomon.now(), '{}'
    FROM generate_series(1, $1) AS n
"""
_OF_EVENTS = "^event($|_(?!order))"


async def fill(connection: Connection, rows: int = ROWS, tenants: int = 7) -> None:
    await connection.execute(_FILL, rows, tenants)
    while await connection.fetchval("SELECT gnomon.number_events(5000)"):
        pass


async def never_analyzed(connection: Connection) -> None:
    await fill(connection)


async def analyzed_while_empty(connection: Connection) -> None:
    await connection.execute("VACUUM (ANALYZE) gnomon.event")
    await fill(connection, 20)


async def of_one_tenant(connection: Connection) -> None:
    await fill(connection, tenants=1)
    await connection.execute("ANALYZE gnomon.event")


async def of_as_many_tenants(connection: Connection) -> None:
    await fill(connection, tenants=ROWS)
    await connection.execute("ANALYZE gnomon.event")


async def analyzed_before_their_numbers(connection: Connection) -> None:
    await connection.execute(_FILL, ROWS, 7)
    await connection.execute("ANALYZE gnomon.event")
    await fill(connection, 0)


async def few_left(connection: Connection) -> None:
    await fill(connection)
    await connection.execute("ANALYZE gnomon.event")
    await connection.execute("DELETE FROM gnomon.event WHERE number > 10")


async def few_left_and_known(connection: Connection) -> None:
    await few_left(connection)
    await connection.execute("VACUUM (ANALYZE) gnomon.event")


STATES = [
    never_analyzed, analyzed_while_empty, of_one_tenant, of_as_many_tenants,
    analyzed_before_their_numbers, few_left, few_left_and_known,
]  # fmt: skip


async def entries_read(connection: Connection, *args: object) -> int:
    """Entries of its index that reading a tenant's events has looked at."""
    count = "SELECT pg_stat_get_xact_tuples_returned('gnomon.event_tenant_order'::regclass)"
    async with connection.transaction():
        before = await connection.fetchval(count)
        await connection.fetch(query("read_tenant_events"), *args)
        return int(await connection.fetchval(count)) - int(before)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
async def test_events_are_read_and_numbered_by_one_index_each(
    connection: Connection, database_dsn: str, state: Callable[[Connection], Awaitable[None]]
) -> None:
    async with pinned(database_dsn):
        await state(connection)
        for after, most in ((0, 200), (ROWS - 10, 200), (0, 1)):
            everybodys = await reads(connection, "read_events", after, most, of=_OF_EVENTS)
            assert everybodys == [{"event_number"}] * 2
            tenants = await reads(
                connection, "read_tenant_events", "t0", after, most, of=_OF_EVENTS
            )
            assert tenants == [{"event_tenant_order"}] * 2
            await connection.execute("SET ROLE gnomon_tenant; SET gnomon.tenant = 't0'")
            behind_the_wall = await reads(
                connection, "read_tenant_events", "t0", after, most, of=_OF_EVENTS
            )
            assert behind_the_wall == [{"event_tenant_order"}] * 2
            await connection.execute("RESET ROLE")
        await connection.execute("SET ROLE gnomon_tenant; SET gnomon.tenant = 't0'")
        assert await entries_read(connection, "t0", ROWS - 10, 200) <= 10
        await connection.execute("RESET ROLE")
        nothing_new = await reads(connection, "number_events", 5000, of=_OF_EVENTS)
        assert nothing_new == [{"event_unnumbered"}] * 2
        await connection.execute("UPDATE gnomon.event SET number = NULL WHERE number <= 5")
        given = await reads(connection, "number_events", 2, of=_OF_EVENTS)
        assert given == [{"event_unnumbered", "event_pkey"}] * 2


_TRANSITIONS = """
    INSERT INTO gnomon.transition (tenant_id, task_id, number, at, to_state, attempt, fence)
    SELECT 't' || n % $2, md5(n::text)::uuid, 1, gnomon.now(), 0, 0, 0
    FROM generate_series(1, $1) AS n
"""


@pytest.mark.parametrize("known", ["never analyzed", "analyzed", "few left"])
async def test_transitions_are_streamed_by_one_index(
    connection: Connection, database_dsn: str, known: str
) -> None:
    async with pinned(database_dsn):
        await connection.execute(_TRANSITIONS, ROWS, 3)
        if known != "never analyzed":
            await connection.execute("ANALYZE gnomon.transition")
        if known == "few left":
            await connection.execute("DELETE FROM gnomon.transition WHERE place % 500 > 0")
        for tenants in (["t0"], ["t0", "t1", "t2"]):
            behind = [0] * len(tenants)
            used = await reads(
                connection, "read_transitions", tenants, behind, behind, 200, of="^transition($|_)"
            )
            assert [each - {"transition_order"} for each in used] == [
                {"transition_tenant_order"}
            ] * 2
