"""Floods of one address are refused, and the work of another is done: `make floods`, in short."""

from pathlib import Path

import pytest
from proof.floods.scenario import CALM, RUNS, Size, faults, run, table

pytestmark = pytest.mark.system

SHORT = Size(seconds=2.0, rate=20.0, connections=150, address_connections=50)


@pytest.mark.parametrize("name", [name for name in RUNS if name != CALM])
async def test_normal_work_is_done_beside_a_flood(
    database_dsn: str, tmp_path: Path, name: str
) -> None:
    result = await run(name, database_dsn, tmp_path, SHORT)
    assert not faults(result), table([result])
