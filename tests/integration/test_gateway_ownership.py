"""What a gateway must not do with a session that another one has meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.integration.api_calls import Api, submitted
from tests.integration.desk_sessions import Session, delivered, gateway_of, opened, settled
from tests.integration.faulty import Cranked, Faults, cranked
from tests.integration.remote_workers import task_for
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.pipe.http.messages import TaskClaim
from gnomon.wiring.gateway import GatewayAssembly

CLAIMED = "SELECT id, fence FROM gnomon.task WHERE state = 1"


@asynccontextmanager
async def gateways(dsn: str) -> AsyncIterator[tuple[Cranked, Cranked]]:
    async with (
        cranked(dsn, Faults(), GatewayAssembly) as first,
        cranked(dsn, Faults(), GatewayAssembly) as second,
    ):
        yield first, second


async def moved(session: Session, crank: Cranked, *held: TaskClaim) -> None:
    """Its worker goes on at another gateway."""
    session.desk = gateway_of(crank).desk
    await session.poll(held=held)  # adopts
    await session.poll(held=held)


async def running(connection: Connection) -> list[TaskClaim]:
    return [TaskClaim(row["id"], row["fence"]) for row in await connection.fetch(CLAIMED)]


async def test_a_gateway_releases_nothing_that_another_has_claimed_for_its_session(
    database_dsn: str, api: Api, connection: Connection
) -> None:
    """It compares what it knows with the rows before it has heard that the session has moved."""
    async with gateways(database_dsn) as (first, second):
        session = await opened(gateway_of(first).desk)
        await session.poll()
        await moved(session, second)
        await submitted(api, task_for())
        claim = await delivered(second, session)
        assert await gateway_of(first)._keeper.reconcile() == 0
        assert await running(connection) == [claim]
        await settled(second, session, claim)


async def test_what_another_gateway_may_release_is_not_delivered_again(
    database_dsn: str, api: Api, connection: Connection
) -> None:
    """The answer with a delivery is lost, and its worker goes to another gateway and back. A poll
    that it sent there comes late, and does not hold the delivery."""
    async with gateways(database_dsn) as (first, second):
        session = await opened(gateway_of(first).desk)
        await submitted(api, task_for())
        await delivered(first, session)  # and lost
        session.desk = gateway_of(second).desk
        await session.poll()
        session.sequence += 1
        late = session.body()
        await moved(session, first)
        claim = await delivered(first, session)
        await session.say(gateway_of(second).desk, late)
        await second.turn(2)
        assert await running(connection) == [claim]
        await settled(first, session, claim)


async def test_a_session_is_adopted_again_after_the_claim_that_is_under_way(
    database_dsn: str, api: Api, connection: Connection
) -> None:
    """Else what it claims would be released, as it is not at the worker, and be delivered too."""
    async with cranked(database_dsn, Faults(), GatewayAssembly) as crank:
        session = await opened(gateway_of(crank).desk)
        claiming = gateway_of(crank)._held.claiming
        async with claiming:
            polling = asyncio.create_task(session.poll(epoch="another"))

            async def waits() -> bool:
                return polling.done() or bool(claiming._waiters)

            await eventually(waits)
            assert not polling.done()
        await polling
        await submitted(api, task_for())
        await settled(crank, session, await delivered(crank, session))
