"""Several sizes of an axis: what they come to beside the first, and in a picture."""

from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
import typer
from bench.growth import AXES, QUANTITIES, Point, draw, measures
from bench.long_runs import sizes_of

NO_ARENA = cast("Any", None)  # these were measured


def measured(size: int, values: dict[str, list[float]]) -> Point:
    point = Point(NO_ARENA, size, 1, [])
    assert point.values.keys() == values.keys()
    point.values = values
    return point


POINTS = [
    measured(0, {"drain": [90.0, 100.0, 110.0], "sustained": [50.0], "herd": [4.0]}),
    measured(500, {"drain": [40.0, 50.0, 75.0], "sustained": [50.0], "herd": [5.0]}),
]


@pytest.mark.parametrize("axis", AXES)
def test_every_size_is_compared_with_the_first(axis: str) -> None:
    found = {measure.name: measure for measure in measures(axis, POINTS)}
    names = {f"growth_{axis}_{size}_{name}" for size in (0, 500) for name in QUANTITIES}
    ratios = {f"growth_{axis}_{name}_ratio" for name in QUANTITIES}
    assert found.keys() == (names if axis == "nodes" else names | ratios)
    assert found[f"growth_{axis}_500_drain"].value == 50.0
    assert found[f"growth_{axis}_500_drain"].note == "0.50 of the first; 40, 50, 75"
    if axis != "nodes":
        assert found[f"growth_{axis}_drain_ratio"].value == 0.5
        assert found[f"growth_{axis}_sustained_ratio"].value == 1.0
        assert found[f"growth_{axis}_herd_ratio"].value == 1.25


def test_a_picture_has_a_bar_for_each_size(tmp_path: Path) -> None:
    draw("scheduled", POINTS, tmp_path / "new")
    picture = ElementTree.parse(tmp_path / "new" / "growth-scheduled.svg")
    shown = [each.text for each in picture.iter() if each.tag.endswith("text")]
    assert [text for text in shown if text in ("0", "500")] == ["0", "500"] * len(QUANTITIES)


def test_sizes_are_read() -> None:
    assert sizes_of("scheduled", "0,500") == (0, 500)
    with pytest.raises(typer.BadParameter):
        sizes_of("scheduled", "many")
