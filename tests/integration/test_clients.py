"""Both clients against the real API."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from tests.conftest import serving
from tests.integration.clients import KINDS, EitherClient, client_at
from tests.integration.identity import make_key, make_operator
from tests.integration.nodes import running_node

from gnomon import (
    BackfillSpec,
    BatchProgress,
    BulkSpec,
    Client,
    Conflict,
    CronJobEdit,
    CronJobSpec,
    Forbidden,
    HttpTarget,
    InvalidRequest,
    KeySpec,
    LimiterSpec,
    NotFound,
    OperatorKeySpec,
    Priority,
    PythonTarget,
    QuotasSpec,
    RetryPolicy,
    Role,
    ScheduleSpec,
    Status,
    SubmittedTask,
    SyncClient,
    TaskEdit,
    TaskInfo,
    TaskSpec,
    TenantEdit,
    TenantSpec,
    TypeDefaultsSpec,
    Unauthorized,
    WaitTimeout,
    WebhookSecretSpec,
)
from gnomon.store.postgres.database import Database

URL = "http://127.0.0.1:9/hook"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(params=KINDS)
async def client(request: Any, api: aiohttp.ClientSession) -> AsyncIterator[EitherClient]:
    async with client_at(request.param, api._base_url) as either:
        yield either


def later(**fields: Any) -> TaskSpec:
    return TaskSpec(task_type="x", callback_url=URL, delay_seconds=3600, **fields)


async def test_a_task_from_submission_to_removal(client: EitherClient) -> None:
    spec = TaskSpec(
        task_type="mail",
        target=HttpTarget("http://example.com/hook", headers={"X-Of": "ours"}),
        payload={"to": "ü", "n": [1, None]},
        priority=Priority.HIGH,
        retry_policy=RetryPolicy(max_retries=1),
        tags=("a", "b"),
        delay_seconds=3600,
    )
    task = await client.ask("submit_task", spec)
    assert isinstance(task, TaskInfo)
    assert (task.status, task.payload, task.tags) == (Status.SCHEDULED, spec.payload, ("a", "b"))
    assert task.retry_policy == spec.retry_policy
    assert await client.ask("get_task", task.task_id) == task
    assert await client.all_of("list_tasks", tag="a", due_after=datetime.now(UTC)) == [task]
    assert await client.all_of("list_tasks", status=Status.RUNNING) == []
    assert await client.all_of("list_executions", task.task_id, outcome="failed") == []
    detail = await client.ask("get_task", task.task_id, wait=0.01, include="executions")
    assert (detail.task_id, detail.executions) == (task.task_id, [])
    assert (await client.ask("explain_task", task.task_id)).task == task
    assert (await client.ask("pause_task", task.task_id)).status is Status.PAUSED
    assert (await client.ask("resume_task", task.task_id)).status is Status.SCHEDULED
    changed = await client.ask("patch_task", task.task_id, TaskEdit(name="n", payload=None))
    assert (changed.name, changed.payload, changed.tags) == ("n", None, ("a", "b"))
    assert (await client.ask("cancel_task", task.task_id)).status is Status.CANCELLED
    again = await client.ask("retry_task", task.task_id)
    assert again.retry_of == task.task_id
    await client.ask("delete_task", task.task_id)
    with pytest.raises(NotFound) as raised:
        await client.ask("get_task", task.task_id)
    assert raised.value.type == "urn:gnomon:problem:not-found"


async def test_errors_say_what_and_where(client: EitherClient) -> None:
    with pytest.raises(InvalidRequest) as raised:
        await client.ask("submit_task", TaskSpec(task_type="x", timeout_seconds=0))
    assert raised.value.errors[0].pointer == "/timeout_seconds"
    task = await client.ask("submit_task", later())
    with pytest.raises(Conflict):
        await client.ask("resume_task", task.task_id)


async def test_dead_letters(client: EitherClient) -> None:
    assert await client.all_of("list_dead_letters", task_type="x") == []
    for name in ("get", "retry", "archive", "discard"):
        with pytest.raises(NotFound):
            await client.ask(f"{name}_dead_letter", UUID(int=7))


async def test_bulk_operations(client: EitherClient) -> None:
    await client.ask("submit_task", later())
    seen = await client.ask("create_bulk_operation", BulkSpec(action="cancel", dry_run=True))
    assert (seen.operation_id, seen.total, len(seen.examples)) == (None, 1, 1)
    wanted = BulkSpec(action="cancel", filter={"status": "SCHEDULED"}, expect=1)
    begun = await client.ask("create_bulk_operation", wanted)
    assert [each.operation_id for each in await client.all_of("list_bulk_operations")] == [
        begun.operation_id
    ]
    assert (await client.ask("get_bulk_operation", begun.operation_id)).done == 0
    assert (await client.ask("stop_bulk_operation", begun.operation_id)).status == "STOPPED"


async def test_a_cron_job_from_declaration_to_removal(client: EitherClient) -> None:
    name = "nightly 50%"
    spec = CronJobSpec(name=name, task_type="x", callback_url=URL, cron_expression="0 0 * * *")
    job = await client.ask("create_cron_job", spec)
    assert await client.ask("get_cron_job", name) == job
    assert await client.all_of("list_cron_jobs", name="night", paused=False) == [job]
    assert (await client.ask("put_cron_job", name, spec)).change == "unchanged"
    spec.max_runs = 9
    foreseen = await client.ask("put_cron_job", name, spec, dry_run=True)
    assert (foreseen.change, foreseen.fields["max_runs"].after) == ("changed", 9)
    patched = await client.ask("patch_cron_job", name, CronJobEdit(max_runs=8))
    assert patched.max_runs == 8
    assert (await client.ask("pause_cron_job", name, "why")).pause_reason == "why"
    assert (await client.ask("resume_cron_job", name)).status == "active"
    run = await client.ask("trigger_cron_job", name, idempotency_key="k")
    assert await client.ask("trigger_cron_job", name, idempotency_key="k") == run
    now = datetime.now(UTC)
    past = BackfillSpec(first=now - timedelta(days=3), last=now - timedelta(days=1))
    assert len((await client.ask("backfill_cron_job", name, past)).planned) == 2
    kinds = [each.kind for each in await client.all_of("list_cron_runs", name)]
    assert kinds == ["manual", "backfill", "backfill"]
    preview = await client.ask("preview_cron_job", ScheduleSpec(interval_seconds=60, count=2))
    assert len(preview.fires) == 2
    await client.ask("delete_cron_job", name)
    with pytest.raises(NotFound, match="no cron job"):
        await client.ask("get_cron_job", name)


async def test_limiters_types_usage_and_the_tenant(client: EitherClient) -> None:
    limiter = await client.ask("put_limiter", "l", LimiterSpec(concurrency=2))
    assert await client.ask("list_limiters") == [limiter]
    assert (await client.ask("get_limiter", "l")).concurrency == 2
    await client.ask("delete_limiter", "l")
    defaults = TypeDefaultsSpec(
        timeout_seconds=5, retry_policy=RetryPolicy(max_retries=7), priority=Priority.LOW
    )
    kind = await client.ask("put_task_type", "t", {"type": "object"}, defaults)
    assert kind.defaults == defaults
    assert await client.ask("get_task_type", "t") == kind
    assert [each.name for each in await client.ask("list_task_types")] == ["t"]
    await client.ask("delete_task_type", "t")
    today = datetime.now(UTC).date()
    assert (await client.ask("get_usage", first=today, last=today)).first == today
    assert (await client.ask("get_tenant")).tenant_id == "default"
    assert await client.all_of("list_events") == []
    assert await client.ask("list_webhook_keys", "default") == []


@pytest.mark.parametrize("kind", KINDS)
async def test_keys_and_secrets(kind: str, database: Database, database_dsn: str) -> None:
    _, admin = await make_key(database)
    async with (
        serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as api,
        client_at(kind, api._base_url, key=admin) as client,
    ):
        roles = [Role.SUBMIT, Role.OPERATE]
        key = await client.ask("create_key", KeySpec(name="s", roles=roles))
        rotated = await client.ask("rotate_key", key.key_id, overlap_seconds=0)
        assert {each.name for each in await client.all_of("list_keys")} >= {"s"}
        async with client_at(kind, api._base_url, key=rotated.key) as submitter:
            made = await submitter.ask("submit_task", later())
            paused = await submitter.ask("pause_task", made.task_id)
            assert paused == SubmittedTask(task_id=made.task_id, status=Status.PAUSED)
            with pytest.raises(Forbidden):
                await submitter.ask("get_task", made.task_id)
        await client.ask("revoke_key", rotated.key_id, cascade=True)
        secret = await client.ask("create_webhook_secret", WebhookSecretSpec(host="a.example"))
        assert (await client.ask("show_webhook_secret", secret.secret_id)).secret == secret.secret
        newer = await client.ask("rotate_webhook_secret", secret.secret_id, overlap_seconds=60)
        listed = await client.ask("list_webhook_secrets")
        assert newer.secret_id in {each.secret_id for each in listed}
        await client.ask("revoke_webhook_secret", secret.secret_id)
        async with client_at(kind, api._base_url, key="wrong") as stranger:
            with pytest.raises(Unauthorized):
                await stranger.ask("get_tenant")


@pytest.mark.parametrize("kind", KINDS)
async def test_operators(kind: str, database: Database, database_dsn: str) -> None:
    _, operator = await make_operator(database)
    async with (
        serving(database_dsn, auth_enabled=True) as api,
        client_at(kind, api._base_url, key=operator) as client,
    ):
        spec = TenantSpec(tenant_id="acme", quotas=QuotasSpec(cron_jobs=5, stored_bytes=None))
        made = await client.ask("create_tenant", spec)
        assert (made.quotas.cron_jobs, made.quotas.stored_bytes) == (5, None)
        shown = await client.ask("show_tenant", "acme")
        assert (shown.tenant_id, shown.quotas) == (made.tenant_id, made.quotas)
        assert shown.use.cron_jobs in (0, None)
        edit = TenantEdit(weight=2.0, quotas=QuotasSpec(cron_jobs="plan"))
        changed = await client.ask("patch_tenant", "acme", edit)
        assert (changed.weight, changed.own_quotas) == (2.0, {"stored_bytes": None})
        assert changed in await client.all_of("list_tenants")
        await client.ask("delete_tenant", "acme")
        assert {plan.name for plan in await client.ask("list_plans")} >= {"standard"}
        assert (await client.ask("list_nodes")).nodes == []
        assert await client.all_of("list_tenant_usage") == []
        key = await client.ask("create_operator_key", OperatorKeySpec(name="o"))
        newer = await client.ask("rotate_operator_key", key.key_id, overlap_seconds=0)
        await client.ask("revoke_operator_key", newer.key_id)
        assert len(await client.all_of("list_operator_keys")) == 3


async def test_lists_end_at_their_limit_and_can_be_read_by_pages(
    api: aiohttp.ClientSession,
) -> None:
    async with Client(str(api._base_url)) as client:
        made = await client.submit_batch([later() for _ in range(7)])
        newest = sorted((task.task_id for task in made), reverse=True)
        assert [task.task_id async for task in client.list_tasks(limit=3)] == newest[:3]
        pages = [page async for page in client.list_tasks(limit=2).pages()]
        assert [task.task_id for page in pages for task in page.items] == newest[:2]
        rest = client.list_tasks(cursor=pages[0].next_cursor)
        assert [task.task_id async for task in rest] == newest[2:]


async def test_many_tasks_are_submitted_a_batch_at_a_time(client: EitherClient) -> None:
    produced = 0
    seen: list[BatchProgress] = []
    ahead: list[int] = []

    def specs() -> Iterator[TaskSpec]:
        nonlocal produced
        for number in range(25):
            produced += 1
            yield later(payload=number)

    def progress(done: BatchProgress) -> None:
        seen.append(done)
        ahead.append(produced - done.submitted)

    assert await client.ask("submit_many", specs(), batch_size=10, progress=progress) == 25
    assert [(each.submitted, len(each.batch)) for each in seen] == [(10, 10), (20, 10), (25, 5)]
    assert max(ahead) == 0  # a generator of any length needs the memory of one batch
    tasks = await client.all_of("list_tasks")
    assert sorted(task.payload for task in tasks) == list(range(25))


async def test_a_run_of_batches_can_be_repeated_after_a_failure(client: EitherClient) -> None:
    good = [later(payload=number) for number in range(4)]
    bad = [*good[:3], TaskSpec(task_type="x", timeout_seconds=0)]
    with pytest.raises(InvalidRequest) as raised:
        await client.ask("submit_many", bad, batch_size=2, idempotency_key="import-7")
    assert raised.value.__notes__ == ["2 tasks were submitted; the batch after them was not"]
    assert raised.value.errors[0].pointer == "/tasks/1/timeout_seconds"
    for _ in range(2):
        await client.ask("submit_many", good, batch_size=2, idempotency_key="import-7")
    assert len(await client.all_of("list_tasks")) == 4


async def test_tasks_may_come_from_an_async_iterable(api: aiohttp.ClientSession) -> None:
    async def specs() -> AsyncIterator[TaskSpec]:
        for number in range(5):
            yield later(payload=number)

    sizes: list[int] = []
    async with Client(str(api._base_url)) as client:
        await client.submit_many(
            specs(), batch_size=2, progress=lambda done: sizes.append(len(done.batch))
        )
        assert sizes == [2, 2, 1]
        assert {task.payload async for task in client.list_tasks()} == set(range(5))


@pytest.mark.parametrize("size", [0, 10_001])
def test_a_batch_that_the_api_would_refuse_is_refused_at_once(size: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 10000"):
        SyncClient("http://127.0.0.1:9").submit_many([], batch_size=size)


BAR = """
from gnomon import SyncClient, TaskSpec
specs = [TaskSpec(task_type="x", callback_url="http://127.0.0.1:9", delay_seconds=60)] * 1500
SyncClient().submit_many(specs, progress=True)
"""


@pytest.mark.parametrize("terminal", [True, False])
async def test_progress_is_a_bar_on_a_terminal_and_nothing_elsewhere(
    api: aiohttp.ClientSession, *, terminal: bool
) -> None:
    outer, inner = os.openpty()
    done = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        BAR,
        env={"GNOMON_URL": str(api._base_url), "TERM": "xterm", "COLUMNS": "80"},
        stdout=inner if terminal else asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(inner)
    try:
        printed, errors = await done.communicate()
        assert (done.returncode, errors) == (0, b"")
        if terminal:
            assert "1,500 tasks" in os.read(outer, 65536).decode()
        else:
            assert printed == b""
    finally:
        os.close(outer)


async def test_large_tasks_make_smaller_batches(client: EitherClient) -> None:
    sizes: list[int] = []
    large = (later(payload="x" * 200_000) for _ in range(50))
    await client.ask("submit_many", large, progress=lambda done: sizes.append(len(done.batch)))
    assert sizes == [41, 9]


async def test_waiting_for_a_task(client: EitherClient, database_dsn: str) -> None:
    task = await client.ask("submit_task", later())
    with pytest.raises(WaitTimeout, match="still SCHEDULED") as raised:
        await client.ask("wait", task.task_id, timeout=0.1)
    assert isinstance(raised.value, TimeoutError)
    spec = TaskSpec(
        task_type="x",
        target=PythonTarget("nobody knows it"),
        retry_policy=RetryPolicy(max_retries=0),
    )
    async with running_node(database_dsn):
        failing = await client.ask("submit_task", spec)
        ended = await client.ask("wait", failing.task_id, timeout=60)
    assert ended.status is Status.DEAD_LETTERED


@asynccontextmanager
async def cutting_proxy(url: Any, cuts: int) -> AsyncIterator[str]:
    """Passes requests on, and drops the first answers together with their connections."""
    left = cuts

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        from_api, to_api = await asyncio.open_connection(url.host, url.port)
        up = asyncio.create_task(_pump(reader, to_api))
        try:
            while data := await from_api.read(65536):
                if left:
                    left -= 1
                    break
                writer.write(data)
                await writer.drain()
        finally:
            up.cancel()
            writer.close()
            to_api.close()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@pytest.mark.parametrize("kind", KINDS)
async def test_answers_that_are_lost_do_not_double_the_effect(
    kind: str, api: aiohttp.ClientSession
) -> None:
    async with (
        cutting_proxy(api._base_url, cuts=2) as url,
        client_at(kind, url) as client,
    ):
        task = await client.ask("submit_task", later())
        assert [each.task_id for each in await client.all_of("list_tasks")] == [task.task_id]
    async with cutting_proxy(api._base_url, cuts=1) as url, client_at(kind, url) as client:
        await client.ask("delete_task", task.task_id)
    async with cutting_proxy(api._base_url, cuts=1) as url, client_at(kind, url) as client:
        assert await client.ask("submit_many", [later(), later()]) == 2
        assert len(await client.all_of("list_tasks")) == 2


FORK = """
import os, sys
from gnomon import SyncClient, TaskSpec

client = SyncClient()
def submitted(n):
    spec = TaskSpec(task_type="x", callback_url="http://127.0.0.1:9", delay_seconds=60, payload=n)
    return client.submit_task(spec).task_id
ids = [submitted(0), submitted(1)]  # a connection is open now
children = []
for who in (0, 1):
    child = os.fork()
    if child == 0:
        found = [client.get_task(ids[who]) for _ in range(20)]
        os._exit(0 if all(task.payload == who for task in found) else 1)
    children.append(child)
assert all(client.get_task(ids[0]).payload == 0 for _ in range(20))
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


async def test_a_client_works_on_both_sides_of_a_fork(api: aiohttp.ClientSession) -> None:
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORK, env={"GNOMON_URL": str(api._base_url)}
    )
    assert await done.wait() == 0


# Loops that asyncio.run ends, and loops that are just closed.
LOOPS = """
import asyncio, gc, os
from gnomon import Client

def files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

client = Client()
asyncio.run(client.get_tenant())
before = files()
for _ in range(20):
    asyncio.run(client.get_tenant())
assert files() == before, (before, files())
for _ in range(20):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.get_tenant())
    loop.close()
assert files() <= before + 1, (before, files())
"""


async def test_connections_end_with_their_event_loop(api: aiohttp.ClientSession) -> None:
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOOPS, env={"GNOMON_URL": str(api._base_url)}
    )
    assert await done.wait() == 0


async def test_the_page_about_the_client_runs_as_it_stands(api: aiohttp.ClientSession) -> None:
    page = (DOCS / "how-to" / "use-the-python-client.md").read_text()
    script = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    done = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        env={"GNOMON_URL": str(api._base_url)},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await done.communicate()
    assert done.returncode == 0
    lines = printed.decode().splitlines()
    assert [line for line in lines if line.isdigit()] == ["1000", "2000", "2500"]
    assert any("still SCHEDULED" in line for line in lines)
    assert any(line.startswith("/timeout_seconds ") for line in lines)
    assert lines[-1].startswith("nightly ")


def test_a_client_works_in_one_event_loop_after_another(unused_tcp_port: int) -> None:
    client = Client(f"http://127.0.0.1:{unused_tcp_port}")

    async def ready() -> bool:
        try:
            return await client.ready()
        finally:
            await client.close()

    assert [asyncio.run(ready()) for _ in range(2)] == [False, False]


async def test_the_address_and_the_key_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, database: Database, database_dsn: str
) -> None:
    _, key = await make_key(database)
    async with serving(database_dsn, auth_enabled=True) as api:
        monkeypatch.setenv("GNOMON_URL", f"{str(api._base_url).rstrip('/')}/api/v1/")
        monkeypatch.setenv("GNOMON_API_KEY", key)
        async with Client() as client:
            assert (await client.get_tenant()).tenant_id == "default"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://user:secret@host"])
def test_an_address_that_cannot_be_one_is_refused_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"^the address must be like http"):
        SyncClient(url)
    monkeypatch.setenv("GNOMON_URL", url)
    with pytest.raises(ValueError, match=r"^GNOMON_URL: the address must be like http"):
        SyncClient()


@pytest.mark.parametrize(
    "key", ["gn_topsecret\r", "gn_top\nsecret", "gn_töpsecret", "gn_ topsecret"]
)
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_API_KEY", key)
    for given in (None, key):
        with pytest.raises(ValueError, match="GNOMON_API_KEY") as caught:
            SyncClient("http://127.0.0.1:1", key=given)
        assert "secret" not in str(caught.value)


def test_the_former_variable_of_the_address_is_told_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GNOMON_API_URL", "http://127.0.0.1:8080")
    with pytest.raises(ValueError, match="GNOMON_API_URL is now GNOMON_URL"):
        SyncClient()
    SyncClient("http://127.0.0.1:8080").close()
