"""Remote workers in three languages against real gateways: API processes on a real PostgreSQL."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from proof.campaigns.proxy import Proxy
from tests.commands import gnomon
from tests.integration.identity import make_key
from tests.system.example_workers import ExampleWorker, example_worker, go_worker, node_worker
from tests.system.harness import PATIENCE, Process, Submitter, Truth, eventually

from gnomon.access.principal import Role
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.store.postgres.database import Database

pytestmark = pytest.mark.system

LEASE = 3.0  # seconds, of a session
SHOP = """
import asyncio, time
from pathlib import Path
from gnomon import Gnomon, Reject, TaskContext

app = Gnomon()
RUNS = Path(__file__).parent / "runs"


def ran(ctx: TaskContext) -> None:
    with RUNS.open("a") as file:
        file.write(f"{ctx.task_id} {ctx.fence}\\n")

@app.task(name="py.greet")
async def greet(ctx: TaskContext, name: str) -> str:
    ran(ctx)
    await asyncio.sleep(0.05)
    return f"hello {name}"

@app.task(name="py.fail")
async def fail(reason: str) -> None:
    raise Reject(reason)

@app.task(name="py.count")
async def count(ctx: TaskContext, seconds: int) -> int:
    ran(ctx)
    for second in range(seconds):
        ctx.progress(second / seconds, f"{second} s")
        await asyncio.sleep(1)
    return seconds

@app.task(name="py.block")
async def block(seconds: float) -> None:
    time.sleep(seconds)
"""

LANGUAGES = ("py", "js", "go")

Start = Callable[..., ExampleWorker]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], list[str]]:
    """The command of the worker in Go, built when it is asked for."""
    return cache(lambda: go_worker(tmp_path_factory.mktemp("go")))


@pytest.fixture
def start_worker(tmp_path: Path, built: Callable[[], list[str]]) -> Iterator[Start]:
    """Start a worker of a language at a gateway; all are killed in the end."""
    (tmp_path / "shop.py").write_text(SHOP)

    def command(language: str) -> list[str]:
        if language == "js":
            return node_worker()
        if language == "go":
            return built()
        return [sys.executable, "-m", "gnomon", "worker", "shop:app"]

    with ExitStack() as stack:

        def start(language: str, url: str, **env: str) -> ExampleWorker:
            env = {"GNOMON_URL": url, "SLOTS": "20", "GNOMON_NODE_SLOTS": "20", **env}
            return stack.enter_context(example_worker(command(language), tmp_path, **env))

        yield start


@pytest.fixture
def new_gateway(database_dsn: str, tmp_path: Path, processes: list[Process]) -> Callable[..., Any]:
    """Start an API process that keeps its port over restarts."""

    async def start(name: str = "api", **settings: object) -> tuple[Process, str]:
        port = free_port()
        given = {"api_port": port, "gateway_lease_seconds": LEASE, **settings}
        api = Process(database_dsn, tmp_path, name, "api", **given)
        processes.append(api)
        api.start()
        return api, await api.started()

    return start


async def started(*workers: ExampleWorker, count: int = 1) -> None:
    async def said() -> bool:
        for worker in workers:
            assert worker.process.poll() is None, worker.text
        return all(worker.text.count("worker started") >= count for worker in workers)

    await eventually(said)


async def begun(truth: Truth, task: UUID) -> None:
    """Until its handler runs: it says how far it is."""

    async def told() -> bool:
        found = await truth.fetch("SELECT 1 FROM gnomon.progress WHERE task_id = $1", task)
        return bool(found)

    await eventually(told)


async def completed(truth: Truth, ids: list[UUID]) -> None:
    await eventually(lambda: truth.completed(ids), PATIENCE)


async def attempts(truth: Truth, ids: list[UUID]) -> set[int]:
    rows = await truth.fetch("SELECT attempt FROM gnomon.task_archive WHERE id = ANY ($1)", ids)
    return {row["attempt"] for row in rows}


async def test_they_run_tasks_and_their_errors_are_kept(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    _, url = await new_gateway()
    await started(*(start_worker(language, url) for language in LANGUAGES))
    ids, bad = [], []
    for language in LANGUAGES:
        greet, fail = PythonTarget(f"{language}.greet"), PythonTarget(f"{language}.fail")
        ids += await submitter.submit(greet, 200, payload=b'{"name": "Ada"}')
        bad += await submitter.submit(fail, 1, payload=b'{"reason": "why"}')
    await completed(truth, ids)
    rows = await truth.fetch(
        "SELECT DISTINCT result #>> '{}' AS result FROM gnomon.task_archive WHERE id = ANY ($1)",
        ids,
    )
    assert [row["result"] for row in rows] == ["hello Ada"]
    assert await attempts(truth, ids) == {1}

    async def dead() -> bool:
        found = await truth.fetch("SELECT state FROM gnomon.task WHERE id = ANY ($1)", bad)
        return [row["state"] for row in found] == [State.DEAD] * len(LANGUAGES)

    await eventually(dead)
    errors = await truth.fetch("SELECT last_error FROM gnomon.task WHERE id = ANY ($1)", bad)
    assert ["why" in row["last_error"] for row in errors] == [True] * len(LANGUAGES)


async def counting(submitter: Submitter, truth: Truth, seconds: int) -> list[UUID]:
    """A task of each language that runs so long, once its handler does."""
    ids = []
    for language in LANGUAGES:
        payload = b'{"seconds": %d}' % seconds
        ids += await submitter.submit(PythonTarget(f"{language}.count"), 1, payload=payload)
    for task in ids:
        await begun(truth, task)
    return ids


async def test_what_killed_workers_ran_runs_elsewhere(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    _, url = await new_gateway()
    first = [start_worker(language, url) for language in LANGUAGES]
    await started(*first)
    ids = await counting(submitter, truth, 4)
    for worker in first:
        worker.process.kill()
    await started(*(start_worker(language, url) for language in LANGUAGES))
    await completed(truth, ids)
    assert await attempts(truth, ids) == {2}


async def test_those_that_were_stopped_beyond_their_lease_open_new_sessions(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    _, url = await new_gateway()
    workers = [start_worker(language, url) for language in LANGUAGES]
    await started(*workers)
    ids = await counting(submitter, truth, 4)
    fences = "SELECT id, fence FROM gnomon.task WHERE id = ANY ($1)"
    before = {row["id"]: row["fence"] for row in await truth.fetch(fences, ids)}
    for worker in workers:
        os.kill(worker.process.pid, signal.SIGSTOP)

    async def taken_back() -> bool:
        return all(row["fence"] > before[row["id"]] for row in await truth.fetch(fences, ids))

    await eventually(taken_back)
    for worker in workers:
        os.kill(worker.process.pid, signal.SIGCONT)
    await started(*workers, count=2)
    await completed(truth, ids)
    assert await attempts(truth, ids) == {2}


async def test_sigterm_drains(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    _, url = await new_gateway()
    workers = [start_worker(language, url) for language in LANGUAGES]
    await started(*workers)
    ids = await counting(submitter, truth, 2)
    for worker in workers:
        worker.process.send_signal(signal.SIGTERM)
    for worker in workers:
        assert await asyncio.to_thread(worker.process.wait, PATIENCE) == 0, worker.text
    assert await truth.completed(ids), "what runs is waited for"
    assert await attempts(truth, ids) == {1}
    assert all("worker" not in name for name in (await truth.living()).values())


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    async with Proxy(("127.0.0.1", int(url.rpartition(":")[2])), of_postgres=False) as proxy:
        yield proxy


async def test_cut_connections_and_lost_answers_repeat_nothing(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    _, url = await new_gateway()
    ids: list[UUID] = []
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(proxied(url)) for _ in LANGUAGES]
        workers = [
            start_worker(language, f"http://127.0.0.1:{proxy.port}")
            for language, proxy in zip(LANGUAGES, proxies, strict=True)
        ]
        await started(*workers)
        for turn in range(8):
            for language in LANGUAGES:
                target = PythonTarget(f"{language}.greet")
                ids += await submitter.submit(target, 100, payload=b'{"name": "Ada"}')
            await asyncio.sleep(0.15)
            for proxy in proxies:
                if turn % 2:
                    proxy.cut()
                else:
                    proxy.lose_answers(2)
        for proxy in proxies:
            proxy.lose_answers(0)
        await completed(truth, ids)
    assert await attempts(truth, ids) == {1}
    assert [worker.text.count("worker started") for worker in workers] == [1, 1, 1]
    assert len((tmp_path / "runs").read_text().splitlines()) == len(ids) // 3


async def test_a_gateway_that_restarts_under_load_repeats_nothing(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    api, url = await new_gateway()
    workers = [start_worker(language, url) for language in LANGUAGES]
    await started(*workers)
    ids: list[UUID] = []
    for restart in range(3):
        for language in LANGUAGES:
            target = PythonTarget(f"{language}.greet")
            ids += await submitter.submit(target, 150, payload=b'{"name": "Ada"}')
        await asyncio.sleep(0.3)
        if restart % 2:
            api.kill()
        else:
            api.terminate()
            await api.code(PATIENCE)
        api.start()
        await api.started()
    await completed(truth, ids)
    assert await attempts(truth, ids) == {1}
    assert [worker.text.count("worker started") for worker in workers] == [1, 1, 1]
    assert len((tmp_path / "runs").read_text().splitlines()) == len(ids) // 3


async def test_a_blocked_event_loop_loses_its_session_and_its_tasks_run_again(
    new_gateway: Any, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    _, url = await new_gateway()
    worker = start_worker("py", url)
    await started(worker)
    (task,) = await submitter.submit(PythonTarget("py.block"), 1, payload=b'{"seconds": 8}')

    async def lost() -> bool:
        found = await truth.fetch("SELECT losses FROM gnomon.task WHERE id = $1", task)
        return bool(found and found[0]["losses"])

    await eventually(lost)
    assert "the event loop stands still: the lease is not renewed" in worker.text
    await started(worker, count=2)


async def test_a_key_must_have_the_role_and_be_known(
    new_gateway: Any, start_worker: Start, database: Database, tmp_path: Path
) -> None:
    _, url = await new_gateway(auth_enabled="true")
    (tmp_path / "shop.py").write_text(SHOP)
    _, reader = await make_key(database, roles=(Role.READ,))
    _, good = await make_key(database, roles=(Role.WORK,))
    for key, told in ((reader, "role"), ("gn_unknown", "key")):
        env = {"GNOMON_API_KEY": key}
        done = await asyncio.to_thread(
            gnomon, "worker", "shop:app", "--url", url, cwd=tmp_path, env=env
        )
        assert done.code == 1
        assert told in done.err
        assert done.err.count("\n") <= 3, done.err
    worker = start_worker("py", url, GNOMON_API_KEY=good)
    await started(worker)

    async def told_once() -> bool:
        return "task types are not registered" in worker.text

    await eventually(told_once)


async def test_what_the_app_declares_is_registered(
    new_gateway: Any, start_worker: Start, truth: Truth, tmp_path: Path
) -> None:
    _, url = await new_gateway()

    def declare(options: str) -> None:
        job = f'@app.every("10m", payload={{"name": "Ada"}}, {options})\n'
        (tmp_path / "shop.py").write_text(f"{SHOP}{job}async def tick(name: str): ...\n")

    async def jobs() -> list[str]:
        rows = await truth.fetch("SELECT name FROM gnomon.cron_job ORDER BY name")
        return [row["name"] for row in rows]

    async def has(*names: str) -> bool:
        return await jobs() == list(names)

    declare('name="first"')
    worker = start_worker("py", url)
    await eventually(lambda: has("first"))
    types = await truth.fetch("SELECT name FROM gnomon.task_type ORDER BY name")
    assert [row["name"] for row in types] == [
        "py.block", "py.count", "py.fail", "py.greet", "tick",
    ]  # fmt: skip
    worker.process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(worker.process.wait, PATIENCE)
    declare('name="second", renamed_from="first"')
    start_worker("py", url)
    await eventually(lambda: has("second"))


def test_the_workers_need_nothing_of_the_server(tmp_path: Path) -> None:
    """Nothing imports a driver of databases, or a web framework."""
    (tmp_path / "shop.py").write_text(SHOP)
    code = (
        "import sys, runpy; sys.modules |= dict.fromkeys(('asyncpg', 'litestar', 'granian', "
        "'aiohttp', 'jinja2', 'jsonschema_rs', 'jwt', 'cryptography', 'aiosmtplib', 'yarl')); "
        "sys.argv = ['gnomon', 'worker', 'shop:app', '--url', 'http://127.0.0.1:9', '--no-line']; "
        "runpy.run_module('gnomon', run_name='__main__')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "no session can be opened, retrying" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
