"""The example workers for Node and in Go, against a gateway that plays tasks and faults."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.system.example_workers import EXAMPLES, ExampleWorker, example_worker, go_worker
from tests.system.example_workers import node_worker as node_command
from tests.system.npm import node_modules
from tests.system.played_gateway import KEY, PlayedGateway, PlayedTask
from tests.waiting import eventually_sync

PATIENCE = 60.0
LEASE = 2.0


class Language(NamedTuple):
    prefix: str
    command: list[str]


@pytest.fixture(scope="module")
def go_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return go_worker(tmp_path_factory.mktemp("go"))


@pytest.fixture(params=["js", "go"])
def language(request: pytest.FixtureRequest) -> Language:
    if request.param == "js":
        return Language("js", node_command())
    return Language("go", request.getfixturevalue("go_command"))


@pytest.fixture
def gateway() -> Iterator[PlayedGateway]:
    with PlayedGateway(lease_seconds=LEASE) as played:
        yield played


@contextmanager
def working(
    gateway: PlayedGateway, language: Language, folder: Path, key: str = KEY
) -> Iterator[ExampleWorker]:
    env = {"GNOMON_URL": gateway.url, "GNOMON_API_KEY": key, "SLOTS": "20"}
    with example_worker(language.command, folder, **env) as worker:
        yield worker


def ended(*tasks: PlayedTask) -> None:
    eventually_sync(lambda: all(task.done for task in tasks), PATIENCE)


def begun(gateway: PlayedGateway, task: PlayedTask) -> None:
    """Until it runs: it says how far it is."""
    eventually_sync(lambda: task.progress, PATIENCE)


def test_it_runs_tasks_and_reports_what_they_come_to(
    gateway: PlayedGateway, language: Language, tmp_path: Path
) -> None:
    name = language.prefix
    gateway.poll_seconds = 1.0  # a poll that asks is not followed by another before its answer
    with working(gateway, language, tmp_path):
        good = [gateway.submit(f"{name}.greet", {"name": str(n)}) for n in range(200)]
        bad = gateway.submit(f"{name}.fail", {"reason": "never"})
        gateway.withhold = True
        asking = {"asks": True, "delivery": "at_most_once", "start_within_seconds": 1}
        asks = [gateway.submit(f"{name}.greet", {"name": "x"}, **asking) for _ in range(2)]
        slow = gateway.submit(f"{name}.count", {"seconds": 30}, timeout_seconds=1)
        odd = gateway.submit(f"{name}.odd")
        eventually_sync(lambda: all(task.fence > 1 for task in asks), PATIENCE)  # released
        gateway.withhold = False
        ended(*good, bad, *asks, slow, odd)
    assert [(task.report or {})["result"] for task in good] == [f"hello {n}" for n in range(200)]
    assert bad.report is not None
    assert (bad.outcome, bad.report["retryable"]) == ("failed", False)
    assert "never" in bad.report["error"]
    assert [(task.outcome, task.begun) for task in asks] == [("succeeded", True)] * 2
    assert slow.outcome == "timed_out"
    assert odd.outcome == "failed"
    assert gateway.refused == 0


def test_it_obeys_a_cancel_and_drains_on_sigterm(
    gateway: PlayedGateway, language: Language, tmp_path: Path
) -> None:
    with working(gateway, language, tmp_path) as worker:
        cancelled = gateway.submit(f"{language.prefix}.count", {"seconds": 30})
        begun(gateway, cancelled)
        gateway.cancel(cancelled)
        ended(cancelled)
        last = gateway.submit(f"{language.prefix}.count", {"seconds": 2})
        begun(gateway, last)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(PATIENCE) == 0, worker.text
    assert cancelled.outcome == "cancelled"
    assert last.outcome == "succeeded"
    assert len(gateway.left) == 1


def test_it_outlives_lost_answers_and_a_gateway_that_is_away(
    gateway: PlayedGateway, language: Language, tmp_path: Path
) -> None:
    with working(gateway, language, tmp_path):
        slow = gateway.submit(f"{language.prefix}.count", {"seconds": 2})
        begun(gateway, slow)
        gateway.lose_answers = 3
        tasks = [gateway.submit(f"{language.prefix}.greet", {"name": "x"}) for _ in range(100)]
        ended(*tasks)
        gateway.stop_listening()
        time.sleep(0.5)
        gateway.listen_again()
        ended(slow)
        assert len(gateway.sessions) == 1
    assert slow.outcome == "succeeded"
    assert gateway.refused == 0


def test_what_it_ran_runs_elsewhere_when_it_was_killed_or_stopped(
    gateway: PlayedGateway, language: Language, tmp_path: Path
) -> None:
    with working(gateway, language, tmp_path) as worker:
        task = gateway.submit(f"{language.prefix}.count", {"seconds": 5})
        begun(gateway, task)
        first = next(iter(gateway.sessions))
        gateway.refuse_late(late=True)
        os.kill(worker.process.pid, signal.SIGSTOP)
        gateway.kill(first)
        time.sleep(LEASE + 0.1)  # beyond its lease
        os.kill(worker.process.pid, signal.SIGCONT)
        eventually_sync(lambda: len(gateway.sessions) == 2, PATIENCE)
        eventually_sync(lambda: task.session not in (None, first), PATIENCE)
        second = task.session
        assert second is not None
        gateway.refuse_late(late=False)  # the last word of the first session ends the second not
        beats = gateway.sessions[second].beats
        enough = len(beats) + 2
        eventually_sync(lambda: len(beats) >= enough, PATIENCE)
        assert len(gateway.sessions) == 2
        worker.process.kill()
        worker.process.wait()
        gateway.kill(second)
        with working(gateway, language, tmp_path):
            ended(task)
    assert task.session not in (first, second)
    assert gateway.refused == 0, "nothing of an ended session was reported"


def test_a_key_that_is_refused_ends_it(
    gateway: PlayedGateway, language: Language, tmp_path: Path
) -> None:
    with working(gateway, language, tmp_path, key="gn_other") as worker:
        assert worker.process.wait(PATIENCE) != 0
        assert "this key is not known" in worker.text


def test_the_types_of_the_worker_for_node_are_right() -> None:
    """As `npx -p typescript tsc` does, with the version that the generated client is built with."""
    lock = Path(__file__).parent / "generated_clients" / "typescript" / "package-lock.json"
    modules = asyncio.run(node_modules(lock))
    done = subprocess.run(
        [*node_command()[:1], modules / "typescript" / "bin" / "tsc", "--project", "."],
        cwd=EXAMPLES / "worker-typescript",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("go_command")
def test_the_worker_in_go_is_formatted_and_vetted() -> None:
    for command in (["gofmt", "-l", "."], ["go", "vet", "./..."]):
        done = subprocess.run(
            command, cwd=EXAMPLES / "worker-go", capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
