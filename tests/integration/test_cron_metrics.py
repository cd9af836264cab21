"""What a node counts while recurring jobs run on it."""

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.cron_support import created
from tests.integration.nodes import running_node
from tests.waiting import eventually

from gnomon.cron.job import Overlap
from gnomon.model.targets.target import PythonTarget
from gnomon.store.postgres.database import Database


async def scraped(port: int) -> dict[str, float]:
    """The sum over all labels of each metric."""
    url = f"http://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        text = await answer.text()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def test_runs_that_start_and_runs_that_are_skipped(
    database: Database, database_dsn: str, unused_tcp_port: int
) -> None:
    payload = msgspec.Raw(b'{"who": "test_cron_metrics"}')
    async with running_node(
        database_dsn, output_metrics_port=unused_tcp_port, node_drain_seconds=0.1
    ):
        await created(
            database, name="quick", overlap_policy=Overlap.ALLOW, payload_template=payload
        )
        # Ends only with its node, so every run after the first is skipped.
        await created(
            database,
            name="slow",
            target=PythonTarget("wait_at_the_gate"),
            payload_template=payload,
        )

        async def all_counted() -> bool:
            found = await scraped(unused_tcp_port)
            return (
                found["gnomon_cron_runs_planned_total"] > 0
                and found["gnomon_cron_runs_skipped_total"] > 0
                and found["gnomon_cron_start_delay_seconds_count"] > 1
            )

        await eventually(all_counted)
        found = await scraped(unused_tcp_port)
    assert found["gnomon_cron_sla_missed_total"] == 0
    assert found["gnomon_cron_fires_missed_total"] == 0
    assert found["gnomon_cron_start_delay_seconds_sum"] >= 0
