"""The pictures of the docs are small, and are the ones that pages show."""

import re
from pathlib import Path

from tests.dashboard.screenshots import IMAGES, MOST_BYTES, PICTURES

_ROOT = Path(__file__).parents[2]


def test_the_docs_show_the_pictures_that_there_are() -> None:
    kept = {path.name for path in IMAGES.iterdir()}
    taken = {name for name in kept if name.endswith(".png")}  # others are drawn
    assert taken == {picture.file for picture in PICTURES}
    assert all((IMAGES / name).stat().st_size < MOST_BYTES for name in kept)
    pages = [_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w.-]+)", page.read_text())}
    assert shown == kept
