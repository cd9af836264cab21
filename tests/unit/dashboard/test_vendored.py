"""The libraries of others are the ones that the manifest names, byte for byte."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import msgspec

STATIC = Path(str(files("gnomon.dashboard"))) / "static"
VENDORED = STATIC / "vendor"

_INLINE = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|\|\s*safe\b"


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One file of a package of the npm registry."""

    file: str
    package: str
    version: str
    licence: str
    path: str
    sha256: str


MANIFEST = msgspec.json.decode((VENDORED / "manifest.json").read_bytes(), type=list[Entry])


def test_every_file_is_in_the_manifest_and_unchanged() -> None:
    present = {path.name for path in VENDORED.iterdir()} - {"manifest.json"}
    assert {entry.file for entry in MANIFEST} == present
    for entry in MANIFEST:
        content = (VENDORED / entry.file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry.sha256, entry.file


def test_every_package_brings_its_licence() -> None:
    licensed = {entry.package for entry in MANIFEST if entry.path == "LICENSE"}
    assert {entry.package for entry in MANIFEST} == licensed
    assert {entry.licence for entry in MANIFEST} <= {"0BSD", "MIT"}


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
