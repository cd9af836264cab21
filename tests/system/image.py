"""What `deploy/Dockerfile` builds, built without Docker: its instructions, carried out in a folder.

Paths of the image lie below that folder. What needs root, making the user, is left out; so is the
base image: `python` is the one that runs the tests.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.commands import clean_environment

PROJECT = Path(__file__).parents[2]
_PATHS = ("/opt/gnomon", "/var/lib/gnomon")
_NEEDS_ROOT = "useradd "


@dataclass
class Image:
    """A built image: where it lies, its environment, its default command."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    directory: Path = Path()
    command: list[str] = field(default_factory=list)

    def build(self, dockerfile: Path) -> None:
        self.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for path in _PATHS:
            (self.folder / path[1:]).mkdir(parents=True)
        for word, rest in _instructions(dockerfile):
            self._carry_out(word, rest)

    def environment(self, **extra: str) -> dict[str, str]:
        return clean_environment(self.env | extra)

    def _carry_out(self, word: str, rest: str) -> None:
        match word:
            case "WORKDIR":
                self.directory = Path(self._inside(rest))
            case "ENV":
                name, _, value = rest.partition("=")
                self.env[name] = self._inside(value).replace("$PATH", self.env["PATH"])
            case "COPY":
                *sources, target = rest.split()
                for source in sources:
                    self._copy(PROJECT / source, self.directory / target)
            case "RUN":
                self._run(rest)
            case "CMD":
                self.command = json.loads(rest)
            case _:
                assert word in {"FROM", "USER", "VOLUME", "EXPOSE"}, word

    def _run(self, line: str) -> None:
        line = re.sub(r"^--mount=\S+ ", "", line)
        if line.startswith(_NEEDS_ROOT):
            return
        done = subprocess.run(
            ["sh", "-c", self._inside(line)],
            cwd=self.directory, env=self.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stderr}"

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)

    def _inside(self, text: str) -> str:
        for path in _PATHS:
            text = text.replace(path, f"{self.folder}{path}")
        return text


def _instructions(dockerfile: Path) -> Iterator[tuple[str, str]]:
    text = re.sub(r"(?m)^#.*\n", "", dockerfile.read_text()).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        yield word, rest.strip()
