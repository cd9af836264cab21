"""With a tenant goes what was counted about it."""

import aiohttp
import pytest
from tests.integration.api_calls import call
from tests.integration.support import Connection
from tests.plans.test_hot_plans import plans
from tests.plans.test_look_plans import _LEAVE_FEW

from gnomon.store.postgres.identity import tenants
from gnomon.store.postgres.levels.level_store import BY_INDEX

_LEVELS = """
INSERT INTO gnomon.service_level (tenant_id, week, task_type, cron_job_id, start_kept)
SELECT $1, date '2026-01-05' + 7 * (n % 50), 'type' || n, gen_random_uuid(), 1
FROM generate_series(1, $2::integer) AS n
"""
_LEFT = "SELECT count(*) FROM gnomon.service_level WHERE tenant_id = $1"


async def test_its_service_levels_are_removed_with_a_tenant(
    api: aiohttp.ClientSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "_AT_ONCE", 100)
    for name in ("acme", "other"):
        await call(api, "POST", "/api/v1/tenants", 201, {"tenant_id": name})
        await connection.execute(_LEVELS, name, 250)
    await call(api, "DELETE", "/api/v1/tenants/acme", 204)
    assert await connection.fetchval(_LEFT, "acme") == 0
    assert await connection.fetchval(_LEFT, "other") == 250


@pytest.mark.parametrize("state", ["never analyzed", "analyzed", "dead"])
async def test_they_are_found_by_key(connection: Connection, state: str) -> None:
    await connection.execute(_LEVELS, "acme", 5_000)
    if state != "never analyzed":
        await connection.execute("ANALYZE gnomon.service_level")
    if state == "dead":
        await connection.execute(_LEAVE_FEW.format("service_level"))
    async with connection.transaction():
        await connection.execute(BY_INDEX)
        for used in await plans(connection, "remove_tenant_levels", "acme", 100):
            assert used.indexes == {"service_level_pkey"}
            assert not used.read_whole
