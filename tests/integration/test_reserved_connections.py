"""The connections that a node keeps for claims and settlements, and lends for permits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import pytest
from tests.integration.nodes import call_of, running_node
from tests.integration.own_roles import as_role, login_role
from tests.integration.support import Connection, database_now, end_of, joined, settlement, store
from tests.waiting import eventually

from gnomon.limits.exchange import Ask
from gnomon.limits.limiter import Bucket
from gnomon.model.errors import StoreExhausted
from gnomon.model.tasks.task import Submission
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.limits.permits import PostgresLimits

_PLANS = """
SELECT sum(generic_plans)::int AS generic, sum(custom_plans)::int AS custom
FROM pg_prepared_statements
WHERE statement LIKE '-- Take the chosen%' OR statement LIKE '-- Write the outcomes%'
"""
_PID = "SELECT pg_backend_pid()"
_MODE = "SHOW plan_cache_mode"
_BLOCKED = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
_OPEN_BY = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


@asynccontextmanager
async def reserving(dsn: str, size: int, reserved: int) -> AsyncIterator[Database]:
    database = Database(dsn, size, reserved=reserved)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def calls(now: datetime, count: int) -> list[Submission]:
    return [call_of(now, "echo")[1] for _ in range(count)]


async def test_claims_and_settlements_are_planned_without_their_values(
    database_dsn: str, now: datetime
) -> None:
    async with reserving(database_dsn, 4, 1) as database:
        dispatch, node = PostgresDispatch(database, 10.0), await joined(database)
        for _ in range(3):
            keys = await store(database, *calls(now, 2))
            claimed = (await dispatch.claim(node, keys)).deliveries
            assert len(await dispatch.settle([settlement(d) for d in claimed])) == 2
        async with database.reserved() as connection:
            plans = await connection.fetchrow(_PLANS)
    assert plans is not None
    assert (plans["generic"], plans["custom"]) == (6, 0)


async def test_other_statements_have_plans_by_their_values(database_dsn: str) -> None:
    async with reserving(database_dsn, 4, 2) as database, database.connection() as connection:
        assert await connection.fetchval("SHOW plan_cache_mode") == "auto"


async def test_no_statement_is_compiled(database_dsn: str, connection: Connection) -> None:
    """A server of one's own has that switched on, as a rule."""
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET jit TO on")
    async with reserving(database_dsn, 4, 2) as database:
        for way in (database.connection, database.reserved, database.transaction):
            async with way() as used:
                assert await used.fetchval("SHOW jit") == "off"


async def test_they_are_free_while_all_others_are_in_use(database_dsn: str) -> None:
    async with reserving(database_dsn, 4, 2) as database, AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(database.connection())
        async with asyncio.timeout(3), database.reserved() as connection:
            assert await connection.fetchval("SHOW plan_cache_mode") == "force_generic_plan"
        assert database.use().limit == 4


async def test_beyond_them_any_other_is_taken_and_no_more_than_there_may_be(
    database_dsn: str,
) -> None:
    async with reserving(database_dsn, 5, 2) as database:
        async with AsyncExitStack() as held:
            found = [await held.enter_async_context(database.reserved()) for _ in range(5)]
            pids = [await connection.fetchval(_PID) for connection in found]
            assert len(set(pids)) == 5
            assert database.use()[:3] == (5, 0, 5)
        async with database.reserved() as connection:
            assert await connection.fetchval(_PID) in pids[:2]


async def test_the_last_free_one_is_left_where_that_is_asked_for(database_dsn: str) -> None:
    async def mode(database: Database, drawn: int) -> str:
        async with AsyncExitStack() as held:
            for _ in range(drawn):
                await held.enter_async_context(database.reserved())
            async with database.reserved(leaving=1) as connection:
                return str(await connection.fetchval(_MODE))

    async with reserving(database_dsn, 8, 3) as database:
        found = [await mode(database, drawn) for drawn in (0, 1, 2, 3, 0)]
        generic = "force_generic_plan"
        assert found == [generic, generic, "auto", "auto", generic]
    async with reserving(database_dsn, 3, 3) as database:
        assert await mode(database, 0) == "auto"


@pytest.mark.parametrize(("size", "on_reserve"), [(2, False), (3, False), (4, True), (8, True)])
async def test_an_exchange_of_permits_that_waits_leaves_one_for_claims(
    database_dsn: str, connection: Connection, size: int, *, on_reserve: bool
) -> None:
    async with reserving(database_dsn, size, 3) as database:
        limits, node = PostgresLimits(database), await joined(database)
        asks = [Ask(Bucket("default", "few"), 0, 1, 0)]
        await limits.exchange(node, 1, asks)

        async def waits() -> bool:
            return bool(await connection.fetchval(_BLOCKED))

        async with connection.transaction():
            await connection.execute("SELECT FROM gnomon.limit_bucket FOR UPDATE")
            exchange = asyncio.create_task(limits.exchange(node, 2, asks))
            await eventually(waits)
            async with database.reserved() as free:
                assert await free.fetchval(_MODE) == "force_generic_plan"
                blocked = await free.fetchval(_BLOCKED)
            assert not exchange.done()
        (grant,) = await exchange
        assert grant.permits == 1
        pids = set()
        async with AsyncExitStack() as held:
            for _ in range(min(3, size // 2)):
                each = await held.enter_async_context(database.reserved())
                pids.add(await each.fetchval(_PID))
    assert (blocked in pids) is on_reserve


async def test_half_of_all_are_reserved_at_the_most(
    database_dsn: str, connection: Connection
) -> None:
    async with reserving(database_dsn, 1, 3) as database, database.reserved() as only:
        assert await only.fetchval("SHOW plan_cache_mode") == "auto"
        assert database.use()[:3] == (1, 0, 1)


async def test_they_are_there_from_the_start(database_dsn: str, connection: Connection) -> None:
    async with reserving(database_dsn, 8, 3) as database:
        assert database.use()[:2] == (0, 4)  # and one of the others


@asynccontextmanager
async def few(superuser: Connection, connections: int) -> AsyncIterator[str]:
    """A role that may have so many connections at once."""
    async with login_role(superuser) as role:
        await superuser.execute(f"ALTER ROLE {role} CONNECTION LIMIT {connections}")
        yield role


async def test_where_they_cannot_be_had_nothing_stays_open(
    superuser: Connection, database_dsn: str
) -> None:
    async with few(superuser, 2) as role:
        database = Database(as_role(database_dsn, role), 8, reserved=3)
        with pytest.raises(StoreExhausted):
            await database.open()

        async def none_is_open() -> bool:
            return not await superuser.fetchval(_OPEN_BY, role)

        await eventually(none_is_open)


async def test_one_that_was_lost_and_that_a_full_server_refuses_is_done_without(
    superuser: Connection, database_dsn: str
) -> None:
    async with AsyncExitStack() as stack:
        role = await stack.enter_async_context(few(superuser, 4))
        dsn = as_role(database_dsn, role)
        database = await stack.enter_async_context(reserving(dsn, 2, 1))

        async def plans() -> str:
            async with database.reserved() as drawn:
                return str(await drawn.fetchval("SHOW plan_cache_mode"))

        gone = asyncio.Event()
        async with database.reserved() as lost:
            pid = await lost.fetchval(_PID)
            lost.add_termination_listener(lambda _: gone.set())
        await superuser.execute(f"ALTER ROLE {role} CONNECTION LIMIT 1")
        assert await superuser.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)
        await gone.wait()  # the driver has heard of it, too
        assert await plans() == "auto"
        await superuser.execute(f"ALTER ROLE {role} CONNECTION LIMIT 9")
        assert await plans() == "force_generic_plan"


async def test_a_node_settles_on_them(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    """Each session that settles has counters of its own."""
    async with running_node(database_dsn):
        for key in await store(database, *calls(now, 20)):
            await end_of(connection, key)
        pids = await connection.fetch(
            """
            SELECT DISTINCT session AS pid FROM gnomon.usage
            WHERE executions > 0 AND day = (gnomon.now() AT TIME ZONE 'UTC')::date
            """
        )
    assert 1 <= len(pids) <= 2  # half of the four that it has
