"""The base of the package: importable without the extras, and a line for those who lack one."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from gnomon import extras

_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

# Runs the rest of its arguments as if what its first argument lists were not installed.
_WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    names = set(sys.argv.pop(1).split(","))

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
_IMPORT_ALL = """
import importlib, pkgutil
for package in map(importlib.import_module, sys.argv[1:]):
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), package.__name__ + "."):
        importlib.import_module(module.name)
"""
_COMMAND = """
from gnomon.__main__ import main
main()
"""


def _distributions(extra: str) -> set[str]:
    listed = _PROJECT["optional-dependencies"][extra]
    return {re.match(r"[a-z0-9-]+", each)[0] for each in listed}  # type: ignore[index]


def _modules(distributions: set[str]) -> set[str]:
    found = metadata.packages_distributions()
    return {
        module
        for module, of in found.items()
        if distributions & {name.lower().replace("_", "-") for name in of}
    }


def _run(code: str, *arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    missing = ",".join(_modules(_distributions("server") | _distributions("embedded")))
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT + code, missing, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_the_modules_of_the_extra_are_those_of_its_distributions() -> None:
    assert _modules(_distributions("server")) >= extras.SERVER_MODULES
    for distribution in _distributions("server"):
        assert _modules({distribution}) & extras.SERVER_MODULES, distribution


def test_the_extra_of_remote_workers_is_a_part_of_the_servers() -> None:
    worker = _PROJECT["optional-dependencies"]["worker"]
    assert set(worker) < set(_PROJECT["optional-dependencies"]["server"])
    assert _modules(_distributions("worker")) >= extras.WORKER_MODULES
    assert extras.WORKER_MODULES <= extras.SERVER_MODULES


def test_a_remote_worker_imports_with_its_extra_alone() -> None:
    given = "".join(f"Missing.names.discard({name!r})\n" for name in extras.WORKER_MODULES)
    modules = ("gnomon.remote", "gnomon.wiring.remote", "gnomon.node.run.children.child")
    done = _run(given + _IMPORT_ALL, *modules)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "package",
    ["gnomon.client", "gnomon.sdk", "gnomon.receive", "gnomon.cli.main", "gnomon.extras"],
)
def test_what_submits_imports_with_the_base_alone(package: str) -> None:
    # Flask, of a receiver who uses it, brings a template engine of its own.
    given = "Missing.names.discard('jinja2')\n" if package == "gnomon.receive" else ""
    done = _run(given + _IMPORT_ALL, package)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("api",), "gnomon[server]"),
        (("scheduler",), "gnomon[server]"),
        (("listen",), "gnomon[server]"),
        (("up", "--port", "0"), "gnomon[server,embedded]"),
    ],
)
def test_a_command_that_lacks_an_extra_says_which_in_one_line(
    command: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    done = _run(_COMMAND, *command, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"pip install '{what}'" in done.stderr


def test_the_testing_kit_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    inline = _run("from gnomon.testing import inline, inline_sync, recording", cwd=tmp_path)
    assert (inline.returncode, inline.stderr) == (0, "")
    for name in ("virtual_gnomon", "fresh_database"):
        done = _run(f"from gnomon.testing import {name}", cwd=tmp_path)
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"ModuleNotFoundError: gnomon.testing.{name}: ")
        assert "pip install 'gnomon[server,embedded]'" in last
