"""What pages read, they read by key, also where a large table was never analyzed."""

from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import pytest
from tests.plans.test_bulk_plans import _FILL
from tests.plans.test_list_plans import FILTERS, assert_reads_by_key, plan_of

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


@pytest.fixture
async def filled(connection: Connection) -> Connection:
    await connection.execute("ALTER TABLE gnomon.task SET (autovacuum_enabled = false)")
    await connection.execute(_FILL)
    return connection


async def test_newer_tasks_are_read_by_key_whatever_the_filter(filled: Connection) -> None:
    middle = await filled.fetchval(
        "SELECT id FROM gnomon.task_archive ORDER BY id DESC OFFSET 10000 LIMIT 1"
    )
    for chosen in FILTERS.values():
        for after in (UUID(int=0), middle):
            found = await plan_of(filled, "list_newer_tasks", "default", after, 51, *chosen)
            assert_reads_by_key(found)
    found = await plan_of(filled, "list_newer_tasks", "default", middle, 51, *FILTERS["nothing"])
    scans = [node["Actual Rows"] for node in found if node["Node Type"].startswith("Index")]
    assert sum(scans) < 200


async def test_labels_look_at_the_newest_tasks_only(filled: Connection) -> None:
    found = await plan_of(filled, "recent_labels", "default", 1_000, 100)
    assert_reads_by_key(found)
    scans = [node["Actual Rows"] for node in found if node["Node Type"].startswith("Index")]
    assert sum(scans) <= 2_001
