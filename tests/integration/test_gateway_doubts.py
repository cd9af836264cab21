"""Claims whose answers were lost, permits across gateways, beats elsewhere, and suspects."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.conftest import serving
from tests.integration.api_calls import Api, submitted
from tests.integration.remote_workers import TestedWorker, opened, task_for
from tests.integration.support import Connection
from tests.waiting import eventually

QUICK = {
    "node_scan_seconds": 0.05,
    "node_sweep_seconds": 0.1,
    "node_lease_seconds": 2.0,
    "database_connections": 4,
}
_CLAIMED = """
UPDATE gnomon.task SET state = 1, node = $1::text::uuid, fence = fence + 1, attempt = 1,
    started_at = gnomon.now(), run_until = gnomon.now() + interval '1 minute'
"""
LIMITER = """
INSERT INTO gnomon.limiter (tenant_id, name, task_type, concurrency)
VALUES ('default', 'one', 'mail', 1)
"""


@pytest.fixture
async def quick(database_dsn: str) -> AsyncIterator[Api]:
    async with serving(database_dsn, **QUICK) as client:
        yield client


async def test_a_claim_whose_answer_was_lost_is_released(
    quick: Api, connection: Connection
) -> None:
    worker = await opened(quick)
    await worker.poll(0)
    await submitted(quick, task_for())
    await connection.execute(_CLAIMED, worker.id)

    async def released() -> bool:
        await worker.beat()
        await worker.poll(0)
        return bool(await connection.fetchval("SELECT state = 0 FROM gnomon.task"))

    await eventually(released)
    delivery = await worker.next()
    assert (delivery["attempt"], delivery["fence"]) == (1, 3)
    assert await worker.settle(delivery)


async def test_permits_outlive_the_gateway_that_took_them(
    database_dsn: str, connection: Connection
) -> None:
    await connection.execute(LIMITER)  # before anybody has looked
    async with serving(database_dsn, **QUICK) as second:
        async with serving(database_dsn, **QUICK) as first:
            worker = await opened(first)
            await submitted(first, task_for())
            running = await worker.next()
        worker.api = second
        await worker.poll(0)
        await submitted(second, task_for())
        for _ in range(5):  # the limit holds though the gateway that held the permit has left
            assert (await worker.poll(3, 1.0))["deliveries"] == []
            await worker.beat()
        assert await worker.settle(running)
        assert (await worker.next(wait=5.0))["task_id"] != running["task_id"]
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task WHERE state = 1") == 1


async def test_permits_stay_with_a_living_gateway_whose_session_has_moved(
    database_dsn: str, connection: Connection
) -> None:
    await connection.execute(LIMITER)
    async with serving(database_dsn, **QUICK) as first, serving(database_dsn, **QUICK) as second:
        worker = await opened(first)
        other = await opened(first)  # which keeps the first gateway at work
        await submitted(first, task_for())
        running = await worker.next()
        worker.api = second
        await worker.poll(0)
        await submitted(second, task_for())
        for _ in range(4):
            assert (await worker.poll(3, 0.5))["deliveries"] == []
            assert (await other.poll(3, 0.5))["deliveries"] == []
        assert await worker.settle(running)

        async def delivered() -> bool:
            for each in (worker, other):
                if (await each.poll(3, 0.3))["deliveries"]:
                    return True
            return False

        await eventually(delivered)


async def test_beats_may_go_to_another_gateway(database_dsn: str) -> None:
    async with (
        serving(database_dsn, gateway_lease_seconds=3.0, **QUICK) as first,
        serving(database_dsn, gateway_lease_seconds=3.0, **QUICK) as second,
    ):
        worker = await opened(first)
        beating = TestedWorker(second, worker.opened, {})
        async with asyncio.timeout(30):
            for _ in range(10):
                await beating.beat()
                await worker.poll(1, 0.6)
            await submitted(first, task_for())
            delivery = await worker.next(wait=0.5)
            while not await worker.settle(delivery):
                raise AssertionError("it was refused")


async def suspected(api: Api, connection: Connection, losses: int) -> str:
    """A due task that so many nodes were lost with."""
    task = await submitted(api, task_for(delay_seconds=3600))
    query = "UPDATE gnomon.task SET losses = $2, due_at = gnomon.now() WHERE id = $1::text::uuid"
    await connection.execute(query, task["task_id"], losses)
    return str(task["task_id"])


async def test_a_session_has_one_suspect_at_a_time_and_nothing_beside_one_that_must_be_alone(
    quick: Api, connection: Connection
) -> None:
    worker = await opened(quick, slots=4)
    await worker.poll(0)
    for losses in (1, 1):
        await suspected(quick, connection, losses)
    first = await worker.next(slots=4)
    assert first["suspect"]
    assert (await worker.poll(3, 1.0))["deliveries"] == []
    assert await worker.settle(first)
    second = await worker.next(slots=4)
    assert second["suspect"]
    assert await worker.settle(second)
    alone = await suspected(quick, connection, 30)
    delivery = await worker.next(slots=4)
    assert delivery["task_id"] == alone
    await submitted(quick, task_for())
    assert (await worker.poll(3, 1.0))["deliveries"] == []  # it must be alone
    assert await worker.settle(delivery)
    assert not (await worker.next(slots=4))["suspect"]


async def test_a_suspect_that_kills_its_session_alone_is_to_blame(
    database_dsn: str, connection: Connection
) -> None:
    async with serving(database_dsn, gateway_lease_seconds=3.0, **QUICK) as api:
        for losses, after in ((1, 6), (30, 35)):
            worker = await opened(api)
            suspect = await suspected(api, connection, losses)
            delivery = await worker.next()
            claim = {"task_id": delivery["task_id"], "fence": delivery["fence"]}
            assert (await worker.poll(0, 10.0, begin=[claim]))["begun"][0]["granted"]
            await worker.leave()  # without a word of the task

            async def counted(task_id: str = suspect, after: int = after) -> bool:
                query = "SELECT losses FROM gnomon.task WHERE id = $1::text::uuid"
                return bool(await connection.fetchval(query, task_id) == after)

            await eventually(counted)
            await connection.execute("DELETE FROM gnomon.task")
