"""The plugin as a user's pytest loads it, in a process of its own. The auto mode of pytest-asyncio
is what the examples of the docs run in: see test_docs_testing."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

_SHOP = """
from gnomon import Gnomon, TaskContext

app = Gnomon()
sent = []

@app.task
async def send_email(user_id: str, template: str = "welcome") -> str:
    sent.append(user_id)
    return f"{template} to {user_id}"

@app.cron("0 9 * * *", timezone="Europe/Berlin")
async def report(ctx: TaskContext) -> None:
    await send_email.submit(user_id="boss", template="report")
"""
_ASYNC_TESTS = """
from shop import send_email

{mark}
async def test_inline(gnomon):
    handle = await send_email.submit(user_id="u_1")
    assert await handle.result() == "welcome to u_1"
    gnomon.assert_submitted(send_email, user_id="u_1")

{mark}
async def test_virtual(virtual_gnomon):
    handle = await send_email.options(delay="3 days").submit(user_id="u_2")
    await virtual_gnomon.advance("3 days")
    assert await handle.result() == "welcome to u_2"
    assert len(virtual_gnomon.submitted_to(send_email)) == 4
"""
_SYNC_TESTS = """
import os
import pytest
import shop

def test_inline(gnomon):
    assert shop.send_email.submit_sync(user_id="u_1").result_sync() == "welcome to u_1"
    gnomon.assert_submitted(shop.send_email, user_id="u_1")

def test_recording(gnomon_recording):
    before = list(shop.sent)
    shop.send_email.submit_sync(user_id="u_2")
    gnomon_recording.assert_submitted(shop.send_email, user_id="u_2")
    assert shop.sent == before

@pytest.mark.parametrize("number", range(2))
def test_databases_are_fresh(gnomon_database, number):
    import psycopg
    with psycopg.connect(gnomon_database, autocommit=True) as connection:
        count = connection.execute("SELECT count(*) FROM gnomon.tenant").fetchone()[0]
        assert count == 1
        connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('mine')")
"""

# Plugins of others: slow to load, and they may load what they like.
_OTHERS = ("hypothesispytest", "schemathesis", "faker", "timeout")


async def _pytest(folder: Path, tests: str, *options: str, app: str = "shop:app") -> str:
    """What pytest says of these tests; its exit code first."""
    (folder / "shop.py").write_text(_SHOP)
    (folder / "test_shop.py").write_text(tests)
    setting = f'gnomon_app = "{app}"\n' if app else ""
    (folder / "pyproject.toml").write_text(
        f'[tool.pytest.ini_options]\npythonpath = ["."]\n{setting}'
    )
    without = [f"-pno:{plugin}" for plugin in (*_OTHERS, "cacheprovider")]
    command = [sys.executable, "-m", "pytest", *without, *options]
    ended = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, timeout=100
    )
    return f"exit {ended.returncode}\n{ended.stdout}\n{ended.stderr}"


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("import pytest\n@pytest.mark.asyncio", ["-o", "asyncio_mode=strict"]),
        ("import pytest\n@pytest.mark.anyio", ["-p", "no:asyncio"]),
        ("import pytest\n@pytest.mark.anyio", ["-o", "asyncio_mode=strict"]),
    ],
    ids=["asyncio-strict", "anyio", "anyio-beside-asyncio"],
)
async def test_fixtures_for_coroutines(tmp_path: Path, mark: str, options: list[str]) -> None:
    if "anyio" in mark:  # on asyncio alone
        (tmp_path / "conftest.py").write_text(
            "import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
        )
    told = await _pytest(tmp_path, _ASYNC_TESTS.format(mark=mark), *options)
    assert "2 passed" in told, told


async def test_fixtures_for_plain_functions_also_in_parallel(tmp_path: Path) -> None:
    told = await _pytest(tmp_path, _SYNC_TESTS, "-n", "2")
    assert "4 passed" in told, told


async def test_a_fixture_of_the_users_own_names_the_app(tmp_path: Path) -> None:
    fixture = (
        "import pytest\nimport shop\n\n@pytest.fixture\ndef gnomon_app():\n    return shop.app\n"
    )
    told = await _pytest(tmp_path, fixture + _SYNC_TESTS, "-k", "inline", app="")
    assert "1 passed" in told, told


async def test_what_is_missing_is_said(tmp_path: Path) -> None:
    tests = "def test_one(gnomon): ...\n\ndef test_other(virtual_gnomon): ..."
    told = await _pytest(tmp_path, tests, app="")
    assert 'set gnomon_app = "module:app"' in told, told
    assert "virtual_gnomon is for tests that are coroutines" in told, told


async def test_it_costs_nothing_where_it_is_not_used(tmp_path: Path) -> None:
    tests = """
import sys

def test_nothing_was_loaded(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("gnomon")
    heavy = ("gnomon.sdk", "gnomon.client", "gnomon.store", "asyncpg", "msgspec", "litestar")
    assert [name for name in heavy if name in sys.modules] == []
"""
    told = await _pytest(tmp_path, tests, "-pno:asyncio", "-pno:anyio")
    assert "1 passed" in told, told
