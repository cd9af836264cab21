"""gRPC targets from the submission to the end of the task, with a real server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import msgspec
import pytest
from tests.certificates import Authority
from tests.conftest import serving
from tests.grpc_servers import RECEIVE, GrpcServer, grpc_server
from tests.integration.nodes import running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission
from tests.integration.support import tries as tries_of
from tests.waiting import eventually

from gnomon.breakers.breaker import HOST_RULE
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.node.dispatch.breaker_check import BreakerRules
from gnomon.settings.targets import GrpcTls
from gnomon.store.postgres.database import Database

SOON = RetryPolicy(max_retries=3, base_seconds=0.05, max_seconds=0.05, jitter=False)


@pytest.fixture
async def api(database_dsn: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(database_dsn) as session:
        yield session


async def test_a_task_is_submitted_shown_and_called(
    database_dsn: str, connection: Connection, api: aiohttp.ClientSession
) -> None:
    async with grpc_server() as server, running_node(database_dsn):
        target = {"type": "grpc", "url": server.url(), "headers": {"x-api-key": "s3cret"}}
        body = {"task_type": "ship", "target": target, "payload": {"order_id": "o_1"}}
        async with api.post("/api/v1/tasks", json=body) as answer:
            assert answer.status == 202, await answer.text()
            task_id = (await answer.json())["task_id"]

        async def ended() -> dict[str, Any] | None:
            async with api.get(f"/api/v1/tasks/{task_id}") as shown:
                task: dict[str, Any] = await shown.json()
            return task if task["status"] == "COMPLETED" else None

        task = await eventually(ended)
        assert task is not None
        assert task["target"]["headers"] == {"x-api-key": "***"}
        assert server.metadata[0]["x-api-key"] == "s3cret"
        assert server.metadata[0]["webhook-id"] == task_id
        async with api.get(f"/api/v1/tasks/{task_id}/executions") as shown:
            (execution,) = (await shown.json())["executions"]
        assert execution["response_body"] == '{"order_id": "o_1"}'


@pytest.mark.parametrize(
    ("target", "pointer"),
    [
        ({"url": "grpc://127.0.0.1:1/shop.Orders"}, "/target/url"),
        ({"url": "https://127.0.0.1/shop.Orders/Ship"}, "/target/url"),
        ({"url": "grpc://h:1/a.B/C", "headers": {"grpc-x": "1"}}, "/target/headers"),
        ({"url": "grpc://h:1/a.B/C", "descriptor_set": "!"}, "/target/descriptor_set"),
    ],
)
async def test_a_wrong_target_is_refused_with_its_place(
    shared_api: aiohttp.ClientSession, target: dict[str, Any], pointer: str
) -> None:
    body = {"task_type": "ship", "target": {"type": "grpc", **target}}
    async with shared_api.post("/api/v1/tasks", json=body) as answer:
        assert answer.status == 422
        (mistake,) = (await answer.json())["errors"]
    assert mistake["pointer"] == pointer


async def test_a_server_that_is_away_spends_no_retries_once_its_breaker_is_open(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    quick = BreakerRules(host=msgspec.structs.replace(HOST_RULE, pause=0.3))
    away = GrpcServer()
    async with grpc_server(away):
        pass  # it has a port now
    now = await database_now(connection)
    new = [
        submission(now, target=GrpcTarget(away.url(RECEIVE)), retry_policy=SOON) for _ in range(40)
    ]
    await store(database, *new)
    async with running_node(database_dsn, rules=quick):

        async def is_open() -> bool:
            return bool(await connection.fetchval("SELECT count(*) FROM gnomon.breaker"))

        await eventually(is_open)
        async with grpc_server(away):
            for each in new:
                assert (await end_of(connection, key_of(each)))["last_error"] is None or (
                    await tries_of(connection, key_of(each))
                )[-1]["outcome"] == 0
    assert {call.task_id for call in away.calls} == {str(each.id) for each in new}


async def test_tls_with_a_client_certificate_for_one_tenant(
    database_dsn: str, database: Database, connection: Connection, tmp_path: Path
) -> None:
    """The authority and the certificate are those of the settings; other tenants have neither."""
    right = Authority(tmp_path, "right")
    right.sign(tmp_path, "127.0.0.1")
    certificate, key = (
        (tmp_path / "server.crt").read_bytes(),
        (tmp_path / "server.key").read_bytes(),
    )
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], right.file.read_bytes(), require_client_auth=True
    )
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    async with grpc_server(credentials=credentials) as server:
        files = GrpcTls(
            ca_file=str(right.file),
            certificate_file=str(tmp_path / "server.crt"),
            key_file=str(tmp_path / "server.key"),
        )
        now = await database_now(connection)
        target = GrpcTarget(server.url(RECEIVE, scheme="grpcs"))
        once = RetryPolicy(max_retries=0)
        new = submission(now, target=target, retry_policy=once)
        other = submission(now, target=target, retry_policy=once, tenant_id="other")
        await store(database, new, other)
        host = f"127.0.0.1:{server.port}"
        async with running_node(database_dsn, targets_grpc_tls={host: files}):
            assert (await end_of(connection, key_of(new)))["last_error"] is None
            refused = await end_of(connection, key_of(other))
            assert "UNAVAILABLE" in refused["last_error"]
    assert [call.tenant for call in server.calls] == ["default"]
