"""Whether authentication is on is the database's to say, and webhooks are guarded by it."""

from typing import Any

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.settings import Settings, SettingsError
from gnomon.store.guards import Guards
from gnomon.store.ports.tenancy.tenants import TenantChange
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.installation import PostgresInstallation, agreed
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.identity.tenants import PostgresTenants
from gnomon.store.tenant_cache import TenantCache

Api = aiohttp.ClientSession


async def test_one_process_that_wants_it_turns_it_on_for_all(
    database: Database, database_dsn: str
) -> None:
    assert (await agreed(Settings(), database_dsn)).auth.enabled is False
    assert (await agreed(settings_with(auth_enabled=False), database_dsn)).auth.enabled is False
    assert (await agreed(settings_with(auth_enabled=True), database_dsn)).auth.enabled is True
    assert (await agreed(Settings(), database_dsn)).auth.enabled is True
    with pytest.raises(SettingsError, match="`gnomon authentication off`"):
        await agreed(settings_with(auth_enabled=False), database_dsn)
    assert await PostgresInstallation(database).set_authentication(on=False)
    assert (await agreed(settings_with(auth_enabled=False), database_dsn)).auth.enabled is False


async def test_an_api_that_was_started_before_serves_no_more(api: Api, database: Database) -> None:
    await call(api, "POST", TASKS, 202, BODY)
    await PostgresInstallation(database).set_authentication(on=True)

    async def refused() -> dict[str, Any] | None:
        async with api.get(TASKS) as answer:
            return dict(await answer.json()) if answer.status == 503 else None

    problem = await eventually(refused)
    assert problem["type"] == "urn:gnomon:problem:restart-needed"
    assert problem["title"] == "Restart needed"
    assert "restart it" in problem["detail"]
    async with api.get("/healthz") as answer:
        assert answer.status == 200


async def test_guards_follow_the_database(database: Database) -> None:
    await make_tenant(database, "acme")
    directory = TenantCache(PostgresTenantReader(database), SystemClock(), {})
    guards = Guards(directory, ("10.1.0.0/16",))
    assert guards.of("acme") is not None, "until it is known"
    await directory.load()
    assert guards.of("acme") is None
    await PostgresInstallation(database).set_authentication(on=True)
    await PostgresTenants(database).change("acme", TenantChange(targets_allow=("10.2.0.0/16",)))
    await directory.load()
    acme, other = guards.of("acme"), guards.of("default")
    assert acme is not None
    assert other is not None
    assert [acme.refuses(a) for a in ("10.1.0.1", "10.2.0.1", "10.3.0.1")] == [False, False, True]
    assert [other.refuses(a) for a in ("10.1.0.1", "10.2.0.1")] == [False, True]


async def test_the_api_refuses_by_the_networks_of_the_tenant(
    database: Database, database_dsn: str
) -> None:
    await make_tenant(database, "acme")
    await PostgresTenants(database).change("acme", TenantChange(targets_allow=("127.0.0.0/8",)))
    _, acme = await make_key(database, "acme")
    _, other = await make_key(database)
    async with serving(database_dsn, auth_enabled=True) as api:
        await call(api, "POST", TASKS, 202, BODY, headers=bearer(acme))
        await call(api, "POST", TASKS, 422, BODY, headers=bearer(other))


async def test_a_network_that_was_written_by_hand_and_is_none_allows_nothing(
    database: Database,
) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE gnomon.tenant SET targets_allow = '{ten,10.0.0.0/8}' WHERE id = 'default'"
        )
    tenant = await PostgresTenants(database).get("default")
    assert tenant.targets_allow == ("10.0.0.0/8",)
