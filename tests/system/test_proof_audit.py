"""The auditor of the proof harness sees what must not be, and only that."""

import asyncio
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest
from proof.campaigns.audit import Audit
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_NODE = """
    INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
    VALUES ($1, 'node-1', '0', 1, gnomon.now(), gnomon.now())
"""
_RUNNING = """
    INSERT INTO gnomon.task (tenant_id, id, task_type, target, state, node, fence)
    VALUES ('default', $1, 'test', '{}', 1, $2, $3)
"""
_ARCHIVE = """
    WITH gone AS (DELETE FROM gnomon.task WHERE id = $1 RETURNING *)
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target
    )
    SELECT tenant_id, id, lane, 10, delivery, execute_at, gnomon.now(), fence, attempt,
        timeout_seconds, task_type, target
    FROM gone
"""
_DIE = "UPDATE gnomon.node SET dead = true WHERE incarnation = $1"


class Scene:
    """A node, a task that it runs, and an auditor that has looked once."""

    def __init__(self, connection: Connection) -> None:
        now = SystemClock().now()
        self.node, self.task = new_id(now), new_id(now)
        self.audit = Audit("", surely_dead=0.0)
        self._connection = connection

    async def set(self) -> None:
        await self.do(_NODE, self.node)
        await self.run(self.task, 5)
        await self.look()

    async def run(self, task: UUID, fence: int) -> None:
        await self.do(_RUNNING, task, self.node, fence)

    async def do(self, statement: str, *args: Any) -> None:
        await self._connection.execute(statement, *args)

    async def look(self) -> list[str]:
        await self.audit.look(self._connection)
        return [sighting.what for sighting in self.audit.sightings]


@pytest.fixture
async def scene(connection: Connection) -> Scene:
    made = Scene(connection)
    await made.set()
    return made


async def test_an_ordinary_life_is_no_sighting(scene: Scene) -> None:
    await scene.do("UPDATE gnomon.task SET fence = 6, state = 0, node = NULL")
    assert await scene.look() == []
    await scene.do("UPDATE gnomon.task SET fence = 7, state = 1, node = $1", scene.node)
    assert await scene.look() == []
    await scene.do(_DIE, scene.node)
    assert await scene.look() == []
    await scene.do("UPDATE gnomon.task SET fence = 8, state = 4, node = NULL")
    assert await scene.look() == []
    await scene.do("UPDATE gnomon.task SET state = 0")  # a dead letter that is driven again
    assert await scene.look() == []
    await scene.do(_ARCHIVE, scene.task)
    assert await scene.look() == []
    assert await scene.look() == []


async def test_the_dead_do_not_live_again(scene: Scene) -> None:
    await scene.do(_DIE, scene.node)
    await scene.look()
    await scene.do("UPDATE gnomon.node SET dead = false")
    (what,) = await scene.look()
    assert "lives again" in what


async def test_the_dead_do_not_renew(scene: Scene) -> None:
    await scene.do(_DIE, scene.node)
    await scene.look()
    await scene.do("UPDATE gnomon.node SET beat = beat + 1")
    (what,) = await scene.look()
    assert "renewed" in what


async def test_a_fence_does_not_fall(scene: Scene) -> None:
    await scene.do("UPDATE gnomon.task SET fence = 4")
    (what,) = await scene.look()
    assert "fell from 5 to 4" in what


async def test_what_is_finished_is_not_live_again(scene: Scene) -> None:
    await scene.do(_ARCHIVE, scene.task)
    assert await scene.look() == []
    await scene.do("DELETE FROM gnomon.task_archive")
    await scene.run(scene.task, 6)
    (what,) = await scene.look()
    assert "live again" in what


async def test_nothing_is_live_and_finished(scene: Scene) -> None:
    await scene.do(_ARCHIVE, scene.task)
    await scene.run(scene.task, 6)
    assert "a task is live and archived at once" in await scene.look()


async def test_the_dead_claim_nothing(scene: Scene) -> None:
    await scene.do(_DIE, scene.node)
    await scene.look()
    assert await scene.look() == []  # what it held before is no claim
    await scene.run(new_id(SystemClock().now()), 1)
    (what,) = await scene.look()
    assert "which was dead" in what
    assert len(await scene.look()) == 1  # told once


async def test_a_claim_that_began_before_the_death_was_seen_is_none_by_the_dead(
    scene: Scene, database_dsn: str
) -> None:
    slow = await asyncpg.connect(database_dsn)
    claim = slow.transaction()
    await claim.start()
    await slow.execute(_RUNNING, new_id(SystemClock().now()), scene.node, 1)
    await scene.do(_DIE, scene.node)
    await scene.look()
    await claim.commit()
    await slow.close()
    assert await scene.look() == []


async def test_after_a_loss_of_data_it_begins_anew(scene: Scene) -> None:
    scene.audit.forget()
    await scene.do("UPDATE gnomon.task SET fence = 1")
    assert await scene.look() == []


async def test_it_looks_on_by_itself_and_survives_that_its_connection_is_cut(
    database_dsn: str, connection: Connection
) -> None:
    audit = Audit(database_dsn)
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(audit.run())
        await _looks(audit, 2)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await _looks(audit, audit.looks + 2)
        looking.cancel()
    assert audit.sightings == []


async def _looks(audit: Audit, count: int) -> None:
    async def looked() -> bool:
        return audit.looks >= count

    await eventually(looked)
