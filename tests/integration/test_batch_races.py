"""Batches that several processes add to, close and settle at once."""

import asyncio
import random
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.batch_world import World, states, world
from tests.waiting import eventually

from gnomon.model.errors import GnomonError
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.model.workflow_errors import BatchIsClosed
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.database import Database
from gnomon.workflow.batch import BatchOfTasks, MemberCounts

__all__ = ["world"]


async def _waits(connection: "asyncpg.Connection[Any]", number: int = 1) -> None:
    async def look() -> bool:
        waiting = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(waiting >= number)

    await eventually(look)


async def test_closing_waits_for_who_adds_and_who_adds_for_closing(
    world: World, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    batch = await world.open()
    ids = await world.put(batch, 1)
    async with world.tasks.change(DEFAULT_TENANT) as adding:
        await adding.insert([NewTask(world.task(batch.batch_id))])
        # Others add and settle meanwhile; only closing waits.
        await world.put(batch, 2)
        await world.put_one(batch)
        await world.settle(ids)
        closing = asyncio.ensure_future(world.close(batch))
        await _waits(connection)
        # Who comes after who closes is too late: else closing would wait for as long as any come.
        late = [asyncio.ensure_future(act(batch)) for act in (world.put, world.put_one)]
        await _waits(connection, len(late) + 1)
    assert (await closing).progress == MemberCounts(5, 1)
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert [type(each) for each in outcomes] == [BatchIsClosed, BatchIsClosed]
    other = await world.open()
    async with world.tasks.change(DEFAULT_TENANT) as change:
        await change.batches.close(other.batch_id)
        late = [asyncio.ensure_future(act(other)) for act in (world.put, world.put_one)]
        await _waits(connection)
    outcomes = await asyncio.gather(*late, return_exceptions=True)
    assert [type(each) for each in outcomes] == [BatchIsClosed, BatchIsClosed]
    assert (await world.read(other)).progress == MemberCounts()


async def test_settlers_closing_and_adding_at_once_start_each_callback_once(
    world: World, connection: "asyncpg.Connection[Any]"
) -> None:
    """The last settlements and the closing race; so do two batches that the same settlers count,
    in opposite orders."""
    chance = random.Random(81)
    for _ in range(12):
        pair = [await world.open(), await world.open()]
        ids = [each for batch in pair for each in await world.put(batch, 4)]
        chance.shuffle(ids)
        started: list[UUID] = []

        async def settle(some: list[UUID], started: list[UUID] = started) -> None:
            started += await world.settle(some)

        async def add(batch: BatchOfTasks) -> int:
            try:
                return len(await world.put(batch, 2))
            except BatchIsClosed:
                return 0

        acts: list[Any] = [settle(ids[:3]), settle(ids[3:6]), settle(ids[6:])]
        acts += [world.close(each) for each in pair] + [add(each) for each in pair]
        chance.shuffle(acts)
        await asyncio.gather(*acts)
        await world.follow()
        for batch in pair:
            found = await world.read(batch)
            pending = found.progress.pending
            assert pending in (0, 2)
            await _settle_rest(world, connection, batch)
            await world.follow()
            assert await states(connection, batch.on_success, batch.on_complete) == [
                State.WAITING,
                State.WAITING,
            ]
        assert len(started) == len(set(started))


async def _settle_rest(
    world: World, connection: "asyncpg.Connection[Any]", batch: BatchOfTasks
) -> None:
    rows = await connection.fetch(
        "SELECT id FROM gnomon.task WHERE batch_id = $1 AND workflow_node IS NULL", batch.batch_id
    )
    if rows:
        await world.settle([row["id"] for row in rows])


async def _die(
    world: World, connection: "asyncpg.Connection[Any]", batch: BatchOfTasks, *, closes: bool
) -> None:
    async with world.tasks.change(DEFAULT_TENANT) as change:
        if closes:
            await change.batches.close(batch.batch_id)
        else:
            await change.insert([NewTask(world.task(batch.batch_id)) for _ in range(10)])
        pid = await change._connection.fetchval("SELECT pg_backend_pid()")
        await connection.execute("SELECT pg_terminate_backend($1)", pid)
        await change._connection.fetchval("SELECT 1")


async def test_a_process_that_dies_while_it_adds_or_closes_leaves_nothing_behind(
    world: World, database: Database, connection: "asyncpg.Connection[Any]"
) -> None:
    batch = await world.open()
    for closes in (False, True):
        with pytest.raises(GnomonError):
            await _die(world, connection, batch, closes=closes)
    found = await world.read(batch)
    assert found.progress == MemberCounts()
    assert found.closed_at is None
    ids = await world.put(batch, 2)
    await world.close(batch)
    await world.settle(ids)
    await world.follow()
    assert await states(connection, batch.on_success) == [State.WAITING]
