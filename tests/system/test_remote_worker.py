"""`gnomon worker --url` as a real process, against a gateway that plays tasks and faults."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from aiohttp import web
from tests.commands import Running, gnomon, running
from tests.system.played_gateway import KEY, PlayedGateway, PlayedTask
from tests.waiting import eventually_sync

PATIENCE = 60.0

SHOP = """
import asyncio, os, time
from pathlib import Path
from gnomon import Gnomon, Reject, Retry, Snooze, TaskContext

app = Gnomon()
HERE = Path(__file__).parent


def note(what):
    with (HERE / "runs").open("a") as file:
        file.write(f"{what}\\n")


@app.task
async def greet(name: str) -> str:
    note(name)
    return f"hello {name}"

@app.task
def blocking(name: str) -> str:
    return f"{name} in a thread of {os.getpid()}"

@app.task(process=True)
def apart(name: str) -> int:
    return os.getpid()

@app.task
async def wrong(what: str) -> None:
    match what:
        case "reject": raise Reject("never again")
        case "retry": raise Retry("later", after=7)
        case "snooze": raise Snooze(9)
        case _: raise ValueError("broken")

@app.task
async def wait(ctx: TaskContext, name: str) -> str:
    note(name)
    (HERE / f"began-{name}").touch()
    ctx.progress(0.5, "half")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return "waited"

@app.task
async def stand_still(seconds: float) -> str:
    (HERE / "stands").touch()
    time.sleep(seconds)
    return "stood"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture
def gateway() -> Iterator[PlayedGateway]:
    with PlayedGateway() as played:
        yield played


def environment(**more: str) -> dict[str, str]:
    return {"GNOMON_API_KEY": KEY, "GNOMON_OUTPUT_LOG_FORMAT": "json", **more}


@contextmanager
def working(gateway: PlayedGateway, shop: Path, *options: str, **env: str) -> Iterator[Running]:
    given = ("worker", "shop:app", "--url", gateway.url, *options)
    with running(*given, cwd=shop, env=environment(**env)) as worker:
        said(worker, "worker started")
        yield worker


def said(worker: Running, text: str, count: int = 1) -> None:
    def seen() -> bool:
        assert worker.process.poll() is None, worker.errors
        return worker.errors.count(text) >= count

    eventually_sync(seen, PATIENCE)


def ended(*tasks: PlayedTask) -> None:
    eventually_sync(lambda: all(task.done for task in tasks), PATIENCE)


def result(task: PlayedTask) -> object:
    ended(task)
    assert task.report is not None
    assert task.outcome == "succeeded", task.report
    return task.report.get("result")


def exists(path: Path) -> None:
    eventually_sync(path.exists, PATIENCE)


def test_it_runs_handlers_of_all_kinds_and_reports_what_they_say(
    gateway: PlayedGateway, shop: Path
) -> None:
    with working(gateway, shop) as worker:
        assert gateway.only.request["handlers"] == sorted(
            ["greet", "blocking", "apart", "wrong", "wait", "stand_still"]
        )
        assert result(gateway.submit("greet", {"name": "Ada"})) == "hello Ada"
        assert result(gateway.submit("blocking", {"name": "Bo"})) == (
            f"Bo in a thread of {worker.process.pid}"
        )
        assert result(gateway.submit("apart", {"name": "Cy"})) != worker.process.pid
        kinds = ("broken", "reject", "retry", "snooze")
        failed = {each: gateway.submit("wrong", {"what": each}) for each in kinds}
        misfit = gateway.submit("greet", {"nobody": 1})
        ended(misfit, *failed.values())
    reports = {each: task.report or {} for each, task in failed.items()}
    assert reports["broken"]["error"] == "ValueError: broken"
    assert "ValueError: broken" in reports["broken"]["traceback"]
    assert "shop.py" in reports["broken"]["traceback"]
    assert reports["reject"]["retryable"] is False
    assert reports["retry"]["retry_after_seconds"] == 7
    assert (failed["snooze"].outcome, reports["snooze"]["retry_after_seconds"]) == ("snoozed", 9)
    assert misfit.report is not None
    assert misfit.report["retryable"] is False


def test_many_tasks_take_few_polls(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop):
        tasks = [gateway.submit("greet", {"name": str(n)}) for n in range(2000)]
        ended(*tasks)
        polls = len(gateway.only.polls)
        most = max(len(poll["reports"]) for poll in gateway.only.polls)
    assert polls < 1000
    assert most > 10
    assert len((shop / "runs").read_text().split()) == 2000


def test_a_task_that_asks_starts_once_it_is_granted(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop):
        for mode in ("at_most_once", "exactly_once"):
            task = gateway.submit("greet", {"name": "Ada"}, asks=True, delivery=mode)
            assert result(task) == "hello Ada"
            assert task.begun


def test_a_suspect_runs_in_a_process_of_its_own(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop) as worker:
        task = gateway.submit("blocking", {"name": "Bo"}, suspect=True, asks=True)
        assert f"{worker.process.pid}" not in str(result(task))


def test_a_cancel_ends_what_runs_and_progress_is_told(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop):
        task = gateway.submit("wait", {"name": "a"})
        eventually_sync(lambda: task.progress, PATIENCE)
        assert task.progress is not None
        assert (task.progress["fraction"], task.progress["message"]) == (0.5, "half")
        gateway.cancel(task)
        ended(task)
        assert task.outcome == "cancelled"


def test_sigterm_drains_reports_and_leaves(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop) as worker:
        task = gateway.submit("wait", {"name": "a"})
        exists(shop / "began-a")
        worker.process.send_signal(signal.SIGTERM)
        eventually_sync(lambda: gateway.only.polls[-1]["slots"] == 0, PATIENCE)
        later = gateway.submit("greet", {"name": "late"})
        (shop / "go").touch()
        assert worker.wait() == 0, worker.errors
    assert task.outcome == "succeeded"
    assert later.session is None
    assert len(gateway.left) == 1


def test_the_gateway_can_ask_it_to_drain(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop) as worker:
        assert result(gateway.submit("greet", {"name": "Ada"})) == "hello Ada"
        gateway.say("drain")
        assert worker.wait() == 0, worker.errors
    assert len(gateway.left) == 1


def test_lost_answers_lose_and_repeat_nothing(gateway: PlayedGateway, shop: Path) -> None:
    with working(gateway, shop):
        tasks = []
        for n in range(30):
            gateway.lose_answers = 1 + n % 3
            tasks += [gateway.submit("greet", {"name": f"{n}-{m}"}) for m in range(20)]
            ended(*tasks)
    assert all(task.outcome == "succeeded" for task in tasks)
    assert len((shop / "runs").read_text().split()) == len(tasks), "each ran once"
    assert gateway.refused == 0


def test_it_outlives_a_gateway_that_is_away_and_keeps_its_reports(
    gateway: PlayedGateway, shop: Path
) -> None:
    with working(gateway, shop) as worker:
        task = gateway.submit("wait", {"name": "a"})
        exists(shop / "began-a")
        gateway.stop_listening()
        (shop / "go").touch()
        said(worker, "the gateway cannot be polled")
        gateway.listen_again()
        assert result(task) == "waited"
        assert result(gateway.submit("greet", {"name": "Ada"})) == "hello Ada"
        said(worker, "the gateway answers again")
    assert len(gateway.sessions) == 1
    assert (shop / "runs").read_text().split() == ["a", "Ada"]


def test_a_session_that_was_declared_dead_is_followed_by_a_new_one(
    gateway: PlayedGateway, shop: Path
) -> None:
    with working(gateway, shop) as worker:
        task = gateway.submit("wait", {"name": "a"})
        exists(shop / "began-a")
        first = next(iter(gateway.sessions))
        gateway.kill(first)
        said(worker, "worker started", 2)
        (shop / "go").touch()
        assert result(task) == "waited"
    assert task.session != first
    assert gateway.refused == 0, "what was ended is not reported"


def test_a_refused_beat_ends_what_runs_although_no_poll_says_so(shop: Path) -> None:
    with PlayedGateway(lease_seconds=2.0) as gateway, working(gateway, shop) as worker:
        task = gateway.submit("wait", {"name": "a"})
        exists(shop / "began-a")
        gateway.answer_instead = lambda: web.Response(status=503)  # polls; beats go on
        gateway.kill(next(iter(gateway.sessions)))
        said(worker, "this node was declared dead")
        gateway.answer_instead = None
        (shop / "go").touch()
        assert result(task) == "waited"
        assert len(gateway.sessions) == 2


def test_a_loop_that_stands_still_stops_the_beats(shop: Path) -> None:
    with PlayedGateway(lease_seconds=2.0) as gateway, working(gateway, shop) as worker:
        session = gateway.only
        eventually_sync(lambda: len(session.beats) >= 2, PATIENCE)
        gateway.submit("stand_still", {"seconds": 5})
        exists(shop / "stands")
        began = time.monotonic()
        said(worker, "the event loop stands still: the lease is not renewed")
        eventually_sync(lambda: time.monotonic() - began > 4, PATIENCE)
        late = [at for at in session.beats if began + 1.5 < at < began + 4]
        assert late == []


def test_a_worker_that_was_stopped_beyond_its_lease_starts_nothing_of_before(shop: Path) -> None:
    with PlayedGateway(lease_seconds=2.0) as gateway, working(gateway, shop) as worker:
        first = next(iter(gateway.sessions))
        task = gateway.submit("wait", {"name": "a"})
        exists(shop / "began-a")
        os.kill(worker.process.pid, signal.SIGSTOP)
        gateway.kill(first)
        time.sleep(2.5)  # longer than the lease
        os.kill(worker.process.pid, signal.SIGCONT)
        said(worker, "worker started", 2)
        (shop / "go").touch()
        assert result(task) == "waited"
        assert task.session != first
        assert gateway.refused == 0


FREEZING = """
import os, signal, sys, threading
from pathlib import Path
from gnomon import Gnomon

app = Gnomon()
HERE = Path(__file__).parent


def freeze(frame, event, argument):
    # The thread of a handler calls its first function: it has not looked what it is to do.
    if threading.current_thread().name == "gnomon-handler":
        threading.settrace(None)
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGSTOP)


threading.settrace(freeze)


@app.task
def blocking(name: str) -> str:
    with (HERE / "runs").open("a") as file:
        file.write(f"{name}\\n")
    return "done"
"""


def test_a_thread_begins_no_handler_once_the_lease_has_run_out(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(FREEZING)
    with PlayedGateway(lease_seconds=2.0) as gateway:
        task = gateway.submit("blocking", {"name": "a"})
        with working(gateway, tmp_path) as worker:
            status = Path(f"/proc/{worker.process.pid}/status")
            eventually_sync(lambda: "T (stopped)" in status.read_text(), PATIENCE)
            assert not (tmp_path / "runs").exists()
            first, stopped_at = next(iter(gateway.sessions)), time.monotonic()
            gateway.kill(first)
            eventually_sync(lambda: time.monotonic() > stopped_at + 2.5, PATIENCE)
            os.kill(worker.process.pid, signal.SIGCONT)
            assert result(task) == "done"
            assert task.session != first
            assert (tmp_path / "runs").read_text() == "a\n"


def test_bad_answers_are_bounded_and_end_nothing(gateway: PlayedGateway, shop: Path) -> None:
    bad = [
        web.Response(body=b"<html>a proxy's page</html>"),
        web.Response(body=b'{"sequence": "one", "deliveries": 7}'),
        web.Response(body=b"[" * 100_000),
        web.Response(body=bytes(40 * 1024 * 1024)),
        web.Response(status=401, body=b"{}"),
        web.Response(status=500),
        web.Response(status=429, headers={"Retry-After": "0"}),
    ]
    answers = iter(bad)
    served = []

    def answer() -> web.Response:
        response = next(answers, None)
        if response is None:
            gateway.answer_instead = None
            return web.Response(status=503)
        served.append(response)
        return response

    with working(gateway, shop) as worker:
        gateway.answer_instead = answer
        task = gateway.submit("greet", {"name": "Ada"})
        assert result(task) == "hello Ada"
        assert len(served) == len(bad)
        peak = Path(f"/proc/{worker.process.pid}/status").read_text()
        (line,) = (line for line in peak.splitlines() if line.startswith("VmHWM:"))
        assert int(line.split()[1]) < 400_000, "an answer is not read without end"
        assert len(gateway.sessions) == 1
        assert len(gateway.only.polls) < 200, "failures are followed by pauses"


def test_answers_that_come_at_once_for_nothing_are_followed_by_a_pause(
    gateway: PlayedGateway, shop: Path
) -> None:
    gateway.poll_seconds = 1.0  # the one that waits already is answered when it is over
    with working(gateway, shop):
        gateway.answer_instead = lambda: web.Response(
            body=msgspec.json.encode({"sequence": 1, "epoch": gateway.epoch})
        )
        eventually_sync(lambda: len(gateway.only.polls) > 3, PATIENCE)
        before, began = len(gateway.only.polls), time.monotonic()
        eventually_sync(lambda: time.monotonic() - began > 2, PATIENCE)
        assert len(gateway.only.polls) - before < 40


@pytest.mark.parametrize(
    ("key", "roles", "told"),
    [("gn_other", {"work"}, "this key is not known"), (KEY, set(), "lacks the role work")],
)
def test_a_key_that_is_refused_ends_it_with_one_line(
    gateway: PlayedGateway, shop: Path, key: str, roles: set[str], told: str
) -> None:
    gateway.roles = roles
    env = environment(GNOMON_API_KEY=key)
    done = gnomon("worker", "shop:app", "--url", gateway.url, cwd=shop, env=env)
    assert done.code == 1
    assert told in done.err


def test_task_types_and_cron_jobs_are_registered_where_the_key_may(
    gateway: PlayedGateway, shop: Path
) -> None:
    with (shop / "shop.py").open("a") as file:
        file.write('\n@app.every("10m", payload={"name": "Ada"})\nasync def tick(name: str): ...\n')
    with working(gateway, shop) as worker:
        said(worker, "task types are not registered")
        said(worker, "cron jobs are not registered")
    gateway.roles.add("admin")
    with working(gateway, shop):
        eventually_sync(lambda: "cron-jobs/tick" in gateway.puts, PATIENCE)
        assert "task-types/greet" in gateway.puts


def test_transactional_handlers_are_refused(gateway: PlayedGateway, shop: Path) -> None:
    with (shop / "shop.py").open("a") as file:
        file.write("\ngreet.transactional = True\n")
    done = gnomon("worker", "shop:app", "--url", gateway.url, cwd=shop, env=environment())
    assert done.code == 1
    assert "transactional=True: greet" in done.err
    assert not gateway.sessions


def test_several_processes_have_a_session_each(gateway: PlayedGateway, shop: Path) -> None:
    given = ("worker", "shop:app", "--processes", "2")
    env = environment(GNOMON_URL=gateway.url)
    with running(*given, cwd=shop, env=env) as worker:
        said(worker, "worker started", 2)
        assert len(gateway.sessions) == 2
        assert result(gateway.submit("greet", {"name": "Ada"})) == "hello Ada"
        worker.interrupt()
        assert worker.wait() == 0, worker.errors
    assert len(gateway.left) == 2


def test_probes_say_whether_it_may_start_tasks(shop: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    def probed(path: str) -> int:
        with contextlib.suppress(OSError):
            return httpx.get(f"http://127.0.0.1:{port}{path}").status_code
        return 0

    env = {"GNOMON_OUTPUT_METRICS_PORT": str(port)}
    with PlayedGateway(lease_seconds=2.0) as gateway, working(gateway, shop, **env):
        eventually_sync(lambda: probed("/readyz") == 200, PATIENCE)
        assert probed("/healthz") == 200
        gateway.stop_listening()
        eventually_sync(lambda: probed("/readyz") == 503, PATIENCE)
        assert probed("/healthz") == 200
        gateway.listen_again()
        eventually_sync(lambda: probed("/readyz") == 200, PATIENCE)
