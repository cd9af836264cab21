"""Workers behind a real Valkey: `gnomon worker --pipe`, API processes, and a server that is killed,
stopped, emptied and full."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from tests.brokers import RedisServer, ValkeyServer
from tests.commands import gnomon
from tests.integration.identity import make_key
from tests.system.example_workers import ExampleWorker, example_worker
from tests.system.harness import PATIENCE, Process, Submitter, Truth, eventually

from gnomon.access.principal import Role
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.pipe.meeting.frames import LARGEST_CARRIED_PAYLOAD
from gnomon.store.postgres.database import Database

pytestmark = pytest.mark.system

LEASE = 3.0  # seconds, of a session
GREET = PythonTarget("py.greet")
ADA = b'{"name": "Ada"}'
SHOP = """
import asyncio
from pathlib import Path
from gnomon import Gnomon, TaskContext

app = Gnomon()
RUNS = Path(__file__).parent / "runs"
ENDS = Path(__file__).parent / "ends"


@app.task(name="py.greet")
async def greet(ctx: TaskContext, name: str) -> str:
    with RUNS.open("a") as file:
        file.write(f"{ctx.task_id} {ctx.fence}\\n")
    await asyncio.sleep(0.05)
    with ENDS.open("a") as file:
        file.write(f"{ctx.task_id} {ctx.fence}\\n")
    return f"hello {name}"


@app.task(name="py.count")
async def count(ctx: TaskContext, seconds: int) -> int:
    for second in range(seconds):
        ctx.progress(second / seconds, f"{second} s")
        await asyncio.sleep(1)
    return seconds
"""

HOW_TO = Path(__file__).parents[2] / "docs/how-to/workers-behind-redis.md"
Start = Callable[..., ExampleWorker]
NewGateway = Callable[..., Process]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    folder = tmp_path / "valkey"
    folder.mkdir()
    server = ValkeyServer(folder, kept=False)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def start_worker(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Start]:
    """Start a worker behind the server; all are killed in the end."""
    (tmp_path / "shop.py").write_text(SHOP)
    with ExitStack() as stack:

        def start(pipe: str = valkey.url, **env: str) -> ExampleWorker:
            command = [sys.executable, "-m", "gnomon", "worker", "shop:app", "--pipe", pipe]
            env = {"GNOMON_NODE_SLOTS": "20", **env}
            return stack.enter_context(example_worker(command, tmp_path, **env))

        yield start


@pytest.fixture
def new_gateway(
    database_dsn: str, tmp_path: Path, processes: list[Process], valkey: ValkeyServer
) -> NewGateway:
    """Start an API process behind the server."""

    def start(name: str = "api", **settings: object) -> Process:
        given = {"pipe_url": valkey.url, "gateway_lease_seconds": LEASE, **settings}
        api = Process(database_dsn, tmp_path, name, "api", api_port=0, **given)
        processes.append(api)
        api.start()
        return api

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
        sql = "SELECT 1 FROM gnomon.progress WHERE task_id = $1"
        return bool(await truth.fetch(sql, task))

    await eventually(told)


def lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


async def completed(truth: Truth, ids: list[UUID]) -> None:
    await eventually(lambda: truth.completed(ids), PATIENCE)


async def attempts(truth: Truth, ids: list[UUID]) -> set[int]:
    rows = await truth.fetch("SELECT attempt FROM gnomon.task_archive WHERE id = ANY ($1)", ids)
    return {row["attempt"] for row in rows}


async def test_faults_of_the_server_and_of_gateways_lose_and_repeat_nothing(
    new_gateway: NewGateway,
    start_worker: Start,
    valkey: ValkeyServer,
    submitter: Submitter,
    truth: Truth,
    tmp_path: Path,
) -> None:
    gateways = [new_gateway(f"api{n}") for n in range(2)]
    worker = start_worker()
    url, _ = [await each.started() for each in gateways]
    await started(worker)

    async def declared() -> bool:  # what its app has
        types = await truth.fetch("SELECT name FROM gnomon.task_type ORDER BY name")
        return [row["name"] for row in types] == ["py.count", "py.greet"]

    await eventually(declared)
    ids: list[UUID] = []

    async def under_load(fault: Callable[[], object]) -> None:
        before = len(ids)
        ids.extend(await submitter.submit(GREET, 100, payload=ADA))
        async with asyncio.timeout(PATIENCE):
            while lines(tmp_path / "runs") <= before:  # until one of these runs; most wait
                await asyncio.sleep(0.002)
        fault()
        ids.extend(await submitter.submit(GREET, 20, payload=ADA))

    async def none_runs() -> bool:
        return lines(tmp_path / "ends") == lines(tmp_path / "runs")

    def restarted_empty() -> None:
        valkey.kill()
        valkey.start()

    def without_memory() -> None:
        valkey.client.config_set("maxmemory-policy", "noeviction")
        valkey.client.config_set("maxmemory", 1)

    await under_load(restarted_empty)
    await under_load(lambda: valkey.client.client_kill_filter(_type="pubsub"))
    await under_load(lambda: valkey.client.client_kill_filter(_type="normal", skipme=True))
    await under_load(without_memory)
    await under_load(lambda: valkey.send(signal.SIGSTOP))
    await eventually(none_runs)  # what has ended cannot be reported
    valkey.send(signal.SIGCONT)
    await under_load(gateways[1].kill)
    await completed(truth, ids)
    assert await attempts(truth, ids) == {1}
    assert lines(tmp_path / "runs") == len(ids), "each ran once"
    assert worker.text.count("worker started") == 1, worker.text
    await is_named_while_it_is_away(url, valkey, submitter, truth)


async def test_a_payload_that_is_too_large_fails_its_task_and_no_other(
    new_gateway: NewGateway, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    await new_gateway().started()
    await started(start_worker())
    large = b'{"name": "%s"}' % (b"x" * LARGEST_CARRIED_PAYLOAD)
    (fails,) = await submitter.submit(GREET, 1, payload=large)
    near = b'{"name": "%s"}' % (b"x" * (LARGEST_CARRIED_PAYLOAD - 100))
    ids = await submitter.submit(GREET, 2, payload=near)
    ids += await submitter.submit(GREET, 20, payload=ADA)
    await completed(truth, ids)

    async def failed() -> bool:
        sql = "SELECT last_error FROM gnomon.task WHERE id = $1 AND state = $2"
        found = await truth.fetch(sql, fails, State.DEAD)
        return bool(found) and "does not go through the broker" in found[0]["last_error"]

    await eventually(failed)
    assert await attempts(truth, ids) == {1}


async def is_named_while_it_is_away(
    url: str, valkey: ValkeyServer, submitter: Submitter, truth: Truth
) -> None:
    valkey.kill()
    (task,) = await submitter.submit(GREET, 1, payload=ADA)
    async with httpx.AsyncClient(base_url=url) as client:

        async def explained() -> bool:
            found = (await client.get(f"/api/v1/tasks/{task}/explain")).json()
            return "the Redis that remote workers are reached through" in found["summary"]

        await eventually(explained)
        assert 'gnomon_pipe_up{pipe="redis"} 0.0' in (await client.get("/metrics")).text
        valkey.start()
        await completed(truth, [task])
        assert 'gnomon_pipe_up{pipe="redis"} 1.0' in (await client.get("/metrics")).text


async def test_what_a_worker_that_was_stopped_ran_runs_elsewhere(
    new_gateway: NewGateway, start_worker: Start, submitter: Submitter, truth: Truth
) -> None:
    await new_gateway().started()
    worker = start_worker()
    await started(worker)
    (task,) = await submitter.submit(PythonTarget("py.count"), 1, payload=b'{"seconds": 2}')
    await begun(truth, task)
    os.kill(worker.process.pid, signal.SIGSTOP)
    other = start_worker()
    await completed(truth, [task])
    assert await attempts(truth, [task]) == {2}
    other.process.kill()
    os.kill(worker.process.pid, signal.SIGCONT)
    await started(worker, count=2)
    (task,) = await submitter.submit(GREET, 1, payload=ADA)
    await completed(truth, [task])


def users_of_the_how_to() -> list[list[str]]:
    lines = HOW_TO.read_text().splitlines()
    found = [shlex.split(each)[1:] for each in lines if each.startswith("redis-cli ACL SETUSER")]
    assert [each[2] for each in found] == ["worker", "gateway"]
    return found


async def test_credentials_of_the_server_and_a_key_are_needed(
    new_gateway: NewGateway,
    start_worker: Start,
    valkey: ValkeyServer,
    database: Database,
    submitter: Submitter,
    truth: Truth,
    tmp_path: Path,
) -> None:
    for asked in users_of_the_how_to():
        valkey.client.execute_command(*asked)  # type: ignore[no-untyped-call]
    valkey.client.config_set("requirepass", "root")
    for forbidden in ("CLIENT LIST", "CLIENT KILL ID 1", "CLIENT PAUSE 1", "GET a", "CONFIG GET a"):
        for user in ("worker", "gateway"):
            tried = ("ACL", "DRYRUN", user, *forbidden.split())
            said = valkey.client.execute_command(*tried)  # type: ignore[no-untyped-call]
            assert "no permissions" in said, (user, forbidden)
    url = valkey.url.replace("://", "://gateway:another@")
    gateway = new_gateway(pipe_url=url, auth_enabled="true")
    _, reader = await make_key(database, roles=(Role.READ,))
    _, good = await make_key(database, roles=(Role.WORK,))
    own = valkey.url.replace("://", "://worker:secret@")
    stranger = start_worker(valkey.url, GNOMON_API_KEY=good)
    await gateway.started()
    worker = start_worker(own, GNOMON_API_KEY=good)
    given = ("worker", "shop:app", "--pipe", own)
    env = {"GNOMON_API_KEY": reader}
    done = await asyncio.to_thread(gnomon, *given, cwd=tmp_path, env=env)
    assert done.code == 1
    assert "role" in done.err.splitlines()[-1]
    await started(worker)
    ids = await submitter.submit(GREET, 20, payload=ADA)
    await completed(truth, ids)

    async def refused() -> bool:
        return "authenticated" in stranger.text

    await eventually(refused)
    assert "secret" not in worker.text


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    if RedisServer.PROGRAM is None:
        if os.environ.get("CI"):
            pytest.fail("redis-server is not installed")
        pytest.skip("redis-server is not installed")
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    yield server
    server.kill()


async def test_with_tls_both_ends_know_each_other_by_their_certificates(
    new_gateway: NewGateway,
    start_worker: Start,
    redis: RedisServer,
    submitter: Submitter,
    truth: Truth,
    tmp_path: Path,
) -> None:
    for asked in users_of_the_how_to():
        redis.client.execute_command(*asked)  # type: ignore[no-untyped-call]
    redis.authority.sign(tmp_path, "127.0.0.1", name="client")
    authority = {"pipe_ca_file": str(redis.authority.file)}
    own = {
        "pipe_certificate_file": str(tmp_path / "client.crt"),
        "pipe_key_file": str(tmp_path / "client.key"),
    }
    url = redis.url.replace("://", "://gateway:another@")
    await new_gateway(pipe_url=url, **authority, **own).started()

    def start(**settings: str) -> ExampleWorker:
        named = {f"GNOMON_{name.upper()}": value for name, value in settings.items()}
        return start_worker(redis.url.replace("://", "://worker:secret@"), **named)

    worker, distrustful, unknown = start(**authority, **own), start(**own), start(**authority)
    await started(worker)
    await completed(truth, await submitter.submit(GREET, 20, payload=ADA))
    await told(distrustful, "certificate verify failed")
    await told(unknown, "certificate required")
    assert "worker started" not in distrustful.text + unknown.text
    assert "secret" not in worker.text + distrustful.text + unknown.text


async def told(worker: ExampleWorker, text: str) -> None:
    async def found() -> bool:
        return text in worker.text

    await eventually(found)
