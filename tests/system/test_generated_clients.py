"""Clients in other languages: generated from the OpenAPI document, built, and called against a real
API. The generators and their versions are named in `generated_clients/`; what they download stays
in the user's cache."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import serving
from tests.integration.api_calls import Api

SOURCES = Path(__file__).with_name("generated_clients")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnomon-tests"

pytestmark = pytest.mark.system


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


async def prepared(api: Api, tmp_path: Path, language: str) -> Path:
    """A folder with the sources of a client and the document that the API serves."""
    folder = tmp_path / language
    shutil.copytree(SOURCES / language, folder)
    async with api.get("/api/v1/openapi.json") as answer:
        (folder / "openapi.json").write_bytes(await answer.read())
    return folder


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


def expected(function: str) -> dict[str, Any]:
    return {
        "defaults": 45.5,
        "target": function,
        "waited": ["CANCELLED", True, 0],
        "cancelled": 200,
        "listed": ["HIGH"],
        "executions": None,
        "counted": 1,
        "refused": [422, "/timeout_seconds"],
        "missing": 404,
    }


async def test_a_typescript_client(database_dsn: str, tmp_path: Path) -> None:
    needed("node", "npm")
    async with serving(database_dsn) as api:
        folder = await prepared(api, tmp_path, "typescript")
        packages = await node_modules(folder / "package-lock.json")
        (folder / "node_modules").symlink_to(packages, target_is_directory=True)
        tools = packages / ".bin"
        await run(folder, str(tools / "openapi-typescript"), "openapi.json", "-o", "gnomon.ts")
        await run(folder, str(tools / "tsc"))
        printed = await run(folder, "node", "built/call.js", str(api._base_url))
    assert json.loads(printed) == expected("ts.mail")


async def test_a_go_client(database_dsn: str, tmp_path: Path) -> None:
    needed("go")
    flags = {"GOFLAGS": "-mod=mod -buildvcs=false"}
    async with serving(database_dsn) as api:
        folder = await prepared(api, tmp_path, "go")
        (folder / "gnomon").mkdir()
        generate = ("go", "tool", "oapi-codegen", "-config", "codegen.yaml", "openapi.json")
        await run(folder, *generate, environment=flags)
        printed = await run(folder, "go", "run", ".", str(api._base_url), environment=flags)
    assert json.loads(printed) == expected("go.mail")
