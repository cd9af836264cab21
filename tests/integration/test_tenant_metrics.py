"""What Prometheus reads of one tenant, with that tenant's key, or an operator's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, call
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from tests.integration.support import Connection, database_now, store, submission
from tests.scrapes import Samples

from gnomon.access.principal import Role
from gnomon.model.insight.activity import ALL_TYPES, ActivityKey, Counts
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.insight.activity import ActivityRow
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.overview.overview import PostgresOverview

PATH = "/api/v1/metrics"


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as client:
        yield client


async def samples(
    api: aiohttp.ClientSession, key: str, path: str = PATH, accept: str = ""
) -> Samples:
    async with api.get(path, headers={**bearer(key), "Accept": accept}) as answer:
        assert answer.status == 200, await answer.text()
        return Samples(await answer.text())


async def test_a_tenant_reads_its_own_counts_and_no_others(
    api: aiohttp.ClientSession, database: Database
) -> None:
    other = await make_tenant(database, "other")
    _, own_key = await make_key(database, roles=[Role.READ, Role.SUBMIT])
    _, other_key = await make_key(database, other, roles=[Role.READ])
    await call(api, "POST", TASKS, 202, BODY, headers=bearer(own_key))
    async with database.connection() as connection:
        now = await connection.fetchval("SELECT gnomon.now()")
    delays = [0] * 17
    delays[3] = 6
    counts = Counts(
        submitted=7, started=6, succeeded=4, failed=2, dead=1, seconds=1.5, delays=delays
    )
    minute = now.replace(second=0, microsecond=0)
    rows = [
        ActivityRow(ActivityKey("default", name, Lane.HIGH), minute, counts)
        for name in (ALL_TYPES, "mail")
    ]
    await PostgresActivity(database).add(rows)
    found = await samples(api, own_key)
    own = {"tenant": "default", "lane": "HIGH"}
    assert found.of("gnomon_tenant_submissions_total", **own) == 7
    assert found.of("gnomon_tenant_executions_started_total", **own) == 6
    assert found.of("gnomon_tenant_executions_ended_total", outcome="succeeded", **own) == 4
    assert found.of("gnomon_tenant_executions_ended_total", outcome="failed", **own) == 2
    assert found.of("gnomon_tenant_dead_letters_total", **own) == 1
    assert found.of("gnomon_tenant_run_seconds_total", **own) == 1.5
    assert found.of("gnomon_tenant_start_delay_seconds_bucket", le="0.005", **own) == 0
    assert found.of("gnomon_tenant_start_delay_seconds_bucket", le="0.01", **own) == 6
    assert found.of("gnomon_tenant_start_delay_seconds_count", **own) == 6
    assert found.of("gnomon_tenant_type_executions_total", task_type="mail") == 6
    assert found.of("gnomon_tenant_type_run_seconds_total", task_type="mail") == 1.5
    assert found.of("gnomon_tenant_tasks") == 1
    assert "gnomon_tenant_oldest_due_seconds" in found.names()
    theirs = await samples(api, other_key)
    assert {sample.labels["tenant"] for sample in theirs.all} == {"other"}
    assert sum(sample.value for sample in theirs.all) == 0
    _, operator = await make_operator(database)
    seen = await samples(api, operator, "/api/v1/tenants/default/metrics")
    assert seen.of("gnomon_tenant_submissions_total") == 7
    await call(api, "GET", "/api/v1/tenants/nobody/metrics", 404, headers=bearer(operator))


async def test_only_operators_scrape_the_process_itself(
    api: aiohttp.ClientSession, database: Database
) -> None:
    _, admin = await make_key(database)
    async with api.get("/metrics", headers=bearer(admin)) as answer:
        assert answer.status == 403
    _, operator = await make_operator(database)
    await call(api, "POST", TASKS, 202, BODY, headers=bearer(admin))
    found = await samples(api, operator, "/metrics")
    assert found.of("gnomon_submissions_total", kind="one_time") == 1
    assert found.of("gnomon_submit_seconds_count") == 1
    assert found.of("gnomon_requests_total", code="2xx") == 1
    assert found.of("gnomon_requests_total", code="4xx") == 1
    assert found.of("gnomon_request_seconds_count") == 2
    assert found.of("gnomon_database_connections", state="limit") > 0
    again = await samples(api, operator, "/metrics", "application/openmetrics-text; version=1.0.0")
    assert again.text.endswith("# EOF\n")


async def test_a_request_that_waits_for_a_task_is_not_measured(
    api: aiohttp.ClientSession, database: Database
) -> None:
    _, admin = await make_key(database)
    made = await call(api, "POST", TASKS, 202, BODY, headers=bearer(admin))
    path = f"{TASKS}/{made['task_id']}?wait=0.1"
    async with api.get(path, headers=bearer(admin)) as answer:
        assert answer.status == 200, await answer.text()
    found = await samples(api, (await make_operator(database))[1], "/metrics")
    assert found.of("gnomon_requests_total", code="2xx") == 2
    assert found.of("gnomon_request_seconds_count") == 1


async def test_a_scrape_does_not_wait_for_a_store_that_does_not_answer(
    api: aiohttp.ClientSession, database: Database, connection: Connection
) -> None:
    _, operator = await make_operator(database)
    assert (await samples(api, operator, "/metrics")).of("gnomon_nodes", state="alive") == 0
    async with connection.transaction():
        await connection.execute("LOCK TABLE gnomon.node IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(10):  # as long as Prometheus waits
            found = await samples(api, operator, "/metrics")
    assert found.of("gnomon_requests_under_way") == 1
    assert not [each for each in found.names() if each == "gnomon_nodes"]


async def test_siblings_are_asked_once_for_all_who_probe(database_dsn: str, tmp_path: Path) -> None:
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.3)  # as others come
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def probed(api: aiohttp.ClientSession) -> int:
        async with api.get("/healthz") as answered:
            return answered.status

    own = str(tmp_path / "api.sock")
    async with (
        await asyncio.start_unix_server(answer, tmp_path / "node.sock"),
        serving(database_dsn, output_metrics_socket=own) as api,
    ):
        statuses = await asyncio.gather(*(probed(api) for _ in range(40)))
    assert set(statuses) == {503}
    assert asked < 20


async def test_a_time_of_plain_sql_hides_no_metrics(
    api: aiohttp.ClientSession, database: Database, connection: Connection
) -> None:
    await store(database, submission(await database_now(connection)))
    await connection.execute("UPDATE gnomon.task SET due_at = '-infinity'")
    _, key = await make_key(database, roles=[Role.READ])
    assert (await samples(api, key)).of("gnomon_tenant_tasks", state="ready") == 1
    assert (await PostgresOverview(database, []).look()).missing == {}
