"""The examples for receivers, as they stand on the page, on calls of a real node."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.conftest import serving
from tests.integration.identity import make_tenant
from tests.integration.nodes import SECRET, Call, receiver_on, running_node, webhook
from tests.integration.support import Connection, database_now, end_of, store, submission
from tests.integration.webhook_calls import create_pair, secret_of
from tests.waiting import eventually

from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.store.postgres.database import Database

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "receive-webhooks.md"


def examples() -> tuple[dict[str, Any], dict[str, Any]]:
    """What the two examples define: with secrets, and with public keys."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
    checks = [block for block in blocks if "def is_genuine" in block]
    with_secrets: dict[str, Any] = {}
    with_keys: dict[str, Any] = {}
    exec(checks[0], with_secrets)
    exec(checks[1], with_keys)
    return with_secrets, with_keys


async def test_the_examples_tell_whose_a_call_is(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    for tenant in ("acme", "beta"):
        await make_tenant(database, tenant)
        await create_pair(database, tenant)
    with_secrets, with_keys = examples()
    with_secrets["SECRETS"] = {"acme": [await secret_of(connection, "acme")]}
    is_genuine: Callable[..., bool] = with_secrets["is_genuine"]
    async with (
        receiver_on(lambda: database_now(connection)) as receiver,
        running_node(database_dsn),
        serving(database_dsn) as api,
    ):
        now = await database_now(connection)
        tasks = [webhook(now, receiver, tenant_id=name) for name in ("acme", "beta")]
        tasks.append(webhook(now, receiver, tenant_id="acme", method="GET"))
        await store(database, *tasks)

        async def all_called() -> bool:
            return len(receiver.calls) == len(tasks)

        await eventually(all_called)
        url = str(api._base_url).rstrip("/")
        keys = await asyncio.to_thread(with_keys["public_keys"], url, "acme")

    def said(call: Call, body: bytes) -> tuple[bool, bool]:
        headers = {name.lower(): value for name, value in call.headers.items()}
        return is_genuine(headers, body), with_keys["is_genuine"](keys, headers, body)

    for call in receiver.calls:
        genuine = call.headers["gnomon-tenant"] == "acme"
        assert said(call, call.body) == (genuine, genuine)
        assert said(call, call.body + b" ") == (False, False)
        call.headers["webhook-timestamp"] = "1700000000"
        assert said(call, call.body) == (False, False)


async def test_the_receiver_of_the_page_charges_once(
    database_dsn: str,
    database: Database,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_DATABASE", database_dsn)
    monkeypatch.setenv("GNOMON_WEBHOOK_SECRETS", SECRET)
    await connection.execute("CREATE TABLE charge (task_id uuid, cents int)")
    page: dict[str, Any] = {"__name__": "page"}
    exec(re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())[0], page)
    app = page["app"]
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())

        async def has_started() -> bool:
            return server.started

        await eventually(has_started)
        port = server.servers[0].sockets[0].getsockname()[1]
        target = HttpTarget(f"http://127.0.0.1:{port}/charge")
        async with running_node(database_dsn):
            now = await database_now(connection)
            good, bad = await store(
                database,
                submission(now, target=target, payload=b'{"card": "c", "cents": 250}'),
                submission(now, target=target, payload=b'{"card": "c", "cents": 0}'),
            )
            assert (await end_of(connection, good))["response_body"] == '{"charged":250}'
            assert (await end_of(connection, bad))["state"] == State.DEAD
        server.should_exit = True
    (charged,) = await connection.fetch("SELECT task_id, cents FROM charge")
    assert (charged["task_id"], charged["cents"]) == (good.id, 250)
