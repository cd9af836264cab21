"""The workflows of examples/, run through the engine on a virtual clock."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gnomon import WorkflowFailed
from gnomon.testing import virtual_gnomon

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def test_an_order_that_cannot_be_shipped_is_undone() -> None:
    found = example("order")
    stock = dict(found.shop.stock)
    async with virtual_gnomon(found.app):
        good = await found.order.start("o-1", ["tea", "pot"])
        assert await good.result() == "parcel-o-1"
        heavy = await found.order.start("o-2", ["tea", "anvil"])
        with pytest.raises(WorkflowFailed, match="too heavy") as failed:
            await heavy.result()
        nodes = {each.node: each for each in failed.value.run.nodes}
    assert failed.value.status == "ROLLED_BACK"
    undone = nodes["compensate:charge"], nodes["compensate:reserve"]
    assert [each.status for each in undone] == ["COMPLETED", "COMPLETED"]
    assert found.shop.charged == {"o-1": 2498}
    assert found.shop.reserved == {"o-1": ["tea", "pot"]}
    assert found.shop.stock == stock | {"tea": stock["tea"] - 1, "pot": stock["pot"] - 1}
    assert found.shop.parcels == ["o-1"]


async def test_the_nightly_etl_loads_each_file_of_its_day() -> None:
    found = example("etl")
    async with virtual_gnomon(found.app):
        run = await found.etl.start("2026-11-17")
        told = await run.result()
    assert told == found.published["2026-11-17"]
    assert told.startswith("126 rows of 4 files")
    assert len(found.warehouse) == 126
