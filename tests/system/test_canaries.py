"""Canaries through everything that Gnomon does with a task: in clear nowhere but where their owner
reads them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from tests.commands import gnomon_here
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from tests.system.conftest import NewProcess
from tests.system.harness import Process
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_secret
from gnomon.store.postgres.database import Database

pytestmark = pytest.mark.system

OWNER, RIVAL = "acme", "rival"
API = "/api/v1"
HANDLERS = """
import os
from gnomon import Gnomon

app = Gnomon()

@app.task
def environment(payload):
    return dict(os.environ)

@app.task
def fails(payload):
    raise ValueError("that is wrong: " + str(payload))
"""


def canary(name: str) -> str:
    return f"canary{name}{new_secret(6).hex()}"


@dataclass
class Secrets:
    """Sent on, and never shown to anybody again."""

    authorization: str = field(default_factory=lambda: canary("authorization"))
    header: str = field(default_factory=lambda: canary("header"))
    user: str = field(default_factory=lambda: canary("user"))
    password: str = field(default_factory=lambda: canary("password"))
    token: str = field(default_factory=lambda: canary("token"))
    key: str = ""
    reader: str = ""
    jwt: str = ""
    webhook: str = ""  # the value that the tenant's webhooks are signed with
    chat: str = field(default_factory=lambda: canary("chat"))  # in the address of a channel
    first: str = "whsec_" + "Y2FuYXJ5LWZpcnN0LXdlYmhvb2stc2VjcmV0LTAxMjM0NTY3"
    command: str = field(default_factory=lambda: canary("command"))  # in a node's environment

    def all(self) -> list[str]:
        return [getattr(self, each.name) for each in fields(self)]


@dataclass
class Belongings:
    """For their owner to read, and for nobody else."""

    payload: str = field(default_factory=lambda: canary("payload"))
    harmless: str = field(default_factory=lambda: canary("useragent"))
    path: str = field(default_factory=lambda: canary("path"))
    query: str = field(default_factory=lambda: canary("query"))
    idempotency: str = field(default_factory=lambda: canary("idempotency"))
    name: str = field(default_factory=lambda: canary("name"))
    tag: str = field(default_factory=lambda: canary("tag"))
    job: str = field(default_factory=lambda: canary("job"))
    answer: str = field(default_factory=lambda: canary("answer"))
    reason: str = field(default_factory=lambda: canary("reason"))
    schema: str = field(default_factory=lambda: canary("schema"))

    def all(self) -> list[str]:
        return [getattr(self, each.name) for each in fields(self)]


@dataclass
class Stage:
    """The canaries, and the processes that they go through."""

    secrets: Secrets
    own: Belongings
    url: str  # of the API
    metrics: str  # of the node
    hook: str
    heard: list[str]  # what the receiver was sent
    rival_key: str
    operator_key: str
    client: aiohttp.ClientSession
    seen: list[str] = field(default_factory=list)  # all that the owner was answered

    @property
    def target(self) -> dict[str, Any]:
        secret, own = self.secrets, self.own
        return {
            "type": "http",
            "url": f"{self.hook}{own.path}?access_token={secret.token}&page={own.query}",
            "headers": {
                "Authorization": f"Bearer {secret.authorization}",
                "X-Partner": secret.header,
                "User-Agent": own.harmless,
            },
        }

    def task(self, **changes: Any) -> dict[str, Any]:
        own = self.own
        return {
            "task_type": "t",
            "name": own.name,
            "tags": [own.tag],
            "payload": {"card": own.payload},
            "target": self.target,
            "retry_policy": {"max_retries": 1, "base_seconds": 0.01, "jitter": False},
        } | changes

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        once: str | None = None,
        most: int = 400,
    ) -> Any:
        """As the owner; what is answered is kept. Gives the document."""
        used = bearer(key or self.secrets.key)
        if once is not None:
            used["Idempotency-Key"] = once
        async with self.client.request(method, path, json=body, headers=used) as answer:
            text = await answer.text()
            self.seen.append(f"{method} {path} -> {answer.status} {dict(answer.headers)} {text}")
            assert answer.status < most, self.seen[-1]
            return json.loads(text) if text.startswith(("{", "[")) else text

    async def as_rival(self, path: str) -> str:
        async with self.client.get(path, headers=bearer(self.rival_key)) as answer:
            return f"{path}: {dict(answer.headers)} {await answer.text()}"


def found_in(text: str, canaries: list[str]) -> list[str]:
    return [each for each in canaries if each in text]


@pytest.fixture
async def hook() -> AsyncIterator[tuple[str, list[str], Belongings]]:
    """A receiver that fails, with canaries of its own in its answer."""
    own, heard = Belongings(), []

    async def answered(request: web.BaseRequest) -> web.Response:
        body = await request.text()
        heard.append(f"{request.path_qs} {dict(request.headers)} {body}")
        if request.path.startswith("/elsewhere"):
            return web.Response(status=302, headers={"Location": str(request.url)})
        return web.Response(status=500, reason=own.reason, text=f"{own.answer} {body}")

    runner = web.ServerRunner(web.Server(answered, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/", heard, own
    await runner.cleanup()


def issued(folder: Path) -> str:
    """A token that is believed."""
    private = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(ECAlgorithm.to_jwk(private.public_key())) | {"kid": "k"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    claims = {"iss": "i", "aud": "a", "sub": "somebody", "tenant": OWNER, "roles": "admin"}
    until = int(SystemClock().now().timestamp()) + 600
    return jwt.encode(claims | {"exp": until}, private, "ES256", headers={"kid": "k"})


@pytest.fixture
async def stage(
    database_dsn: str,
    database: Database,
    tmp_path: Path,
    processes: list[Process],
    new_node: NewProcess,
    unused_tcp_port: int,
    hook: tuple[str, list[str], Belongings],
) -> AsyncIterator[Stage]:
    for tenant in (OWNER, RIVAL):
        await make_tenant(database, tenant)
    (tmp_path / "canaries.py").write_text(HANDLERS)
    secrets = Secrets(key=(await make_key(database, OWNER))[1])
    secrets.jwt = issued(tmp_path)
    shared: dict[str, Any] = {
        "output_log_level": "debug",
        "targets_allow": "127.0.0.0/8",
        "targets_webhook_secret": secrets.first,
    }
    processes.append(
        Process(
            *(database_dsn, tmp_path, "api", "api"), **shared, api_port=0, auth_enabled="true",
            auth_jwt_issuer="i", auth_jwt_audience="a", auth_jwt_jwks=tmp_path / "jwks.json",
        )
    )  # fmt: skip
    processes[-1].start()
    url = await processes[-1].started()
    node = new_node(
        "node", **shared, api_key=secrets.command, output_metrics_port=unused_tcp_port,
        node_app="canaries:app",
    )  # fmt: skip
    await node.started()
    where, heard, own = hook
    rival_key = (await make_key(database, RIVAL))[1]
    operator_key = (await make_operator(database))[1]
    metrics = f"http://127.0.0.1:{unused_tcp_port}"
    async with aiohttp.ClientSession(url) as client:
        yield Stage(secrets, own, url, metrics, where, heard, rival_key, operator_key, client)


async def test_canaries_are_seen_by_nobody_but_their_owner(
    stage: Stage,
    database_dsn: str,
    tmp_path: Path,
    processes: list[Process],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = await use_it(stage)
    await err(stage)
    paths = await every_path(stage, ids)
    for path in paths:
        await stage.ask("GET", path, most=500)  # not all of them are dead, say

    # They arrived, so they were there to be shown; what is the owner's is shown to the owner.
    secrets, own = stage.secrets, stage.own
    sent = "\n".join(stage.heard)
    arrived = [secrets.authorization, secrets.header, secrets.token, own.payload, own.harmless]
    assert found_in(sent, arrived) == arrived
    shown = "\n".join(stage.seen)
    assert set(found_in(shown, own.all())) >= {
        own.payload, own.harmless, own.path, own.query, own.name, own.tag, own.job, own.answer
    }  # fmt: skip

    problems = [
        f"the owner is shown {leaked}: {text[:2000]}"
        for text in stage.seen
        if (leaked := found_in(text, secrets.all())) and not may_show(text)
    ]
    everything = secrets.all() + own.all()
    for path in paths:
        text = await stage.as_rival(path)
        if leaked := found_in(text.removeprefix(path), [c for c in everything if c not in path]):
            problems.append(f"another tenant is shown {leaked}: {text[:2000]}")
    async for name, text in public(stage):
        if leaked := found_in(text, everything):
            problems.append(f"{name} shows {leaked}")
    for process in processes:
        assert process.text()
        if leaked := found_in(process.text(), everything):
            problems.append(f"the log of {process.name} has {leaked}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", database_dsn)
    monkeypatch.setenv("GNOMON_URL", stage.url)
    monkeypatch.setenv("GNOMON_API_KEY", secrets.key)
    problems += await asyncio.to_thread(lambda: [*commands(stage, ids)])
    assert not problems, "\n".join(problems)


def may_show(text: str) -> bool:
    """What makes a secret shows it, once, and an admin may look at a webhook secret again."""
    return (
        re.match(rf"(POST {API}/(keys|webhook-secrets)|GET {API}/webhook-secrets/)", text)
        is not None
    )


async def use_it(stage: Stage) -> dict[str, str]:
    """Submit, fail, retry, dead-letter, recur; gives an id of each kind."""
    ask, own, secrets = stage.ask, stage.own, stage.secrets
    webhook = await ask("POST", f"{API}/webhook-secrets", {})
    secrets.webhook = webhook["secret"]
    reader = await ask("POST", f"{API}/keys", {"name": "reader", "roles": ["read"]})
    secrets.reader = reader["key"]
    await ask("PUT", f"{API}/task-types/typed", {"schema": {"required": [own.schema]}})
    first = await ask("POST", f"{API}/tasks", stage.task(), once=own.idempotency)
    await ask("POST", f"{API}/tasks", stage.task(), once=own.idempotency)  # given again
    await ask("POST", f"{API}/tasks", stage.task(name="by token"), key=secrets.jwt)
    batch = [stage.task(), stage.task(delay_seconds=3600)]
    made = await ask("POST", f"{API}/tasks/batch", {"tasks": batch})
    later = made["tasks"][1]["task_id"]
    looked = await ask("GET", f"{API}/tasks/{later}")
    await ask("PATCH", f"{API}/tasks/{later}", {"target": looked["target"] | {"method": "PUT"}})
    ends = [first["task_id"]]
    for url in ("http://127.0.0.1:9/", f"{stage.hook}elsewhere/"):  # nobody, and a redirect
        target = stage.target
        target["url"] = target["url"].replace(stage.hook, url)
        made = await ask("POST", f"{API}/tasks", stage.task(target=target))
        ends.append(made["task_id"])
    functions = {}
    for name in ("environment", "fails"):
        target = {"type": "python", "function": name}
        task = await ask("POST", f"{API}/tasks", stage.task(target=target, task_type=name))
        functions[name] = task["task_id"]
    job = stage.task(name=own.job, cron_expression="0 3 * * *")
    job["payload_template"] = job.pop("payload")
    made = await ask("POST", f"{API}/cron-jobs", job)
    await ask("PUT", f"{API}/cron-jobs/{own.job}?dry_run=true", job | {"timezone": "CET"})
    run = await ask("POST", f"{API}/cron-jobs/{own.job}/trigger")
    for task_id in (*ends, functions["fails"], run["run_id"]):
        await status(stage, task_id, "DEAD_LETTERED")
    await status(stage, functions["environment"], "COMPLETED")
    await ask("POST", f"{API}/dead-letters/{run['run_id']}/retry")
    await status(stage, run["run_id"], "DEAD_LETTERED")
    started = await use_workflows(stage)
    channel = {"type": "slack", "url": f"{stage.hook}{secrets.chat}"}
    told = {"kinds": ["tasks.*"], "channel": channel}
    await ask("PUT", f"{API}/subscriptions/typed", told)
    notified = await ask("POST", f"{API}/subscriptions/typed/test")
    asked = {"action": "archive", "filter": {"task_type": "no such type"}, "note": "nothing"}
    bulk = await stage.ask("POST", f"{API}/bulk-operations", asked)
    batch = await stage.ask("POST", f"{API}/batches", {"on_complete": stage.task()})
    await stage.ask("POST", f"{API}/tasks", stage.task(batch_id=batch["batch_id"]))
    await stage.ask("POST", f"{API}/batches/{batch['batch_id']}/close")
    return {
        "task_id": first["task_id"],
        "operation_id": bulk["operation_id"],
        "notification_id": notified["notification_id"],
        "nowhere": ends[1],
        "elsewhere": ends[2],
        "ref": made["cron_job_id"],
        "key_id": reader["key_id"],
        "secret_id": webhook["secret_id"],
        "tenant_id": OWNER,
        "name": "typed",
        "run_id": started,
        "batch_id": batch["batch_id"],
        "node": "calls",
        "environment": functions["environment"],
        "fails": functions["fails"],
        "later": later,
    }


async def use_workflows(stage: Stage) -> str:
    """Run one whose only node fails and counts as succeeded; gives the run's id."""
    node = stage.task(on_failure="continue")
    given = {"input": {"card": stage.own.payload}}
    await stage.ask("POST", f"{API}/workflows", {"name": "typed", "nodes": {"calls": node}})
    run = await stage.ask("POST", f"{API}/workflows/typed/runs", given)

    async def ended() -> bool:
        found = await stage.ask("GET", f"{API}/workflow-runs/{run['run_id']}")
        return found["finished_at"] is not None

    await eventually(ended)
    return str(run["run_id"])


async def status(stage: Stage, task_id: str, wanted: str) -> None:
    """Wait until it is so."""

    async def reached() -> bool:
        return bool((await stage.ask("GET", f"{API}/tasks/{task_id}"))["status"] == wanted)

    await eventually(reached)


async def err(stage: Stage) -> None:
    """Requests that are wrong, with secrets in them: the answer goes to logs and terminals."""
    target, secrets = stage.target, stage.secrets
    credentials = f"http://{secrets.user}:{secrets.password}@"
    wrong: list[Any] = [
        target | {"url": target["url"].replace("http://", credentials)},
        target | {"url": target["url"].replace("http:", "ftp:")},
        target | {"url": target["url"].replace("127.0.0.1", "127.0.0.1 x")},
        target | {"url": target["url"] + "\n"},
        target | {"url": target["url"].replace("127.0.0.1", "169.254.169.254")},
        target | {"headers": {"X Y": secrets.header}},
        target | {"headers": {"X-Partner": f"{secrets.header}\n"}},
        target | {"headers": {"Host": secrets.header}},
        target | {"headers": [secrets.header]},
        target | {"headers": {"X-Partner": {"value": secrets.header}}},
        target | {"url": target["url"].replace("127.0.0.1", f"{secrets.user}:{secrets.password}")},
        target | {"url": target["url"].replace("127.0.0.1", f"[{secrets.password}")},
        target | {"type": "python"},
        target["url"],
    ]
    for each in wrong:
        await stage.ask("POST", f"{API}/tasks", stage.task(target=each), most=500)
        job = {"name": "x", "task_type": "t", "cron_expression": "0 3 * * *", "target": each}
        await stage.ask("POST", f"{API}/cron-jobs", job, most=500)
    callback = target["url"].replace("http:", "gopher:")
    await stage.ask("POST", f"{API}/tasks", {"task_type": "t", "callback_url": callback}, most=500)
    for key in (secrets.key[:-1], f"{secrets.jwt}x"):
        await stage.ask("GET", f"{API}/tasks", key=key, most=500)


async def every_path(stage: Stage, ids: dict[str, str]) -> list[str]:
    """What can be read, from the document: a new operation is looked at as soon as it is there."""
    document = await stage.ask("GET", f"{API}/openapi.json")
    paths = []
    for path, methods in document["paths"].items():
        if "get" not in methods or "docs" in path:
            continue
        if "text/event-stream" in methods["get"]["responses"]["200"]["content"]:
            continue  # it has no end; its events are those of a list that is looked at
        choices = [ids]
        if "{task_id}" in path:
            names = ("task_id", "nowhere", "elsewhere", "fails", "later", "environment")
            choices = [ids | {"task_id": ids[name]} for name in names]
        # Names in braces, as str.format has them.
        paths += [path.format_map(choice) for choice in choices]
    return paths


async def public(stage: Stage) -> AsyncIterator[tuple[str, str]]:
    """What is there for whoever watches over the installation."""
    for name, url in (("the API", stage.url), ("the node", stage.metrics)):
        headers = bearer(stage.operator_key)
        async with stage.client.get(f"{url}/metrics", headers=headers) as answer:
            text = await answer.text()
            assert "gnomon_" in text, text
            yield f"/metrics of {name}", text
    for path in ("/healthz", "/readyz"):
        async with stage.client.get(path) as answer:
            yield path, await answer.text()


def commands(stage: Stage, ids: dict[str, str]) -> Iterator[str]:
    """What is wrong with what commands print: those of the owner, and those of the operator."""
    task, own = ids["task_id"], stage.own
    Path("job.toml").write_text(
        f'[[job]]\nname = "{own.job}"\ntask_type = "t"\ncron_expression = "0 4 * * *"\n'
        f'target = {{type = "http", url = "{stage.target["url"]}", '
        f'headers = {{X-Partner = "{stage.secrets.header}"}}}}\n'
    )
    of_owner: list[list[str]] = [
        ["tasks", "list"], ["tasks", "show", task], ["tasks", "show", ids["fails"]],
        ["tasks", "explain", ids["later"]], ["dead", "list"], ["dead", "show", task],
        ["cron", "list"], ["cron", "show", own.job], ["cron", "runs", own.job],
        ["cron", "sync", "job.toml", "--dry-run"], ["events"], ["types", "list"],
        ["limits", "list"], ["usage"], ["keys", "list"], ["secrets", "list"],
        ["workflows", "list"], ["workflows", "show", "typed"], ["workflows", "runs", "list"],
        ["workflows", "runs", "show", ids["run_id"]], ["batches", "list"],
        ["batches", "show", ids["batch_id"]],
    ]  # fmt: skip
    of_operator: list[list[str]] = [
        ["nodes"], ["tenants", "list"], ["keys", "list", "--operator"], ["usage", "--all"],
        ["doctor"], ["migrate", "status"],
    ]  # fmt: skip
    Path("operator.key").write_text(stage.operator_key)
    secrets = stage.secrets.all()
    printed = ""
    for command in of_owner + of_operator:
        for json_too in ([], ["--json"]):
            key_file = ["--key-file", "operator.key"] if command in of_operator else []
            done = gnomon_here(*key_file, *command, *json_too)
            text = done.out + done.err
            assert done.code in (0, 1), (command, text)
            printed += text
            hidden = secrets if command in of_owner else secrets + own.all()
            if leaked := found_in(text, hidden):
                yield f"{' '.join([*command, *json_too])} prints {leaked}: {text[:2000]}"
    assert found_in(printed, [own.payload, own.name, own.job]) == [own.payload, own.name, own.job]
    Path("headers").write_text(f"X-Partner: {stage.secrets.header}\n")
    wrong = stage.target["url"].replace("http:", "ftp:")
    refused = gnomon_here("submit", wrong, "--header", "@headers")
    assert refused.code == 1
    if leaked := found_in(refused.out + refused.err, secrets):
        yield f"submit prints {leaked}: {refused.out}{refused.err}"
