"""A real Prometheus over real processes, with the rules of `deploy/` and their windows scaled."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from deploy.monitoring import rules
from tests.waiting import eventually_sync

SCRAPE = "700ms"
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
_CONFIG = """
global: {{scrape_interval: {every}, scrape_timeout: {every}, evaluation_interval: {every}}}
rule_files: ["gnomon-*.yml"]
alerting:
  alertmanagers: [{{static_configs: [{{targets: {alertmanagers}}}]}}]
scrape_configs:
  - {{job_name: gnomon, static_configs: [{{targets: {targets}}}]}}
  - job_name: gnomon-tenant
    metrics_path: /api/v1/metrics
    static_configs: [{{targets: {tenants}}}]
"""


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float


class Prometheus:
    """One that runs, as its HTTP API shows it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[Sample]:
        asked = f"{self.url}/api/v1/query?{urlencode({'query': expression})}"
        with urlopen(asked, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
        return [Sample(each["metric"], float(each["value"][1])) for each in found]

    def fired(self) -> set[str]:
        """The alerts that have fired since its start."""
        seen = self.query('count_over_time(ALERTS{alertstate="firing"}[1h])')
        return {sample.labels["alertname"] for sample in seen}

    def answers(self) -> bool:
        try:
            return bool(self.query("vector(1)"))
        except (URLError, ConnectionError, TimeoutError):
            return False


class Watched(NamedTuple):
    """Host and port of what is scraped, and of who is told."""

    processes: Sequence[str]
    tenants: Sequence[str] = ()  # APIs that are asked about one tenant
    alertmanagers: Sequence[str] = ()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@contextmanager
def scraping(folder: Path, watched: Watched, scale: float) -> Iterator[Prometheus]:
    """A Prometheus with an empty memory, until the end of the context."""
    folder.mkdir(parents=True)
    for name, text in rules.files(scale).items():
        (folder / name).write_text(text)
    config = _CONFIG.format(
        every=SCRAPE,
        targets=json.dumps(list(watched.processes)),
        tenants=json.dumps(list(watched.tenants)),
        alertmanagers=json.dumps(list(watched.alertmanagers)),
    )
    (folder / "prometheus.yml").write_text(config)
    address = f"127.0.0.1:{free_port()}"
    with started(
        folder / "prometheus.log",
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ):
        found = Prometheus(f"http://{address}")
        eventually_sync(found.answers)
        yield found


@contextmanager
def started(log: Path, *command: str) -> Iterator["subprocess.Popen[Any]"]:
    """A program of others, until the end of the context."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_ENDS_WITH_US, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
