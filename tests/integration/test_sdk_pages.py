"""The pages about submitting from Python, run as they stand."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import ModuleType

import pytest
from tests.conftest import serving
from tests.integration.nodes import running_node
from tests.page_code import module_of
from tests.waiting import eventually


@asynccontextmanager
async def served(module: ModuleType, dsn: str, patch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """An API that the page's app submits to, and a node that runs its handlers."""
    async with serving(dsn) as api, running_node(dsn, node_app=f"{module.__name__}:app"):
        patch.setenv("GNOMON_URL", str(api._base_url))
        try:
            yield
        finally:
            await module.app.close()


@pytest.fixture
def submitting() -> Iterator[ModuleType]:
    with module_of("how-to/submit-from-python.md", "submitting_of_the_page") as module:
        yield module


@pytest.fixture
def celery() -> Iterator[ModuleType]:
    with module_of("how-to/coming-from-celery.md", "celery_of_the_page") as module:
        yield module


async def test_submit_from_python(
    submitting: ModuleType, database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(submitting, database_dsn, monkeypatch):
        assert await submitting.welcome("u_1") == "welcome-u_1"
        await submitting.remind("u_1")
        receipt = await asyncio.to_thread(submitting.welcome_now, "u_2")
        assert receipt == submitting.Receipt("welcome-u_2")
        assert await submitting.welcome_all([f"u_{n}" for n in range(5)]) == 5
        # welcome, remind twice with one of them by a key, welcome_now, and five
        assert len([each async for each in submitting.app.client.list_tasks()]) == 9


async def test_from_celery(
    celery: ModuleType,
    database_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with served(celery, database_dsn, monkeypatch):
        await asyncio.to_thread(celery.main)
        assert capsys.readouterr().out.splitlines()[-1] == "welcome-u_1"
        unreachable = await celery.send_email.submit("nobody")

        async def will_retry() -> bool:
            return (await unreachable.task()).next_retry_at is not None

        await eventually(will_retry)
        assert "nobody is unreachable" in ((await unreachable.task()).last_error or "")
        await celery.app.client.put_workflow(celery.publish.definition)
        run = await celery.publish.start("cat.png")
        assert await run.result(timeout="1m") == "https://images.example.com/small-cat.png"
        assert [job.name for job in celery.app.jobs] == ["report"]
