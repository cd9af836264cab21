"""Tasks that FastAPI and Flask submit, and handlers within Flask."""

import asyncio
import importlib
import re
from pathlib import Path

import httpx
import pytest
from tests.conftest import serving
from tests.integration import web_apps
from tests.integration.nodes import running_node
from tests.unit.sdk.claimed import executed

from gnomon.integrations.flask import FlaskGnomon

DOCS = Path(__file__).parents[2] / "docs"


async def test_fastapi_submits_for_as_long_as_it_runs(
    database_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_app = f"{web_apps.__name__}:tasks"
    async with serving(database_dsn) as api, running_node(database_dsn, node_app=node_app):
        monkeypatch.setenv("GNOMON_URL", str(api._base_url))
        async with (
            web_apps.api.router.lifespan_context(web_apps.api),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(web_apps.api), base_url="http://shop", timeout=60
            ) as client,
        ):
            answer = await client.post("/greet/you")
            assert answer.json() == {"said": "hello you"}
            assert web_apps.tasks._links
        assert not web_apps.tasks._links


async def test_fastapi_says_at_its_start_that_a_setting_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GNOMON_URL", "ftp://nowhere")
    with pytest.raises(ValueError, match="address must be like"):
        async with web_apps.api.router.lifespan_context(web_apps.api):
            raise AssertionError("it started")


@pytest.mark.parametrize("path", ["/praise/you", "/praise/you?async"])
async def test_flask_submits_and_its_handlers_have_its_context(
    path: str, database_dsn: str
) -> None:
    node_app = f"{web_apps.__name__}:flask_tasks"
    async with serving(database_dsn) as api, running_node(database_dsn, node_app=node_app):
        flask = web_apps.create_app(GNOMON_URL=str(api._base_url))
        assert flask.extensions["gnomon"] is web_apps.flask_tasks
        answer = await asyncio.to_thread(flask.test_client().post, path)
        assert answer.json == {"said": "well done, you"}
    web_apps.flask_tasks.close_sync()


async def test_handlers_without_a_flask_application_say_so() -> None:
    with pytest.raises(RuntimeError, match="init_app"):
        await executed(FlaskGnomon(), "praise")


@pytest.mark.parametrize("framework", ["fastapi", "flask"])
async def test_the_program_of_the_page_submits(
    framework: str, database_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = DOCS / "how-to" / f"use-with-{framework}.md"
    name = f"shop_with_{framework}"
    program = re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text())[0]
    (tmp_path / f"{name}.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    node_app = f"{name}:tasks"
    async with serving(database_dsn) as api, running_node(database_dsn, node_app=node_app):
        monkeypatch.setenv("GNOMON_URL", str(api._base_url))
        shop = importlib.import_module(name)
        if framework == "flask":
            post = shop.app.test_client().post
            task_id = (await asyncio.to_thread(post, "/users/u_1")).json["task"]
        else:
            transport = httpx.ASGITransport(shop.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
                task_id = (await client.post("/users/u_1")).json()["task"]
                status = (await client.get(f"/emails/{task_id}")).json()
                assert status["error"] is None
        result = await shop.tasks.handle(task_id, shop.send_email).result(timeout="60s")
        assert result.endswith("sent welcome to u_1")
        await shop.tasks.close()
