"""Keys over several API processes, and what must never be in a log."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import aiohttp
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from tests.integration.identity import bearer, make_key
from tests.system.conftest import NewProcess
from tests.system.harness import Process, eventually

from gnomon.clock import SystemClock
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.api_keys import PostgresKeys

pytestmark = pytest.mark.system

TASKS = "/api/v1/tasks"
CANARY = "canary-7f3a"
LOOPBACK = "127.0.0.0/8"
SECOND = 1.0  # what is promised: from the revocation on, everywhere


def new_api(
    dsn: str, folder: Path, processes: list[Process], name: str, **settings: object
) -> Process:
    settings = {"auth_enabled": "true", "targets_allow": LOOPBACK, **settings}
    processes.append(Process(dsn, folder, name, "api", "--port", "0", **settings))
    processes[-1].start()
    return processes[-1]


class Try(NamedTuple):
    began: float
    status: int


async def knock(client: aiohttp.ClientSession, url: str, key: str, tries: list[Try]) -> None:
    """Ask one process over and over."""
    while True:
        began = time.monotonic()
        async with client.get(f"{url}{TASKS}", headers=bearer(key)) as answer:
            tries.append(Try(began, answer.status))


async def test_a_revoked_key_fails_everywhere_within_a_second(
    database_dsn: str, database: Database, tmp_path: Path, processes: list[Process]
) -> None:
    names = ("api-1", "api-2")
    apis = [new_api(database_dsn, tmp_path, processes, name) for name in names]
    urls = [await api.started() for api in apis]
    key_id, key = await make_key(database)
    tries: list[list[Try]] = [[] for _ in urls]

    async def enough(status: int) -> bool:
        return all(sum(t.status == status for t in each) > 20 for each in tries)

    async with aiohttp.ClientSession() as client, asyncio.TaskGroup() as group:
        knocking = [
            group.create_task(knock(client, url, key, each))
            for url, each in zip(urls, tries, strict=True)
        ]
        await eventually(lambda: enough(200))
        await PostgresKeys(database).revoke("default", key_id)
        revoked = time.monotonic()
        await eventually(lambda: enough(401))

        async def later() -> bool:
            return time.monotonic() > revoked + 1.5 * SECOND

        await eventually(later)
        for task in knocking:
            task.cancel()
    for each in tries:
        assert {t.status for t in each} == {200, 401}
        last = max(t.began for t in each if t.status == 200)
        assert last < revoked + SECOND
        first = min(t.began for t in each if t.status == 401)
        assert all(t.status == 401 for t in each if t.began > first)  # it never comes back


HANDLERS = """
import asyncio
import os
from gnomon import Gnomon

app = Gnomon()


@app.task
async def fails(payload):
    raise ValueError("that is wrong: " + str(payload))


@app.task
async def dawdles(payload):
    await asyncio.sleep(60)


@app.task
async def kills(payload):
    if not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), 9)
"""


class Secrets(NamedTuple):
    """All that must stay where it belongs."""

    key: str
    wrong_key: str
    token: str
    wrong_token: str
    webhook: str = "whsec_" + "Y2FuYXJ5LXdlYmhvb2stc2VjcmV0LTEyMzQ1Njc4"

    def all(self) -> list[str]:
        return [*self, CANARY]


@pytest.fixture
async def echo() -> AsyncIterator[str]:
    """A receiver that answers with a failure, and with all that it was sent."""

    async def answered(request: web.BaseRequest) -> web.Response:
        return web.Response(status=500, body=await request.read(), headers=request.headers.copy())

    runner = web.ServerRunner(web.Server(answered, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


def tokens(folder: Path) -> tuple[str, str]:
    """A token that is believed, and one that is not."""
    private = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(ECAlgorithm.to_jwk(private.public_key())) | {"kid": "k"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    claims = {"iss": "i", "aud": "a", "sub": "s", "tenant": "default", "roles": "admin"}
    exp = int(SystemClock().now().timestamp()) + 600
    good, bad = (
        jwt.encode(claims | {"exp": at}, private, "ES256", headers={"kid": "k"}) for at in (exp, 1)
    )
    return good, bad


def task(target: dict[str, Any], **fields: Any) -> dict[str, Any]:
    fields = {"retry_policy": {"max_retries": 0}, "payload": {"card": CANARY}} | fields
    return {"task_type": target.get("function", "t"), "target": target} | fields


async def refused_by_schema(client: aiohttp.ClientSession, key: str, hook: dict[str, Any]) -> bool:
    """Every process hears of a schema within a second."""
    body = task(hook, task_type="typed", payload={"other": CANARY}, delay_seconds=3600)
    async with client.post(TASKS, json=body, headers=bearer(key)) as answer:
        return answer.status == 422


async def use_it(client: aiohttp.ClientSession, secrets: Secrets, echo_url: str) -> list[UUID]:
    """Good requests and bad ones; gives the tasks that will end."""
    headers = {"Authorization": f"Bearer {CANARY}", "X-Token": CANARY}
    hook: dict[str, Any] = {"type": "http", "url": echo_url, "headers": headers}
    nowhere = hook | {"url": "http://127.0.0.1:9/"}
    made = []
    async with client.put(
        "/api/v1/task-types/typed",
        json={"schema": {"type": "object", "required": [CANARY]}},
        headers=bearer(secrets.key),
    ) as answer:
        assert answer.status < 300, await answer.text()
    await eventually(lambda: refused_by_schema(client, secrets.key, hook))
    functions: list[dict[str, Any]] = [
        {"type": "python", "function": name} for name in ("fails", "dawdles", "kills")
    ]
    for number, target in enumerate([hook, nowhere, *functions]):
        body = task(target, timeout_seconds=1)
        key = secrets.key if number % 2 else secrets.token
        async with client.post(TASKS, json=body, headers=bearer(key)) as answer:
            assert answer.status == 202, await answer.text()
            made.append(UUID((await answer.json())["task_id"]))
    wrong: list[tuple[str, Any, dict[str, str], int]] = [
        (TASKS, b'{"payload": "' + CANARY.encode(), bearer(secrets.key), 400),
        (TASKS, json.dumps({"payload": CANARY}), bearer(secrets.key), 422),
        (TASKS, json.dumps(task(hook, tags=[CANARY + "\0"])), bearer(secrets.key), 422),
        (TASKS, json.dumps(task(hook, payload=CANARY * 40_000)), bearer(secrets.key), 413),
        (TASKS, json.dumps(task(hook)), bearer(secrets.wrong_key), 401),
        (TASKS, json.dumps(task(hook)), bearer(secrets.wrong_token), 401),
        (f"{TASKS}?{CANARY}=1", json.dumps(task(hook)), {"Authorization": f"Basic {CANARY}"}, 401),
    ]
    for path, data, credentials, status in wrong:
        credentials = credentials | {"Content-Type": "application/json"}
        async with client.post(path, data=data, headers=credentials) as answer:
            assert answer.status == status, await answer.text()
    return made


async def test_secrets_and_payloads_are_in_no_log(
    database_dsn: str,
    database: Database,
    tmp_path: Path,
    processes: list[Process],
    new_node: NewProcess,
    echo: str,
) -> None:
    (tmp_path / "canaries.py").write_text(HANDLERS)
    good, bad = tokens(tmp_path)
    _, key = await make_key(database)
    secrets = Secrets(key, key[:-1] + ("0" if key[-1] != "0" else "1"), good, bad)
    chatty = {"output_log_level": "debug", "targets_webhook_secret": secrets.webhook}
    api = new_api(
        database_dsn, tmp_path, processes, "api", **chatty,
        auth_jwt_issuer="i", auth_jwt_audience="a", auth_jwt_jwks=str(tmp_path / "jwks.json"),
    )  # fmt: skip
    chatty = chatty | {"node_app": "canaries:app", "targets_allow": LOOPBACK, "api_key": key}
    node = new_node("node", node_timeout_grace_seconds=0.5, **chatty)
    async with aiohttp.ClientSession(await api.started()) as client:
        await node.started()
        made = await use_it(client, secrets, echo)
        await eventually(node._ended)  # one of them kills it
        rescuer = new_node("rescuer", node_timeout_grace_seconds=0.5, **chatty)
        await rescuer.started()

        async def over() -> bool:
            done = "SELECT count(*) FROM gnomon.task WHERE id = ANY ($1) AND state < 4"
            async with database.connection() as connection:
                return bool(await connection.fetchval(done, made) == 0)

        await eventually(over)
    for process in processes:
        text = process.text()
        assert text
        found = [secret for secret in secrets.all() if secret in text]
        assert not found, f"{process.name}: {found}"
