"""Messages from the submission to a real broker: allowed, confirmed, and none lost."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.brokers import RedisServer, ValkeyServer
from tests.certificates import Authority
from tests.conftest import serving
from tests.integration.api_calls import call
from tests.integration.handlers import calls, echo
from tests.integration.nodes import SECRET, running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store, submission
from tests.integration.workflow_calls import RUNS, once
from tests.waiting import eventually

from gnomon import Gnomon, publish, verify_webhook
from gnomon.breakers.breaker import HOST_RULE
from gnomon.model.targets.allow_list import AllowList
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Submission
from gnomon.node.dispatch.breaker_check import BreakerRules
from gnomon.node.run.targets.queue import Credentials, Message, NotPublished
from gnomon.node.run.targets.queue.redis import RedisBroker
from gnomon.settings.queues import QueueConnection
from gnomon.store.ports.tenancy.tenants import TenantChange
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenants import PostgresTenants

NO_REDIS = "no Redis is installed (Debian: apt-get install redis-server)"
QUICK = BreakerRules(host=msgspec.structs.replace(HOST_RULE, pause=0.2))
SOON = RetryPolicy(max_retries=50, base_seconds=0.1, max_seconds=0.1, jitter=False)
TWICE = msgspec.structs.replace(SOON, max_retries=2)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    if RedisServer.PROGRAM is None:
        assert os.environ.get("CI") != "true", NO_REDIS
        pytest.skip(NO_REDIS)
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    yield server
    server.kill()


def queues(server: ValkeyServer, **values: Any) -> dict[str, QueueConnection]:
    return {"orders": QueueConnection(**{"url": server.url, **values})}


async def published(
    database: Database, connection: Connection, topic: str, **values: Any
) -> Submission:
    now = await database_now(connection)
    target = QueueTarget(f"queue://orders/{topic}", values.pop("key", None))
    new = submission(now, target=target, payload=b'{"order_id": "o_1"}', **values)
    await store(database, new)
    return new


def entries(server: ValkeyServer, topic: str) -> list[dict[str, str]]:
    found: Any = server.client.xrange(topic)
    return [fields for _, fields in found]


async def arrived(server: ValkeyServer, topic: str) -> None:
    async def look() -> bool:
        return bool(entries(server, topic))

    await eventually(look)


async def test_a_message_has_the_payload_and_the_headers_of_a_webhook(
    database_dsn: str,
    database: Database,
    connection: Connection,
    valkey: ValkeyServer,
) -> None:
    known = queues(valkey)
    async with (
        running_node(database_dsn, targets_queues=known),
        serving(database_dsn, targets_queues=known) as api,
    ):
        body = {
            "task_type": "created",
            "target": {
                "type": "queue", "url": "queue://orders/created", "key": "o_1",
                "headers": {"x-region": "eu"},
            },
            "payload": {"n": 1},
        }  # fmt: skip
        async with api.post("/api/v1/tasks", json=body) as answer:
            assert answer.status == 202, await answer.text()
            shown = await answer.json()
        assert shown["target"]["headers"] == {"x-region": "***"}
        await arrived(valkey, "created")
        (entry,) = entries(valkey, "created")
    assert json.loads(entry["payload"]) == {"n": 1}
    assert entry["webhook-id"] == entry["gnomon-task-id"] == shown["task_id"]
    assert (entry["x-region"], entry["key"], entry["gnomon-attempt"]) == ("eu", "o_1", "1")
    assert entry["gnomon-tenant"] == "default"
    now = await database_now(connection)
    assert verify_webhook([SECRET], entry, entry["payload"].encode(), now)


async def test_a_step_of_a_workflow_publishes_and_gives_the_id_of_the_message(
    database_dsn: str, valkey: ValkeyServer
) -> None:
    def order(order_id: str) -> None:
        charged = echo.step({"who": "charge", "returns": order_id})
        told = publish("tell", "queue://orders/charged", {"order": charged.output}, key="o_1")
        echo.step({"who": "told", "id": told.output}).named("last")

    drawn = msgspec.json.decode(msgspec.json.encode(Gnomon().workflow(order).definition))
    known = queues(valkey)
    async with (
        running_node(database_dsn, targets_queues=known),
        serving(database_dsn, targets_queues=known) as api,
    ):
        body = {"definition": {"nodes": drawn["nodes"]}, "input": {"order_id": "o_7"}}
        run = await call(api, "POST", RUNS, 202, body)
        ended = await once(api, run, "SUCCEEDED")
    tasks = {each["node"]: each["task_id"] for each in ended["nodes"]}
    found: Any = valkey.client.xrange("charged")
    ((entry_id, entry),) = found
    assert (json.loads(entry["payload"]), entry["key"]) == ({"order": "o_7"}, "o_1")
    assert entry["webhook-id"] == tasks["tell"]
    assert calls["told"][-1]["id"] == entry_id


async def test_what_no_connection_takes_is_refused_when_it_is_submitted(
    database_dsn: str, valkey: ValkeyServer
) -> None:
    allowed = queues(valkey, tenants={"default": ("orders.*",), "*": ("open",), "x": ("secret",)})
    job = {"task_type": "t", "name": "j", "cron_expression": "0 9 * * *"}
    async with serving(database_dsn, targets_queues=allowed) as api:
        for url in ("queue://orderz/open", "queue://orders/x", "queue://orders/secret"):
            target = {"target": {"type": "queue", "url": url}}
            step = {"task_type": "t", **target}
            asked = (
                ("tasks", step, "/target/url"),
                ("tasks/batch", {"tasks": [step]}, "/tasks/0/target/url"),
                ("cron-jobs", job | target, "/target/url"),
                ("workflows", {"name": "w", "nodes": {"n": step}}, "/nodes/n/target/url"),
            )
            for path, body, pointer in asked:
                problem = await call(api, "POST", f"/api/v1/{path}", 422, body)
                (error,) = problem["errors"]
                assert error["pointer"] == pointer
                may = "it may publish to: queue://orders/open, queue://orders/orders.*"
                assert error["detail"].endswith(may)
        body = {"task_type": "t", "target": {"type": "queue", "url": "queue://orders/orders.a"}}
        task = await call(api, "POST", "/api/v1/tasks", 202, body | {"delay_seconds": 600})
        path = f"/api/v1/tasks/{task['task_id']}"
        wrong = {"target": {"type": "queue", "url": "queue://orders/x"}}
        await call(api, "PATCH", path, 422, wrong)


async def test_what_a_tenant_may_not_publish_is_a_dead_letter_at_once(
    database_dsn: str, database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    allowed = queues(valkey, tenants={"default": ("orders.*", "exact"), "*": ("open",)})
    async with running_node(database_dsn, targets_queues=allowed):
        for topic, fine in (
            ("orders.a", True), ("exact", True), ("open", True), ("exactly", False), ("x", False),
        ):  # fmt: skip
            new = await published(database, connection, topic)
            ended = await end_of(connection, key_of(new))
            assert (ended["last_error"] is None) is fine, topic
            if not fine:
                assert (
                    "no connection 'orders' of targets.queues on this node lets"
                    in (ended["last_error"])
                )
                assert ended["attempt"] == 1
        # The list of the tenant takes away from what the settings give.
        allow = AllowList(None, ("queue://orders/orders.*", "example.com"))
        await PostgresTenants(database).change("default", TenantChange(allow=allow))

        async def is_refused() -> bool:
            new = await published(database, connection, "open")
            error = (await end_of(connection, key_of(new)))["last_error"] or ""
            return "only for the topics: queue://orders/orders.*" in error

        await eventually(is_refused)
        new = await published(database, connection, "orders.b")
        assert (await end_of(connection, key_of(new)))["last_error"] is None
    assert not valkey.client.exists("x", "exactly")


async def test_wrong_credentials_are_one_clear_error_and_a_new_file_is_used(
    database_dsn: str,
    database: Database,
    connection: Connection,
    valkey: ValkeyServer,
    tmp_path: Path,
) -> None:
    valkey.client.acl_setuser(
        "gnomon", enabled=True, passwords=["+new"], keys=["*"], commands=["+@all"]
    )
    secret = tmp_path / "password"
    secret.write_text("old\n")
    url = f"redis://gnomon@127.0.0.1:{valkey.port}"
    used = queues(valkey, url=url, password_file=str(secret))
    async with running_node(database_dsn, targets_queues=used, rules=QUICK):
        new = await published(database, connection, "rotated", retry_policy=SOON)

        async def told() -> str | None:
            told: str | None = await connection.fetchval(
                "SELECT last_error FROM gnomon.task WHERE id = $1", new.id
            )
            return told

        error = await eventually(told)
        assert error == "queue://orders: the broker refuses the credentials of the connection"
        secret.write_text("new\n")
        await end_of(connection, key_of(new))
    assert len(entries(valkey, "rotated")) == 1


async def test_a_stream_that_is_forbidden_says_nothing_of_the_others(valkey: ValkeyServer) -> None:
    valkey.client.acl_setuser(
        "narrow", enabled=True, passwords=["+p"], keys=["mine"], commands=["+@all"]
    )
    connection = QueueConnection(f"redis://narrow@127.0.0.1:{valkey.port}")
    broker = RedisBroker(connection, Credentials("p", (None, None, None)))
    message = Message("1", b"{}", {}, None)
    assert await broker.publish("mine", message)
    with pytest.raises(
        NotPublished, match="does not let the connection write to the stream x"
    ) as e:
        await broker.publish("x", message)
    assert (e.value.again, e.value.unwell) == (True, False)
    await broker.close()


async def last_error(connection: Connection, new: Submission) -> str:
    async def told() -> str | None:
        error: str | None = await connection.fetchval(
            "SELECT last_error FROM gnomon.task WHERE id = $1", new.id
        )
        return error

    return await eventually(told)


async def test_certificates_of_a_private_authority_are_rotated_without_a_restart(
    database_dsn: str,
    database: Database,
    connection: Connection,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    other = Authority(tmp_path, "other")
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(other.file.read_bytes())
    other.sign(tmp_path, "127.0.0.1", name="node")
    used = {
        "orders": QueueConnection(
            url=redis.url,
            ca_file=str(trusted),
            certificate_file=str(tmp_path / "node.crt"),
            key_file=str(tmp_path / "node.key"),
        )
    }
    async with running_node(database_dsn, targets_queues=used, rules=QUICK):
        first = await published(database, connection, "tls", retry_policy=SOON)
        assert "certificate verify failed" in await last_error(connection, first)
        trusted.write_bytes(redis.authority.file.read_bytes())
        second = await published(database, connection, "tls", retry_policy=SOON)
        # Now the server does not know the node. (Which of the two says so first is a race.)
        assert await last_error(connection, second)
        assert not redis.client.exists("tls")
        redis.authority.sign(tmp_path, "127.0.0.1", name="node")
        for each in (first, second):
            assert (await end_of(connection, key_of(each)))["finished_at"] is not None
    assert redis.client.xlen("tls") == 2


async def test_streams_are_bounded_and_mistakes_are_said(
    database_dsn: str, database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    valkey.client.set("text", "of another kind")
    valkey.client.config_set("stream-node-max-entries", 5)
    valkey.client.xadd("bounded", {"first": "1"})
    used = queues(valkey, max_length=5, create_streams=False)
    async with running_node(database_dsn, targets_queues=used):
        new = [await published(database, connection, "bounded") for _ in range(30)]
        for each in new:
            assert (await end_of(connection, key_of(each)))["last_error"] is None
        assert valkey.client.xlen("bounded") <= 10
        for topic, told, attempts in (
            ("nothing", "there is no stream nothing", 3),
            ("text", "text is a key, but not a stream", 1),
        ):
            wrong = await published(database, connection, topic, retry_policy=TWICE)
            ended = await end_of(connection, key_of(wrong))
            assert ended["last_error"] == f"queue://orders: {told}"
            assert ended["attempt"] == attempts


async def test_a_message_waits_for_a_stream_that_is_still_to_be_made(
    database_dsn: str, database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    used = queues(valkey, create_streams=False)
    async with running_node(database_dsn, targets_queues=used):
        new = await published(database, connection, "later", retry_policy=SOON)
        assert await last_error(connection, new) == "queue://orders: there is no stream later"
        valkey.client.xgroup_create("later", "consumers", mkstream=True)
        assert (await end_of(connection, key_of(new)))["state"] == State.COMPLETED
    assert valkey.client.xlen("later") == 1


async def test_a_broker_that_is_killed_in_the_middle_loses_nothing(
    database_dsn: str, database: Database, connection: Connection, valkey: ValkeyServer
) -> None:
    async with running_node(database_dsn, targets_queues=queues(valkey), rules=QUICK):
        new = [
            await published(database, connection, "killed", retry_policy=SOON) for _ in range(60)
        ]
        await arrived(valkey, "killed")
        valkey.kill()
        new += [
            await published(database, connection, "killed", retry_policy=SOON) for _ in range(20)
        ]

        async def failed() -> bool:
            return bool(
                await connection.fetchval(
                    "SELECT count(*) FROM gnomon.task WHERE last_error LIKE 'queue://orders: %'"
                )
            )

        await eventually(failed)
        valkey.start()
        for each in new:
            ended = await end_of(connection, key_of(each))
            assert ended["finished_at"] is not None
    seen = {entry["webhook-id"] for entry in entries(valkey, "killed")}
    assert seen == {str(each.id) for each in new}
