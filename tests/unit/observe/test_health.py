"""What probes are told of a process, alone and with others."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.scrapes import Samples
from tests.unit.observe.probes import Lease, well
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.observe.events import RunsPlanned
from gnomon.observe.health import NodeHealth
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.observe.siblings import Siblings
from gnomon.settings import OutputSettings


def asked(port: int, path: str) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def text_at(port: int, accept: str = "") -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept} if accept else {}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


async def test_a_loop_that_stands_still_is_seen_from_outside(unused_tcp_port: int) -> None:
    health = NodeHealth(SystemClock(), asyncio.Event(), stuck_seconds=5.0)
    settings = OutputSettings(metrics_port=unused_tcp_port)
    with NodeMetrics().served(settings, health), health.beating():
        health._beat_at = SystemClock().monotonic() - 10
        status, told = asked(unused_tcp_port, "/healthz")  # blocks the loop, so it does not beat
        assert (status, told["status"]) == (503, "stuck")
        assert "the event loop has stood still for 10 s" in told["why"]
        assert asked(unused_tcp_port, "/readyz")[0] == 503

        async def beaten() -> bool:
            return (await asyncio.to_thread(asked, unused_tcp_port, "/healthz"))[0] == 200

        await eventually(beaten)


def test_it_is_ready_while_it_has_a_lease_that_was_renewed_and_does_not_stop(
    unused_tcp_port: int,
) -> None:
    health, lease = well(), Lease()

    def told() -> tuple[int, str]:
        status, answer = asked(unused_tcp_port, "/readyz")
        return status, answer["status"]

    with NodeMetrics().served(OutputSettings(metrics_port=unused_tcp_port), health):
        health.lease = None
        assert told() == (503, "not ready"), "it has not joined"
        health.lease = lease
        assert told() == (200, "ready")
        lease.since = None
        assert told() == (503, "not ready"), "PostgreSQL does not answer"
        lease.since, lease.trusted = 1.0, False
        assert told() == (503, "not ready")
        assert asked(unused_tcp_port, "/healthz")[0] == 200, "whatever the database does"
        lease.trusted = True
        health.stop.set()
        assert told() == (503, "stopping")


@contextmanager
def process(folder: Path, name: str, port: int, health: NodeHealth) -> Iterator[NodeMetrics]:
    """What a process of a command serves."""
    metrics = NodeMetrics()
    settings = OutputSettings(metrics_port=port, metrics_socket=str(folder / f"{name}.sock"))
    with metrics.served(settings, health):
        yield metrics


def test_whichever_process_is_asked_answers_for_all(tmp_path: Path, unused_tcp_port: int) -> None:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(process(tmp_path, name, unused_tcp_port, well()))
            for name in ("1", "2", "3")
        ]
        for number, metrics in enumerate(processes, 1):
            metrics(RunsPlanned(number))
        for _ in range(6):  # the system chooses who is asked
            found = Samples(text_at(unused_tcp_port))
            assert found.of("gnomon_cron_runs_planned_total") == 6
            assert found.of("gnomon_cron_runs_planned_total", process="2") == 2
            cpu = {s.labels["process"] for s in found.all if s.name == "process_cpu_seconds_total"}
            assert cpu == {"1", "2", "3"}
            assert found.text.count("# TYPE gnomon_cron_runs_planned_total counter") == 1
            assert all("process" in sample.labels for sample in found.all)
            helps = [line for line in found.text.splitlines() if line.startswith("# HELP")]
            assert len({line.split()[2] for line in helps}) == len(helps)
        open_metrics = text_at(unused_tcp_port, "application/openmetrics-text; version=1.0.0")
        assert open_metrics.endswith("# EOF\n")
        assert open_metrics.count("# TYPE gnomon_start_delay_seconds histogram") == 1


def test_one_that_is_unwell_is_told_by_all(tmp_path: Path, unused_tcp_port: int) -> None:
    ill = NodeHealth(SystemClock(), asyncio.Event(), stuck_seconds=-1.0)
    with ExitStack() as stack:
        stack.enter_context(process(tmp_path, "a", unused_tcp_port, well()))
        assert asked(unused_tcp_port, "/readyz") == (200, {"status": "ready"})
        with process(tmp_path, "b", 0, ill):
            status, told = asked(unused_tcp_port, "/healthz")
            assert (status, told["why"]) == (503, "b is not well")
        assert asked(unused_tcp_port, "/healthz")[0] == 200, "it has ended"
        (tmp_path / "killed.sock").touch()
        assert asked(unused_tcp_port, "/healthz")[0] == 200, "it is being restarted"
        status, told = asked(unused_tcp_port, "/readyz")
        assert (status, told["why"]) == (503, "killed does not answer")
        assert "gnomon_slots" in text_at(unused_tcp_port)


def test_a_process_takes_the_socket_of_the_one_before(tmp_path: Path) -> None:
    asker = Siblings(tmp_path / "asker.sock")
    with process(tmp_path, "a", 0, well()) as before:
        before(RunsPlanned(1))
        with process(tmp_path, "a", 0, well()) as after:
            after(RunsPlanned(5))
            (told,) = asker.ask("/metrics")
            assert Samples(told.body.decode()).of("gnomon_cron_runs_planned_total") == 5
    assert asker.ask("/metrics") == []


def test_other_paths_are_not_found(unused_tcp_port: int) -> None:
    with (
        NodeMetrics().served(OutputSettings(metrics_port=unused_tcp_port), well()),
        pytest.raises(urllib.error.HTTPError, match="404"),
    ):
        urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}/", timeout=10)
