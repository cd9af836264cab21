"""The short version of `make poison`: a killer beside the tasks of others, on two nodes."""

from pathlib import Path

import pytest
from proof.poison.scenario import Seen, Size, judge, run

pytestmark = pytest.mark.system

SMALL = Size(nodes=2, innocents=60, tenants=3, task=0.5, spread=2.0, killers=1, every=0.5, fuse=0.3)


async def test_killers_are_buried_and_others_are_completed_soon(tmp_path: Path) -> None:
    seen = await run(tmp_path / "world", SMALL, SMALL.killers)
    print(seen.readable())
    assert judge(Seen([0.0] * SMALL.innocents, 0, 0, 0), seen, SMALL) == []
