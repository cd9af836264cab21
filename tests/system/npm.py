"""Programs of Node and Go that tests start, and packages of npm, which stay in the user's cache."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnomon-tests"


def needed(*programs: str) -> None:
    """Skips the test where a program is missing, but not in CI."""
    missing = [name for name in programs if shutil.which(name) is None]
    if not missing:
        return
    reason = f"{' and '.join(missing)} cannot be found: install Node.js 20 with npm, and Go 1.25"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


async def run(folder: Path, *command: str, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints, once it has ended well."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, told = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    output = f"{printed.decode()}\n{told.decode()}"[-5_000:]
    assert process.returncode == 0, f"{' '.join(command)}: {output}"
    return printed.decode()


async def node_modules(lock: Path) -> Path:
    """The packages of a lock file, installed once for this user."""
    place = CACHE / f"npm-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=CACHE))
        try:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(lock.with_name(file), made)
            await run(made, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
            with contextlib.suppress(OSError):  # another run was quicker
                made.rename(place)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return place / "node_modules"
