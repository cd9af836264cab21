"""What the fault tests stand on: real processes, a receiver, and a judge.

The judge trusts nobody: from what was acknowledged, what the receiver saw and what PostgreSQL
holds, it says what was lost, repeated, early or stuck.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from aiohttp import web
from tests import waiting

from gnomon.clock import SystemClock, new_id
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission
from gnomon.store.embedded import EmbeddedServer
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.tasks.task_store import PostgresTasks

LEASE = 2.0  # seconds; of every node here
PATIENCE = 60.0  # seconds until a wait has failed: the machine may have other things to do
_AT_ONCE = 10_000  # tasks in one statement
_ROOT = Path(__file__).parents[2]

# `python -m gnomon ...`, which the kernel kills when the test process dies.
_BOOT = """
import runpy, sys
from gnomon.node.run.parent import die_with_parent
die_with_parent(int(sys.argv.pop(1)))
runpy.run_module("gnomon", run_name="__main__", alter_sys=True)
"""


async def eventually(predicate: Callable[[], Awaitable[bool]], timeout: float = PATIENCE) -> None:
    """Wait until `predicate` holds."""
    await waiting.eventually(predicate, timeout)


class Call(NamedTuple):
    """A webhook call, as it arrived."""

    webhook_id: UUID
    attempt: int
    fence: int
    scheduled_for: float  # seconds since the epoch, like `at`
    at: float


class Receiver:
    """Answers webhooks from a thread of its own, and remembers every call. While it holds, no
    call is answered."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._started, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)

    def answer(self) -> None:
        """Answer what is held, and go on answering."""
        self._loop.call_soon_threadsafe(self._open.set)

    def calls_of(self, ids: Iterable[UUID]) -> Counter[UUID]:
        wanted = set(ids)
        return Counter(c.webhook_id for c in list(self.calls) if c.webhook_id in wanted)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        runner = web.ServerRunner(web.Server(self._receive, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _receive(self, request: web.BaseRequest) -> web.Response:
        headers = request.headers
        self.calls.append(
            Call(
                UUID(headers["webhook-id"]),
                int(headers["gnomon-attempt"]),
                int(headers["gnomon-fence"]),
                datetime.fromisoformat(headers["gnomon-scheduled-for"]).timestamp(),
                time.time(),
            )
        )
        await request.read()
        await self._open.wait()
        return web.Response()


class Process:
    """`python -m gnomon <command>` against one database. Its log is JSON on stderr, in a file."""

    boot = _BOOT

    def __init__(
        self, dsn: str, folder: Path, name: str, *command: str, **settings: object
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._command = command
        self._environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("GNOMON_")},
            "PYTHONPATH": os.pathsep.join([str(folder), str(_ROOT / "src"), str(_ROOT)]),
            "DATABASE_URL": dsn,
            "GNOMON_DATABASE_DATA_DIR": str(folder / "gnomon"),
            "GNOMON_OUTPUT_LOG_FORMAT": "json",
            "GNOMON_NODE_NAME": name,
            "GNOMON_NODE_LEASE_SECONDS": str(LEASE),
            "GNOMON_NODE_CRITICAL_SLOTS": "0",  # so that all slots are for all
            **{f"GNOMON_{key.upper()}": str(value) for key, value in settings.items()},
        }
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._starts_before = 0

    def start(self) -> None:
        """Start it, or start it again. Must be called from the main thread: the kernel counts
        the end of the starting thread as the end of the parent."""
        self.close()
        self._starts_before = len(self._where())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", self.boot, str(os.getpid()), *self._command],
                env=self._environ,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def started(self) -> str:
        """Where it serves, once it does."""

        async def said() -> bool:
            assert self.alive, f"{self.name} ended: {self.text()[-4000:]}"
            return self.serving

        await eventually(said)
        return self._where()[-1]

    @property
    def serving(self) -> bool:
        return len(self._where()) > self._starts_before

    def _where(self) -> list[str]:
        return [e["where"] for e in self.events() if str(e["event"]).endswith(" started")]

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "not started"
        return self._process

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """`kill -9`, and wait for the end."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self.process.terminate()

    async def code(self, timeout: float) -> int:
        await eventually(self._ended, timeout)
        return self.process.returncode

    async def _ended(self) -> bool:
        return not self.alive

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def peak_memory(self) -> int:
        """The most that it has held in memory, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def events(self) -> list[dict[str, Any]]:
        """Its log, parsed; a line that is still being written is left out."""
        found = []
        for line in self.text().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
        return found

    def said(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events() if e.get("event") == event]


class Truth:
    """What PostgreSQL holds, seen over a connection that comes back by itself."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def fetch(self, statement: str, *args: object) -> list[asyncpg.Record]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._dsn)
        return await self._connection.fetch(statement, *args)

    async def value(self, statement: str, *args: object) -> Any:
        (row,) = await self.fetch(statement, *args)
        return row[0]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()

    async def completed(self, ids: Iterable[UUID]) -> bool:
        """Whether all of them are in the archive as COMPLETED."""
        wanted = list(ids)
        done = await self.value(
            "SELECT count(*) FROM gnomon.task_archive WHERE id = ANY($1) AND state = $2",
            wanted,
            State.COMPLETED,
        )
        return bool(done == len(wanted))

    async def living(self) -> dict[UUID, str]:
        """The incarnations that are not dead, by name."""
        rows = await self.fetch("SELECT incarnation, name FROM gnomon.node WHERE NOT dead")
        return {row["incarnation"]: row["name"] for row in rows}


class Verdict(NamedTuple):
    """What went wrong with acknowledged tasks. All empty is good."""

    lost: set[UUID]  # in no table, or said to be done and never called
    duplicated: set[UUID]  # called more than once: allowed after a crash, and only then
    early: set[UUID]
    stuck: set[UUID]  # neither finished nor a dead letter
    stale: set[UUID]  # called with a fence that was not higher than the one before


async def judge(truth: Truth, acknowledged: Iterable[UUID], receiver: Receiver) -> Verdict:
    """The verdict on webhook tasks. Ask when all should be over."""
    ids = set(acknowledged)
    calls = [c for c in list(receiver.calls) if c.webhook_id in ids]
    live = await truth.fetch("SELECT id, state FROM gnomon.task WHERE id = ANY($1)", list(ids))
    done = await truth.fetch("SELECT id FROM gnomon.task_archive WHERE id = ANY($1)", list(ids))
    finished = {row["id"] for row in done}
    counts = Counter(c.webhook_id for c in calls)
    fences: dict[UUID, int] = {}
    stale = set()
    for call in calls:
        if call.fence <= fences.get(call.webhook_id, 0):
            stale.add(call.webhook_id)
        fences[call.webhook_id] = call.fence
    return Verdict(
        lost=(ids - finished - {row["id"] for row in live}) | (finished - counts.keys()),
        duplicated={task for task, count in counts.items() if count > 1},
        early={c.webhook_id for c in calls if c.at < c.scheduled_for},
        stuck={row["id"] for row in live if row["state"] != State.DEAD},
        stale=stale,
    )


class Submitter:
    """Submits as the API does: one commit, then the hints."""

    def __init__(self, tasks: PostgresTasks, clock: SystemClock) -> None:
        self._tasks = tasks
        self._clock = clock

    async def submit(
        self,
        target: Target | str,
        count: int,
        *,
        delay: float = 0.0,
        timeout_seconds: float = 60.0,
        payload: bytes = b'{"n":1}',
        **values: Any,
    ) -> list[UUID]:
        """So many tasks for a function or a URL; gives the ids, all of them committed."""
        target = HttpTarget(target) if isinstance(target, str) else target
        task_type = target.function if isinstance(target, PythonTarget) else "test"
        ids: list[UUID] = []
        while len(ids) < count:
            now = self._clock.now()
            due = now + timedelta(seconds=delay)
            batch = [
                Submission(
                    tenant_id=DEFAULT_TENANT,
                    id=new_id(now),
                    task_type=task_type,
                    target=target,
                    execute_at=due,
                    due_at=due,
                    payload=payload,
                    timeout_seconds=timeout_seconds,
                    **values,
                )
                for _ in range(min(_AT_ONCE, count - len(ids)))
            ]
            receipts = await self._tasks.insert([NewTask(s) for s in batch])
            ids += [receipt.task_id for receipt in receipts]
        return ids


@asynccontextmanager
async def submitting(dsn: str, *, hints: bool = True) -> AsyncIterator[Submitter]:
    """A submitter; without `hints`, those that it sends are lost."""
    clock = SystemClock()
    database = Database(dsn, 2)
    await database.open()
    announcer = Announcer(dsn, clock, 15.0)
    try:
        async with asyncio.TaskGroup() as group:
            announcing = group.create_task(announcer.run() if hints else asyncio.sleep(0))
            yield Submitter(PostgresTasks(database, announcer, 3600.0), clock)
            announcing.cancel()
    finally:
        await database.close()


def stop_server(server: EmbeddedServer, number: signal.Signals) -> None:
    """End PostgreSQL, as `pg_ctl stop` does: SIGINT is fast, SIGQUIT immediate."""
    os.kill(server.pid, number)
    waiting.eventually_sync(lambda: not (server.cluster / "postmaster.pid").exists())


def start_server(server: EmbeddedServer) -> None:
    """The same server at the same address again."""
    before = server.pid

    def started() -> bool:
        server.tend()
        return server.pid != before

    waiting.eventually_sync(started)


def freeze_server(server: EmbeddedServer) -> None:
    """PostgreSQL keeps its connections and answers nothing, like a network that swallows all."""
    for pid in (server.pid, *_children(server.pid)):
        os.kill(pid, signal.SIGSTOP)


def thaw_server(server: EmbeddedServer) -> None:
    for pid in (*_children(server.pid), server.pid):
        os.kill(pid, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def percentiles(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    median, late = (ordered[int(at * (len(ordered) - 1))] * 1000 for at in (0.5, 0.99))
    return f"p50 {median:.1f}, p99 {late:.1f}, max {ordered[-1] * 1000:.1f} ms"
