"""The files of the dashboard: those of others as the manifest names them, ours by our rules."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

STATIC = Path(str(files("gnomon.dashboard"))) / "static"
SERVED = STATIC / "vendor"
TESTING = Path(__file__).parents[2] / "dashboard" / "vendor"

_INLINE = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|\|\s*safe\b"


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One file of a package of the npm registry."""

    file: str
    package: str
    version: str
    licence: str
    path: str
    sha256: str


def manifest(folder: Path) -> list[Entry]:
    return msgspec.json.decode((folder / "manifest.json").read_bytes(), type=list[Entry])


@pytest.mark.parametrize("folder", [SERVED, TESTING], ids=["served", "testing"])
def test_every_file_is_in_the_manifest_and_unchanged(folder: Path) -> None:
    present = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert {entry.file for entry in manifest(folder)} == present
    for entry in manifest(folder):
        content = (folder / entry.file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry.sha256, entry.file


@pytest.mark.parametrize("folder", [SERVED, TESTING], ids=["served", "testing"])
def test_every_package_brings_its_licence(folder: Path) -> None:
    entries = manifest(folder)
    licensed = {entry.package for entry in entries if entry.path == "LICENSE"}
    assert {entry.package for entry in entries} == licensed
    # What is only used by tests is given to nobody.
    allowed = {"0BSD", "MIT"} if folder is SERVED else {"MPL-2.0"}
    assert {entry.licence for entry in entries} <= allowed


def test_our_own_files_name_no_other_host() -> None:
    root = Path(str(files("gnomon.dashboard")))
    own = [*(root / "templates").glob("*.html"), *STATIC.glob("*.css"), *STATIC.glob("*.js")]
    assert len(own) > 10
    for path in own:
        named = re.findall(r"(?:https?:)?//[\w.-]+\.\w+|url\(", path.read_text())
        assert not named, path


def test_no_template_needs_an_inline_script_or_style() -> None:
    """Which the policy forbids; nor one that is not escaped."""
    root = Path(str(files("gnomon.dashboard")))
    for path in (root / "templates").glob("*.html"):
        text = path.read_text()
        assert not re.search(_INLINE, text), path


def test_what_scrolls_is_reached_by_keyboard() -> None:
    root = Path(str(files("gnomon.dashboard")))
    for path in (root / "templates").glob("*.html"):
        for tag in re.findall(r'<\w+ class="scroll[ "][^>]*>', path.read_text()):
            assert 'tabindex="0" role="region" aria-label' in tag, (path.name, tag)
