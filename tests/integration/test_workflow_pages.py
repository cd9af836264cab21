"""The page about workflows, run as it stands."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.integration.test_sdk_pages import served
from tests.page_code import DOCS, module_of

from gnomon.testing import virtual_gnomon


@pytest.fixture
def shop() -> Iterator[ModuleType]:
    with module_of("how-to/workflows.md", "workflows_of_the_page") as module:
        yield module


async def test_the_order_and_its_test(shop: ModuleType) -> None:
    await shop.check_the_order()


async def test_the_nightly_etl(shop: ModuleType) -> None:
    async with virtual_gnomon(shop.app) as g:
        run = await shop.etl.start("2030-01-31")
        assert await run.result() == "2030-01-31: 90 rows of 3 files"
        await g.client.trigger_cron_job("etl")
        await g.drain()
        runs = [each async for each in g.client.list_workflow_runs(workflow="etl")]
        assert [each.status for each in runs] == ["SUCCEEDED", "SUCCEEDED"]
        indexed = await shop.indexed.start("/")
        assert await indexed.result() == 4
        run = await shop.sales.start("2030-01-31")
        assert await run.result() == "2030-01-31: 90 rows of 3 files"
        await shop.approve("o-9")
        await g.advance("1h1m")
        (refund,) = [each async for each in g.client.list_workflow_runs(workflow="refund")]
        assert refund.status == "SUCCEEDED"


async def test_the_order_over_http_with_a_worker(
    shop: ModuleType, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(shop, database_dsn, monkeypatch):
        await shop.app.client.put_workflow(shop.order.definition)
        assert await asyncio.wait_for(shop.sell("o-7", ["tea"]), 60) == "parcel o-7"
        assert await asyncio.wait_for(shop.sell("o-7", ["tea"]), 60) == "parcel o-7"
        assert len([each async for each in shop.app.client.list_workflow_runs()]) == 1


async def test_the_definition_in_json(shop: ModuleType) -> None:
    text = (DOCS / "how-to/workflows.md").read_text()
    found = re.search(r"(?ms)^```json\n(.*?)^```", text)
    assert found is not None
    async with virtual_gnomon(shop.app) as g:
        stored = await g.client.put_workflow(json.loads(found[1]))
        again = await g.client.put_workflow(json.loads(found[1]))
        assert (stored.name, stored.version, again.version) == ("greet", 1, 1)


def test_the_page_names_a_file_that_can_be_copied() -> None:
    assert "# shop.py" in Path(DOCS / "how-to/workflows.md").read_text()
