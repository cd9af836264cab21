"""Workflows of an app that recur: overlap rules are about runs, on a virtual clock."""

from datetime import UTC, datetime

import pytest
from tests.conftest import PostgresServer, fresh_database

from gnomon import Gnomon, InvalidHandler, Overlap, wait_for_time
from gnomon.model.targets.target import WorkflowTarget
from gnomon.testing import virtual_gnomon

app = Gnomon()
ticks: list[str] = []


@app.task
async def tick(job: str, at: str, note: str) -> None:
    assert note == "{{note}}"
    ticks.append(f"{job} {at}")


@app.cron(
    "0 * * * *", name="skips", overlap="skip", payload={"job": "skips", "at": "{{fire_time | %H}}"}
)
@app.cron(
    "0 * * * *",
    name="queues",
    overlap="queue",
    payload={"job": "queues", "at": "{{fire_time | %H}}"},
)
@app.workflow
def slow(job: str, at: str, note: str = "{{note}}") -> None:
    waited = wait_for_time("90m")
    tick.step(job, at, note).after(waited)


async def test_overlap_rules_are_about_runs(postgres: PostgresServer) -> None:
    start = datetime(2026, 6, 1, 0, 30, tzinfo=UTC)
    async with (
        fresh_database(postgres) as dsn,
        virtual_gnomon(app, start=start, database_url=dsn) as g,
    ):
        await g.advance("5h45m")
        jobs = {each.name: each async for each in g.client.list_cron_jobs()}
        runs = [each async for each in g.client.list_workflow_runs(workflow="slow")]
    assert sorted(jobs) == ["queues", "skips"]
    assert jobs["skips"].target == WorkflowTarget("slow")
    # A run takes from its fire, or its start, for 90 minutes.
    assert [each for each in ticks if each.startswith("skips")] == ["skips 01", "skips 03"]
    assert [each for each in ticks if each.startswith("queues")] == [
        "queues 01",
        "queues 02",
        "queues 03",
    ]
    assert {each.status for each in runs} == {"SUCCEEDED", "RUNNING"}


def test_a_job_whose_workflow_cannot_take_its_payload_is_refused() -> None:
    shop = Gnomon()

    @shop.workflow
    def greet(name: str) -> None:
        wait_for_time("1h").named(f"wait_{len(shop.jobs)}")

    with pytest.raises(InvalidHandler, match="cron job 'greet': payload:"):
        shop.cron("0 * * * *", payload={"nmae": "x"})(greet)
    with pytest.raises(InvalidHandler, match="is of another app"):
        Gnomon().every("1h", payload={"name": "x"})(greet)
    shop.every("1h", payload={"name": "x"}, overlap=Overlap.SKIP)(greet)
    with pytest.raises(InvalidHandler, match="two cron jobs are called 'greet'"):
        shop.every("2h", payload={"name": "x"})(greet)
