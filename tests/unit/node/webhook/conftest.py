"""The client of webhooks on both loops: a node has uvloop where there is one."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop
from tests.certificates import Authority

from gnomon.node.run.targets.webhook import connections


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """One that the system trusts."""
    made = Authority(tmp_path, "trusted")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    connections._tls.cache_clear()
    yield made
    connections._tls.cache_clear()
