"""The example workers in other languages, as processes."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.commands import clean_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
_BUILD_SECONDS = 120.0


def _program(name: str, package: str) -> str:
    """Where it is. Skips the test where it is not, except in CI."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/go/bin")
    if found is None:
        missing = f"{name} is not installed (Debian's package `{package}`)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def node_worker() -> list[str]:
    """The command of the worker for Node."""
    return [_program("node", "nodejs"), str(EXAMPLES / "worker-typescript" / "main.mjs")]


def go_worker(folder: Path) -> list[str]:
    """The command of the worker in Go, built into the folder."""
    built = folder / "go-worker"
    go = _program("go", "golang-go")
    cache = {"GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache" / "go-build"))}
    done = subprocess.run(
        [go, "build", "-o", built, "."],
        cwd=EXAMPLES / "worker-go",
        env=clean_environment({"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", **cache}),
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return [str(built)]


class ExampleWorker:
    """A worker that runs, and what it has printed."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def text(self) -> str:
        return self._log.read_text()


@contextmanager
def example_worker(command: list[str], folder: Path, **env: str) -> Iterator[ExampleWorker]:
    log = folder / f"{Path(command[-1]).stem}-{len(list(folder.iterdir()))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=clean_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield ExampleWorker(process, log)
    finally:
        process.kill()
        process.wait()
