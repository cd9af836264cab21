"""The wheel of the tree, and empty environments that it is installed into."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import clean_environment

ROOT = Path(__file__).parents[2]
_UV = Path(sys.executable).parent / "uv"
_SECONDS = 300.0


def uv(*arguments: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [_UV, *arguments],
        cwd=ROOT,
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )


def _cached_first(*arguments: str | Path, **variables: str) -> None:
    """Take what is in the cache: the index is asked only where something is missing there."""
    done = uv(*arguments, "--offline", **variables)
    if done.returncode:
        done = uv(*arguments, **variables)
    assert done.returncode == 0, done.stderr


def built_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    _cached_first("build", "--quiet", "--wheel", "--out-dir", folder)
    (wheel,) = folder.glob("gnomon-*.whl")
    return wheel


class Environment:
    """An empty virtual environment, without a way to the tree."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        done = uv("venv", "--quiet", "--no-project", "--python", python, folder)
        assert done.returncode == 0, done.stderr
        self.folder = folder
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")

    def install(self, requirement: str) -> None:
        """Install it. The versions are those of the lock file: they are in the cache."""
        locked = ("--constraints", ROOT / "requirements.lock")
        _cached_first(
            "pip", "install", "--quiet", *locked, requirement, VIRTUAL_ENV=str(self.folder)
        )

    def installed(self) -> set[str]:
        listed = uv("pip", "list", "--quiet", "--format=freeze", VIRTUAL_ENV=str(self.folder))
        return {line.partition("==")[0] for line in listed.stdout.splitlines()}

    def run(self, program: str, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.bin / program, *arguments],
            cwd=cwd,
            env=clean_environment({"PYTHONPATH": ""}),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )

    @contextmanager
    def beside(self, program: str, *arguments: str, cwd: Path) -> Iterator["Beside"]:
        """A program in the background. It is told to stop at the end, and must."""
        log = cwd / f"{arguments[0]}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.bin / program, *arguments],
                cwd=cwd,
                env=clean_environment({"PYTHONPATH": ""}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield Beside(process, log)
            process.send_signal(signal.SIGINT)
            assert process.wait(_SECONDS) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


class Beside:
    """A program that runs, and what it has printed."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def text(self) -> str:
        return self._log.read_text()

    def says(self, text: str) -> bool:
        assert self._process.poll() is None, self.text
        return text in self.text
