"""A page examines at most 10 000 tasks; what lies at that edge is shown once, like any other."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gnomon.clock import SystemClock
from gnomon.model.ids import lowest_id
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.tasks.task_store import PostgresTasks

WINDOW = 10_000

_FILL = """
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
    timeout_seconds, task_type, target
)
SELECT 'default', i.id, 2, 10, 0, now(), now(), 1, 1, 30, i.task_type,
    '{"type": "python", "function": "f"}'
FROM unnest($1::uuid[], $2::text[]) AS i (id, task_type)
"""


@pytest.mark.parametrize("place", [WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1])
async def test_rare_tasks_around_the_edge_of_the_window_are_found_once(
    database: Database,
    connection: "asyncpg.Connection[Any]",
    clock: SystemClock,
    database_dsn: str,
    place: int,
) -> None:
    newest = lowest_id(clock.now() - timedelta(hours=1)).int
    ids = [UUID(int=newest - number) for number in range(WINDOW + 500)]
    rare = range(place - 30, place + 1)  # enough of them that sorting by id alone would mix ties
    types = ["rare" if number in rare else "common" for number in range(len(ids))]
    await connection.execute(_FILL, ids, types)
    store = PostgresTasks(database, Announcer(database_dsn, clock, 15), 3600)

    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await store.list("default", TaskFilter(task_type="rare"), cursor, 50)
        found += [task.task_id for task in page.tasks]
        cursor, pages = page.next_cursor, pages + 1

    assert found == [ids[number] for number in rare]
    assert pages == 2
