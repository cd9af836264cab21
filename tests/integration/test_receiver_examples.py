"""The examples for receivers, as they stand on the page, on calls of a real node."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import serving
from tests.integration.identity import make_tenant
from tests.integration.nodes import Call, receiver_on, running_node, webhook
from tests.integration.support import Connection, database_now, store
from tests.integration.webhook_calls import create_pair, secret_of
from tests.waiting import eventually

from gnomon.store.postgres.database import Database

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "receive-webhooks.md"


def examples() -> tuple[dict[str, Any], dict[str, Any]]:
    """What the two examples define: with secrets, and with public keys."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
    with_secrets: dict[str, Any] = {}
    with_keys: dict[str, Any] = {}
    exec(blocks[0], with_secrets)
    exec(blocks[1], with_keys)
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
