"""`gnomon worker` as real processes: one, several, and one whose source changes."""

import contextlib
import json
import os
import pty
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest
from tests.commands import gnomon, running
from tests.system.harness import Submitter, Truth, start_server, stop_server, submitting
from tests.waiting import eventually, eventually_sync

from gnomon.cli.run.sources import IMPORT_SECONDS
from gnomon.clock import SystemClock
from gnomon.model.targets.target import PythonTarget
from gnomon.store.embedded import EmbeddedServer

PATIENCE = 120.0  # seconds: the machine may have other things to do

SHOP = """
import os
from pathlib import Path
import asyncio
from gnomon import Gnomon

app = Gnomon()
HERE = Path(__file__).parent


@app.task
async def greet(payload):
    (HERE / "pids").open("a").write(f"{os.getpid()}\\n")
    return "VERSION"


@app.task
async def dawdle(payload):
    (HERE / "dawdles").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return "done"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def environment(dsn: str, **more: str) -> dict[str, str]:
    quick = {"GNOMON_NODE_SCAN_SECONDS": "0.1", "GNOMON_NODE_LEASE_SECONDS": "2"}
    return {"DATABASE_URL": dsn, **quick, **more}


def started(errors: Callable[[], str], count: int) -> None:
    eventually_sync(lambda: errors().count("worker started") >= count, PATIENCE)


async def results(truth: Truth, ids: list[UUID]) -> set[str]:
    async def look() -> set[str] | None:
        rows = await truth.fetch(
            "SELECT result #>> '{}' AS result FROM gnomon.task_archive WHERE id = ANY ($1)", ids
        )
        return {row["result"] for row in rows} if len(rows) == len(ids) else None

    return await eventually(look, PATIENCE)


async def test_a_worker_runs_its_handlers_and_drains_when_it_is_interrupted(
    database_dsn: str, shop: Path, submitter: Submitter, truth: Truth
) -> None:
    with running("worker", "shop:app", cwd=shop, env=environment(database_dsn)) as worker:
        started(lambda: worker.errors, 1)
        assert await results(truth, await submitter.submit(PythonTarget("greet"), 5)) == {"VERSION"}
        late = await submitter.submit(PythonTarget("dawdle"), 1)
        await eventually(_exists(shop / "dawdles"))
        worker.interrupt()
        (shop / "go").touch()
        assert worker.wait() == 0, worker.errors
        assert await results(truth, late) == {"done"}, "what runs is waited for"
    serves = json.loads(await truth.value("SELECT serves::text FROM gnomon.node"))
    assert serves.pop("app")["name"] == "shop:app"
    pool = {"handlers": ["dawdle", "greet"], "tenants": ["default"], "webhooks": False}
    assert serves == pool


async def test_processes_that_are_killed_come_back(
    database_dsn: str, shop: Path, submitter: Submitter, truth: Truth
) -> None:
    env = environment(database_dsn)
    with running("worker", "shop:app", "--processes", "2", cwd=shop, env=env) as worker:
        started(lambda: worker.errors, 2)

        async def have_run(count: int) -> set[str] | None:
            await results(truth, await submitter.submit(PythonTarget("greet"), 20))
            found = set((shop / "pids").read_text().split())
            return found if len(found) == count else None

        before = await eventually(lambda: have_run(2), PATIENCE)
        os.kill(int(before.pop()), signal.SIGKILL)
        started(lambda: worker.errors, 3)
        await eventually(lambda: have_run(3), PATIENCE)
        worker.process.terminate()
        assert worker.wait() == 0, worker.errors
    assert "was killed by signal 9; starting it again" in worker.errors


async def test_a_change_of_the_source_is_picked_up_once_it_can_be_imported(
    database_dsn: str, shop: Path, submitter: Submitter, truth: Truth
) -> None:
    env = environment(database_dsn)
    with running("worker", "shop:app", "--reload", cwd=shop, env=env) as worker:
        started(lambda: worker.errors, 1)
        assert await results(truth, await submitter.submit(PythonTarget("greet"), 1)) == {"VERSION"}
        late = await submitter.submit(PythonTarget("dawdle"), 1)
        await eventually(_exists(shop / "dawdles"))
        (shop / "shop.py").write_text("def broken(:\n" + SHOP)
        eventually_sync(lambda: "its last good version goes on" in worker.errors, PATIENCE)
        assert "SyntaxError" in worker.errors
        assert await results(truth, await submitter.submit(PythonTarget("greet"), 1)) == {"VERSION"}
        (shop / "shop.py").write_text(SHOP.replace("VERSION", "the next version"))
        started(lambda: worker.errors, 2)

        async def is_new() -> bool:
            one = await submitter.submit(PythonTarget("greet"), 1)
            return await results(truth, one) == {"the next version"}

        await eventually(is_new, PATIENCE)
        (shop / "go").touch()
        assert await results(truth, late) == {"done"}, "what the one before ran is waited for"
        worker.process.terminate()
        assert worker.wait() == 0, worker.errors


HANGING = """
import time
from pathlib import Path
(Path(__file__).parent / "importing").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_an_import_that_hangs_ends_with_the_supervisor(
    database_dsn: str, shop: Path, number: signal.Signals
) -> None:
    env = environment(database_dsn)
    with running("worker", "shop:app", "--reload", cwd=shop, env=env) as worker:
        started(lambda: worker.errors, 1)
        (shop / "shop.py").write_text(HANGING)
        await eventually(_exists(shop / "importing"), PATIENCE)
        worker.process.send_signal(number)
        began = SystemClock().monotonic()
        assert worker.wait() == (0 if number == signal.SIGTERM else -number), worker.errors
        assert SystemClock().monotonic() - began < IMPORT_SECONDS, "it did not wait for the import"
    eventually_sync(lambda: not _processes_in(shop), PATIENCE)


def _processes_in(folder: Path) -> list[str]:
    """The processes that work in a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if each.readlink() == folder:
                found.append(each.parent.name)
    return found


async def test_a_worker_outlives_a_restart_of_postgresql(
    own_server: EmbeddedServer, shop: Path
) -> None:
    with running("worker", "shop:app", cwd=shop, env=environment(own_server.dsn)) as worker:
        started(lambda: worker.errors, 1)
        stop_server(own_server, signal.SIGQUIT)
        start_server(own_server)
        truth = Truth(own_server.dsn)
        async with submitting(own_server.dsn) as submitter:
            ids = await submitter.submit(PythonTarget("greet"), 5)
            assert await results(truth, ids) == {"VERSION"}
        truth.close()
        worker.process.terminate()
        assert worker.wait() == 0, worker.errors


def test_up_runs_a_worker_and_says_where_it_is_to_whoever_starts_it_again(shop: Path) -> None:
    with running("up", "--app", "shop:app", "--reload", "--port", "0", cwd=shop) as everything:

        def announced() -> re.Match[str] | None:
            return re.search(r"API\s+(http://\S+)/api/v1", everything.errors)

        url = eventually_sync(announced, PATIENCE)[1]
        started(lambda: everything.errors, 1)
        done = gnomon(
            "submit", "--type", "greet", "--wait", "--api", url, "--payload", "1", cwd=shop
        )
        assert done.code == 0, done.err
        waits = gnomon("submit", "--type", "unknown", "--api", url, cwd=shop)
        assert "warning: no worker that handles the task type 'unknown' was seen" in waits.err
        assert len(waits.out.split()) == 1
        listed = gnomon("nodes", "--api", url, cwd=shop).out
        assert "handlers dawdle, greet" in listed
        again = gnomon("up", "--app", "shop:app", "--port", "0", cwd=shop)
        assert again.code == 1
        assert f"gnomon is already up, at {url} " in again.err
        everything.interrupt()
        assert everything.wait() == 0, everything.errors


def test_what_is_wrong_is_said_in_one_line(database_dsn: str, shop: Path) -> None:
    env = {"DATABASE_URL": database_dsn}
    (shop / "empty.py").write_text("from gnomon import Gnomon\napp = Gnomon()\n")
    for path, expected in (
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop:nothing", "shop has no attribute 'nothing'; it has: shop:app"),
        ("empty:app", "empty:app has no handlers: write @app.task above a function"),
    ):
        done = gnomon("worker", path, cwd=shop, env=env)
        assert (done.code, expected in done.err) == (1, True), done.err
    done = gnomon("worker", "shop:app", cwd=shop)
    assert done.code == 1
    assert "DATABASE_URL is not set" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_the_live_line_is_for_terminals(database_dsn: str, shop: Path) -> None:
    with running("worker", "shop:app", cwd=shop, env=environment(database_dsn)) as worker:
        started(lambda: worker.errors, 1)
        worker.process.terminate()
        assert worker.wait() == 0
        assert worker.process.stdout is not None
    assert "slots" not in worker.errors
    line = b"0 of 1000 slots \xc2\xb7 0.0/s \xc2\xb7 lag 0.0 s"
    assert _seen_on_a_terminal(database_dsn, shop, line) == 0


def test_several_processes_have_one_line(database_dsn: str, shop: Path) -> None:
    line = b"shop:app  0 of 14 slots \xc2\xb7 0.0/s"
    several = ("--processes", "2", "--slots", "7")
    assert _seen_on_a_terminal(database_dsn, shop, line, *several) == 0


def _seen_on_a_terminal(dsn: str, shop: Path, line: bytes, *options: str) -> int:
    """Runs a worker on a terminal until the line is seen there; returns its exit code."""
    process, terminal = pty.fork()
    if process == 0:
        import sys

        os.chdir(shop)
        os.environ.update(environment(dsn))
        os.execv(sys.executable, [sys.executable, "-m", "gnomon", "worker", "shop:app", *options])
    seen = b""
    try:
        while line not in seen:
            seen += os.read(terminal, 4096)
    finally:
        os.kill(process, signal.SIGTERM)
        _drained(terminal)
        _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def _drained(terminal: int) -> None:
    """Read until the other end is closed: Linux tells that as an error."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass
    os.close(terminal)


def _exists(path: Path) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return path.exists()

    return look
