"""Clients in other languages: generated from the OpenAPI document, built, and called against a real
API. The generators and their versions are named in `generated_clients/`; what they download stays
in the user's cache."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import serving
from tests.integration.api_calls import Api
from tests.system.npm import needed, node_modules, run

SOURCES = Path(__file__).with_name("generated_clients")

pytestmark = pytest.mark.system


async def prepared(api: Api, tmp_path: Path, language: str) -> Path:
    """A folder with the sources of a client and the document that the API serves."""
    folder = tmp_path / language
    shutil.copytree(SOURCES / language, folder)
    async with api.get("/api/v1/openapi.json") as answer:
        (folder / "openapi.json").write_bytes(await answer.read())
    return folder


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
