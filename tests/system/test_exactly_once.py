"""The short version of `make exactly-once`: own transactions of workers, programs and a relay."""

from pathlib import Path

import pytest
from proof.exactly_once.scenario import Size, run

pytestmark = pytest.mark.system

SMALL = Size(increments=200, kills=2, transactions=60, program_kills=2, workers=2)


async def test_kills_neither_lose_nor_repeat_anything(tmp_path: Path) -> None:
    assert await run(tmp_path, SMALL) == []
