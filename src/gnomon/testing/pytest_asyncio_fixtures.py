"""The asynchronous fixtures of `pytest_plugin` for pytest-asyncio, in its strict mode, too."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

if TYPE_CHECKING:
    from gnomon import Gnomon
    from gnomon.testing.inline_mode import InlineGnomon
    from gnomon.testing.virtual import VirtualGnomon


@pytest_asyncio.fixture
async def _gnomon_inline_asyncio(gnomon_app: "Gnomon") -> "AsyncIterator[InlineGnomon]":
    from gnomon.testing import inline

    async with inline(gnomon_app) as testing:
        yield testing


@pytest_asyncio.fixture
async def _gnomon_virtual_asyncio(
    gnomon_app: "Gnomon", gnomon_database: str
) -> "AsyncIterator[VirtualGnomon]":
    from gnomon.testing import virtual_gnomon

    async with virtual_gnomon(gnomon_app, database_url=gnomon_database) as testing:
        yield testing
