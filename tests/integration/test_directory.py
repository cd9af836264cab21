"""What processes remember about tenants: read once, and then only what has changed."""

from collections.abc import Mapping

import pytest
import structlog
from tests.integration.support import Connection

from gnomon.clock import SystemClock
from gnomon.model.fleet.tenant import BUILT_IN_PLANS, STANDARD
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.tenant_cache import CachedTenant, Changes, TenantCache

TENANT = "INSERT INTO gnomon.tenant (id, quotas) VALUES ($1, $2)"
TYPE = "INSERT INTO gnomon.task_type (tenant_id, name, schema) VALUES ($1, $2, $3)"
LIMITER = "INSERT INTO gnomon.limiter (tenant_id, name, concurrency) VALUES ($1, 'all', 1)"


class Watched(PostgresTenantReader):
    """Shows what was read."""

    read: Mapping[str, CachedTenant] = {}

    async def changes(self, since: int | None) -> Changes:
        found = await super().changes(since)
        self.read = found.tenants
        return found


@pytest.fixture
async def store(connection: Connection, database: Database) -> Watched:
    for name in ("acme", "zed"):
        await connection.execute(TENANT, name, '{"cron_jobs": 3}')
        await connection.execute(TYPE, name, "mail", '{"type": "object"}')
    return Watched(database)


@pytest.fixture
async def directory(store: Watched) -> TenantCache:
    directory = TenantCache(store, SystemClock(), {})
    assert await directory.load()
    return directory


async def test_only_what_is_of_changed_tenants_is_read_again(
    connection: Connection, store: Watched, directory: TenantCache
) -> None:
    assert {"acme", "zed", "default"} <= set(store.read)
    await connection.execute(TYPE, "acme", "call", '{"type": "string"}')
    assert await directory.load()
    assert set(store.read) == {"acme"}
    assert directory.schema("acme", "call") == b'{"type": "string"}'
    assert directory.schema("acme", "mail") == directory.schema("zed", "mail") is not None
    await connection.execute(LIMITER, "zed")
    assert await directory.load()
    assert set(store.read) == {"zed"}
    assert [each.name for each in directory.limiters("zed")] == ["all"]
    assert not await directory.load()


async def test_what_is_gone_is_forgotten(
    connection: Connection, store: Watched, directory: TenantCache
) -> None:
    await connection.execute("DELETE FROM gnomon.task_type WHERE tenant_id = 'zed'")
    await connection.execute("DELETE FROM gnomon.tenant WHERE id = 'acme'")
    assert await directory.load()
    assert set(store.read) == {"acme", "zed"}
    assert not directory.knows("acme")
    assert directory.quotas("acme").cron_jobs is None
    assert directory.schema("acme", "mail") is None
    assert directory.knows("zed")
    assert directory.schema("zed", "mail") is None


async def test_many_changes_are_read_as_a_whole(
    connection: Connection, store: Watched, directory: TenantCache
) -> None:
    await connection.execute("DELETE FROM gnomon.tenant WHERE id = 'acme'")
    await connection.execute(
        "INSERT INTO gnomon.tenant (id) SELECT 't' || n FROM generate_series(1, 1200) AS n"
    )
    assert await directory.load()
    assert len(store.read) == 1202
    assert directory.knows("t1200")
    assert not directory.knows("acme")


@pytest.mark.parametrize("wrong", ['{"cron_jobs": -1}', '{"cron_jobs": "many"}', '"none"'])
async def test_wrong_quotas_end_no_process(
    connection: Connection, store: Watched, directory: TenantCache, wrong: str
) -> None:
    change = "UPDATE gnomon.tenant SET quotas = $1, weight = 2 WHERE id = 'acme'"
    with structlog.testing.capture_logs() as logs:
        await connection.execute(change, wrong)
        assert await directory.load()
        assert directory.quotas("acme").cron_jobs == 3
        assert directory.weight("acme") == 2
        assert [line["tenant"] for line in logs] == ["acme"]
        # Who has not seen the right ones goes by the plan.
        fresh = TenantCache(store, SystemClock(), {})
        assert await fresh.load()
        assert fresh.quotas("acme") == BUILT_IN_PLANS[STANDARD]
    await connection.execute(change, '{"cron_jobs": 5}')
    assert await directory.load()
    assert directory.quotas("acme").cron_jobs == 5
