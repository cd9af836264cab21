"""The examples of the page about handlers do what it says."""

import asyncio
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.page_code import module_of
from tests.unit.sdk.claimed import delivery, in_thread

from gnomon.sdk.declaring.handler import Runs
from gnomon.sdk.executing.context import Progress, TaskContext
from gnomon.sdk.signals import Reject, Retry, Snooze


@pytest.fixture
def shop() -> Iterator[ModuleType]:
    with module_of("how-to/write-handlers.md", "shop_of_the_page") as module:
        yield module


class Execution:
    """One execution of a handler of the page."""

    def __init__(self, shop: ModuleType, attempt: int = 1) -> None:
        self._app = shop.app
        self.context = TaskContext(delivery("page", attempt))

    async def of(self, name: str, payload: Any = None) -> Any:
        text = None if payload is None else msgspec.json.encode(payload)
        return await self._app.execute(name, text, self.context, in_thread)


async def test_the_first_example(shop: ModuleType) -> None:
    assert shop.send_email.runs is Runs.LOOP
    assert shop.send_email.defaults.timeout_seconds == 30
    sent = await Execution(shop).of("send_email", {"user_id": "u_1"})
    assert sent == await shop.send_email("u_1") == shop.Receipt("welcome-u_1")
    with pytest.raises(Reject, match="nobody to write to"):
        await Execution(shop).of("send_email", {"user_id": ""})
    with pytest.raises(Reject, match="send_email: argument user_id: Expected `str`, got `int`"):
        await Execution(shop).of("send_email", {"user_id": 1})


async def test_arguments_of_several_types(shop: ModuleType) -> None:
    order = {
        "order": "01930000-0000-7000-8000-000000000001",
        "lines": [{"sku": "a", "amount": 2}, {"sku": "b", "amount": 3}],
        "due": "2030-01-31T00:00:00Z",
        "currency": "EUR",
    }
    assert await Execution(shop).of("invoice", order) == 5
    with pytest.raises(Reject, match="argument currency"):
        await Execution(shop).of("invoice", {**order, "currency": "GBP"})
    assert await Execution(shop).of("total", [1, 2]) == 3


async def test_the_context(shop: ModuleType) -> None:
    execution = Execution(shop)
    assert await execution.of("reindex", {"shards": 4}) == 4
    assert execution.context.reported == Progress(0.75, "shard 3")
    execution.context.tell_to_stop()
    with pytest.raises(Retry, match="not done"):
        await execution.of("reindex", {"shards": 4})
    with pytest.raises(Snooze):
        await Execution(shop).of("poll", {"export": "e"})
    assert await Execution(shop, attempt=3).of("poll", {"export": "e"}) == "e"


async def test_dependencies_and_the_lifespan(shop: ModuleType) -> None:
    async with shop.app.running():
        await asyncio.gather(
            Execution(shop).of("charge", {"user_id": "u", "cents": 5}),
            Execution(shop).of("charge", {"user_id": "v", "cents": 6}),
        )
        with pytest.raises(Reject):
            await Execution(shop).of("charge", {"user_id": "u", "cents": -5})
        assert sorted(shop.app.state.accounts.written) == ["u 5", "v 6"]
        other = shop.Accounts()
        with shop.app.override(shop.get_accounts, lambda: other):
            await Execution(shop).of("charge", {"user_id": "w", "cents": 7})
        assert other.written == ["w 7"]


async def test_middleware(shop: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "gnomon.task"):
        await Execution(shop).of("total", [1])
    assert [record.getMessage() for record in caplog.records] == ["begins", "ends"]


async def test_recurring_jobs(shop: ModuleType) -> None:
    jobs = {job.name: job.spec for job in shop.app.jobs}
    assert list(jobs) == ["report", "sweep-all", "sweep-new"]
    assert jobs["report"].timezone == "America/New_York"
    assert jobs["sweep-new"].interval_seconds == 600
    assert await Execution(shop).of("report") == "report for 2027-01-15"
    assert await Execution(shop).of("sweep", {"older_than": 60}) is None
