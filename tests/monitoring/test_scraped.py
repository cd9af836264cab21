"""Real processes under a real Prometheus: every expression answers, and an alert arrives."""

import asyncio
import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.names import NAMES
from deploy.monitoring.objectives import COUNT, RATIO, TARGET, WINDOWS
from deploy.monitoring.panels import WINDOW
from deploy.monitoring.rules import ALERTS, files
from deploy.monitoring.windows import scaled
from proof.alerts.campaign import background
from proof.alerts.prometheus import SCRAPE, Prometheus, free_port, scraping, started
from proof.alerts.world import World
from tests.commands import Running, cli, running
from tests.conftest import PostgresServer, fresh_database
from tests.monitoring.programs import require
from tests.system.harness import PATIENCE

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

SCALE = 20.0
_SCRAPES = 3  # within the shortest window: a rate needs two, and one may be late
_LOOK_SECONDS = 0.5
ROUTES = """
route: {{receiver: all, group_wait: 0s, group_interval: 1s, group_by: [alertname]}}
receivers:
  - name: all
    webhook_configs: [{{url: "{url}"}}]
"""
# Absent without a standby, a disk that can be seen, or an error; promtool has their cases.
ABSENT = ("gnomon_replication_lag_seconds", "gnomon_disk_", "gnomon_chore_errors_total")
# What each has is told by a case of promtool; of these no more is asked than that they exist.
NUMBERLESS = ("gnomon_recovery_seconds", "gnomon_cron_start_delay_seconds")


class Scraped(NamedTuple):
    """What runs, and the loop that it runs on."""

    runner: asyncio.Runner
    world: World
    prometheus: Prometheus
    listener: Running


@pytest.fixture(scope="module")
def scraped(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scraped]:
    require("prometheus", "prometheus-alertmanager")
    folder = tmp_path_factory.mktemp("scraped")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield runner.run(_start(stack, runner, postgres, folder))
        finally:
            runner.run(stack.aclose())


async def _start(
    stack: AsyncExitStack, runner: asyncio.Runner, postgres: PostgresServer, folder: Path
) -> Scraped:
    dsn = await stack.enter_async_context(fresh_database(postgres))
    world = World(dsn, folder)
    await stack.enter_async_context(world.running())
    listener = stack.enter_context(
        running("listen", "--port", "0", "--json", cwd=folder, env={"DATABASE_URL": dsn})
    )
    routes = folder / "alertmanager.yml"
    routes.write_text(ROUTES.format(url=listener.event("listening")["url"]))
    alertmanager = f"127.0.0.1:{free_port()}"
    stack.enter_context(
        started(
            folder / "alertmanager.log",
            "prometheus-alertmanager",
            f"--config.file={routes}",
            f"--storage.path={folder}/alertmanager",
            f"--web.listen-address={alertmanager}",
            "--cluster.listen-address=",
        )
    )
    watched = world.watched._replace(
        tenants=world.watched.processes[:1], alertmanagers=[alertmanager]
    )
    prometheus = stack.enter_context(scraping(folder / "prometheus", watched, SCALE))
    return Scraped(runner, world, prometheus, listener)


def test_the_shortest_window_has_scrapes_enough() -> None:
    """Prometheus scrapes and evaluates at fixed places of the same beat: of a window that is hardly
    longer, a rate has a value in some runs, and never in others."""
    windows = [int(each) for each in re.findall(r"\[(\d+)ms\]", "".join(files(SCALE).values()))]
    assert min(windows) >= _SCRAPES * int(SCRAPE.removesuffix("ms"))


def expressions() -> set[str]:
    """All that rules and dashboards ask, and every series that an alert names."""
    asked = {scaled(alert.value, 1) for alert in ALERTS}
    asked |= {name.record for name in NAMES} | {TARGET}
    asked |= {f"{record}{window}" for record in (RATIO, COUNT) for window in WINDOWS}
    for dashboard in DASHBOARDS:
        asked |= {
            each.replace(WINDOW, "1m").replace("$tenant", "default")
            for each in dashboard.expressions()
        }
    for alert in ALERTS:
        asked |= set(re.findall(r"gnomon_\w+(?:\{[^}]*\})?", alert.expression))
    return {each for each in asked if not any(name in each for name in ABSENT)}


def test_every_expression_answers_with_numbers(scraped: Scraped) -> None:
    """After successes, failures, retries, dead letters and runs of a job."""

    async def all_answer() -> None:
        world, unanswered = scraped.world, expressions()
        async with background(world.normal_load()):
            for priority in ("CRITICAL", "HIGH", "LOW"):
                await world.submit("work", 5, priority=priority)
            await world.submit("reject", 3, retry_policy={"max_retries": 1})

            deadline = time.monotonic() + PATIENCE
            while unanswered and time.monotonic() < deadline:
                await asyncio.sleep(_LOOK_SECONDS)
                found = await asyncio.to_thread(_answered, scraped.prometheus, unanswered)
                unanswered -= found
        assert unanswered == set()

    scraped.runner.run(all_answer())


def _answered(prometheus: Prometheus, expressions: set[str]) -> set[str]:
    return {each for each in expressions if _answers(prometheus, each)}


def _answers(prometheus: Prometheus, expression: str) -> bool:
    values = [sample.value for sample in prometheus.query(expression)]
    if any(name in expression for name in NUMBERLESS):
        return bool(values)
    return any(not math.isnan(value) for value in values)


def test_an_alert_arrives_and_is_resolved(
    scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus, Alertmanager, `gnomon listen`; and the command that the runbook names."""
    flood = scraped.world.submit("reject", 150, retry_policy={"max_retries": 0})
    assert scraped.runner.run(flood) == 202
    told = _told(scraped.listener, "GnomonDeadLettersMany")
    assert told["status"] == "firing"
    assert told["labels"]["severity"] == "P2"
    assert told["annotations"]["runbook_url"] == "docs/runbooks/dead-letters-many.md"
    monkeypatch.setenv("GNOMON_URL", scraped.world.url)
    scraped.runner.run(cli("dead", "archive", "--all", "--yes", "--note", "a trial"))
    while _told(scraped.listener, "GnomonDeadLettersMany")["status"] != "resolved":
        pass


def _told(listener: Running, name: str) -> dict[str, Any]:
    """The next that `gnomon listen` prints of an alert."""
    while True:
        body = json.loads(listener.event("call")["body"])
        for alert in body["alerts"]:
            if alert["labels"]["alertname"] == name:
                found: dict[str, Any] = alert
                return found
