"""Fixtures for pytest. Every run of pytest loads this file where Gnomon is installed, so it imports
what it needs where it needs it.

The app is named by the setting `gnomon_app = "shop:app"`, or given by a fixture `gnomon_app` of
your own.
"""

import inspect
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from gnomon import Gnomon
    from gnomon.testing.databases import DatabaseServer
    from gnomon.testing.inline_mode import InlineGnomon
    from gnomon.testing.virtual import VirtualGnomon

T = TypeVar("T")

_ASYNCIO_FIXTURES = "gnomon.testing.pytest_asyncio_fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("gnomon_app", "the Gnomon app to test, as module:attribute", default="")


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("asyncio"):
        config.pluginmanager.import_plugin(_ASYNCIO_FIXTURES)


@pytest.fixture
def gnomon_app(request: pytest.FixtureRequest) -> "Gnomon":
    """The app that the setting `gnomon_app` names. Define such a fixture to give another."""
    path: str = request.config.getini("gnomon_app")
    if not path:
        raise pytest.UsageError(
            'no app to test: set gnomon_app = "module:app" in the settings of pytest, or define a '
            "fixture gnomon_app that returns it"
        )
    from gnomon.sdk.declaring.loading import load_app

    return load_app(path)


@pytest.fixture(scope="session")
def gnomon_server() -> "Iterator[DatabaseServer]":
    """The embedded PostgreSQL of this test process. Workers of pytest-xdist have one each."""
    from gnomon.testing.databases import server, stop_server

    yield server()
    stop_server()


@pytest.fixture
def gnomon_database(gnomon_server: "DatabaseServer") -> Iterator[str]:
    """The URL of a fresh, migrated database for this test. It is dropped afterwards."""
    name = _blocking(gnomon_server.create())
    yield gnomon_server.dsn_of(name)
    _blocking(gnomon_server.drop(name))


@pytest.fixture
def gnomon(request: pytest.FixtureRequest) -> "InlineGnomon":
    """The app with handlers that run where they are submitted: `gnomon.testing.inline`, or
    `inline_sync` where the test is no coroutine."""
    testing: InlineGnomon = _chosen(request, "inline")
    return testing


@pytest.fixture
def virtual_gnomon(request: pytest.FixtureRequest) -> "VirtualGnomon":
    """The app on a virtual clock, with a database of its own: `gnomon.testing.virtual_gnomon`."""
    testing: VirtualGnomon = _chosen(request, "virtual")
    return testing


@pytest.fixture
def gnomon_recording(gnomon_app: "Gnomon") -> "Iterator[InlineGnomon]":
    """The app with submissions that are only recorded: `gnomon.testing.recording`."""
    from gnomon.testing import recording

    with recording(gnomon_app) as testing:
        yield testing


def _chosen(request: pytest.FixtureRequest, mode: str) -> Any:
    """The fixture for whoever runs the coroutine of this test."""
    if not inspect.iscoroutinefunction(getattr(request, "function", None)):
        if mode == "inline":
            return request.getfixturevalue("_gnomon_inline_sync")
        raise pytest.UsageError("virtual_gnomon is for tests that are coroutines: async def test_…")
    runner = "anyio" if "anyio_backend" in request.fixturenames else "asyncio"
    return request.getfixturevalue(f"_gnomon_{mode}_{runner}")


@pytest.fixture
def _gnomon_inline_sync(gnomon_app: "Gnomon") -> "Iterator[InlineGnomon]":
    from gnomon.testing import inline_sync

    with inline_sync(gnomon_app) as testing:
        yield testing


@pytest.fixture
async def _gnomon_inline_anyio(gnomon_app: "Gnomon") -> "AsyncIterator[InlineGnomon]":
    from gnomon.testing import inline

    async with inline(gnomon_app) as testing:
        yield testing


@pytest.fixture
async def _gnomon_virtual_anyio(
    gnomon_app: "Gnomon", gnomon_database: str
) -> "AsyncIterator[VirtualGnomon]":
    from gnomon.testing import virtual_gnomon

    async with virtual_gnomon(gnomon_app, database_url=gnomon_database) as testing:
        yield testing


def _blocking(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, whatever loop this thread may run."""
    import asyncio
    import threading

    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again, where it belongs
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
