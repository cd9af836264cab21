"""Migrations and partitions, through PgBouncer."""

from collections.abc import AsyncIterator

import pytest
from tests.integration import migrating
from tests.integration.support import Connection
from tests.integration.test_migrations import *  # noqa: F403
from tests.integration.test_old_partitions import (  # noqa: F401
    looker,
    test_a_day_goes_when_all_its_tasks_are_past_retention,
    test_an_old_reader_holds_up_the_drop_and_nobody_else,
    test_what_a_killed_pruner_left_is_finished_by_another,
)
from tests.integration.test_partitions import *  # noqa: F403
from tests.pooler import *  # noqa: F403
from tests.pooler import PgBouncer

from gnomon.store.postgres import migrate
from gnomon.store.postgres.database import Database, connect, is_pooled


@pytest.fixture  # type: ignore[no-redef]
async def empty(empty_dsn: str, pgbouncer: PgBouncer) -> AsyncIterator[Connection]:
    opened = await connect(pgbouncer.to(empty_dsn))
    assert is_pooled(opened)
    yield opened
    await opened.close()


@pytest.fixture  # type: ignore[no-redef]
async def fresh(unpartitioned_dsn: str, pgbouncer: PgBouncer) -> AsyncIterator[Connection]:
    opened = await connect(pgbouncer.to(unpartitioned_dsn))
    assert is_pooled(opened)
    yield opened
    await opened.close()


@pytest.fixture  # type: ignore[no-redef]
async def pool(unpartitioned_dsn: str, pgbouncer: PgBouncer) -> AsyncIterator[Database]:
    opened = Database(pgbouncer.to(unpartitioned_dsn), 4)
    await opened.open()
    yield opened
    await opened.close()


# What each migration leaves is compared straight; `test_up_down_up...` takes them through here.
del test_each_migration_down_undoes_its_way_up  # noqa: F821

_TASKS = """
    INSERT INTO gnomon.task (tenant_id, id, task_type, target)
    SELECT 'default', (lpad(to_hex(n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, 't',
           '{}'
    FROM generate_series(1, $1::integer) AS n
"""


async def test_the_index_of_a_small_table_is_made_through_a_pooler(fresh: Connection) -> None:
    """So that one can begin behind a pooler."""
    await fresh.execute(_TASKS, 100)
    done = await migrate.up(fresh, known=migrating.known())
    assert [m.version for m in done] == [migrating.LABELS]
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'gnomon.task_by_label'::regclass"
    assert await fresh.fetchval(valid)


async def test_the_index_of_a_large_table_is_not_made_through_a_pooler(
    fresh: Connection, unpartitioned_dsn: str
) -> None:
    """Its lock belongs to a session, and behind a pooler nobody has one."""
    await fresh.execute(_TASKS, 10_001)
    with pytest.raises(migrate.MigrationError, match="GNOMON_DATABASE_DIRECT_URL"):
        await migrate.up(fresh, known=migrating.known())
    direct = await connect(unpartitioned_dsn)
    done = await migrate.up(direct, known=migrating.known())
    await direct.close()
    assert [m.version for m in done] == [migrating.LABELS]
