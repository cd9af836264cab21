"""Remote workers of a campaign in other languages: the examples, with handlers that write down
their calls as those of `proof.campaigns.handlers` do."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

Language = Literal["python", "javascript", "go"]
LANGUAGES: tuple[Language, ...] = ("python", "javascript", "go")

_HERE = Path(__file__).parent
_EXAMPLES = Path(__file__).parents[3] / "examples"
_BUILD_SECONDS = 300.0
_GO = "/usr/local/go/bin"  # where it is unless a package brought it


def missing() -> list[str]:
    """The programs that are not there."""
    return [name for name in ("node", "go") if _found(name) is None]


def command_of(language: Language, folder: Path) -> list[str] | None:
    """The command of a worker, built into the folder; None for the one in Python."""
    match language:
        case "javascript":
            worker = _EXAMPLES / "worker-typescript" / "gnomon-worker.mjs"
            return [_program("node"), str(_HERE / "main.mjs"), str(worker)]
        case "go":
            return [str(_built(folder))]
        case "python":
            return None


def _built(folder: Path) -> Path:
    """The worker in Go: the file of the example, with our handlers in place of its own."""
    program = folder / "go-worker"
    if not program.exists():
        sources = folder / "go-sources"
        sources.mkdir()
        for file in ("go.mod", "worker.go"):
            shutil.copy(_EXAMPLES / "worker-go" / file, sources)
        shutil.copy(_HERE / "main.go", sources)
        cache = os.environ.get("GOCACHE", str(Path.home() / ".cache" / "go-build"))
        subprocess.run(
            [_program("go"), "build", "-o", program, "."],
            cwd=sources,
            env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOCACHE": cache},
            check=True,
            timeout=_BUILD_SECONDS,
        )
    return program


def _program(name: str) -> str:
    found = _found(name)
    assert found is not None, f"{name} is not installed"
    return found


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_GO)
