"""The commands of docs/how-to/call-grpc.md, with the service of examples/grpc."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import gnomon
from tests.page_code import DOCS, python_of
from tests.system.conftest import NewProcess

SERVICE = DOCS.parent / "examples/grpc/shop.py"
PAGE = "how-to/call-grpc.md"
ADDRESS = "127.0.0.1:50051"


@pytest.fixture
def service() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(SERVICE), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


def line_of(service: "subprocess.Popen[str]") -> str:
    assert service.stdout is not None
    return service.stdout.readline().strip()


async def test_the_page_calls_the_service_of_the_examples(
    service: "subprocess.Popen[str]", api_url: str, new_node: NewProcess, tmp_path: Path
) -> None:
    new_node("node")
    address = line_of(service).removeprefix("shop.Orders at ")
    env = {"GNOMON_URL": api_url}
    text = (DOCS / PAGE).read_text().replace(ADDRESS, address)
    commands = re.findall(r"(?m)^gnomon .*shop\.Orders.*$", text)
    assert len(commands) == 2
    for command in commands:
        done = gnomon(*shlex.split(command)[1:], cwd=tmp_path, env=env)
        assert done.code == 0, done.err
    assert line_of(service) == "shipping o_1"
    code = next(part for part in python_of(PAGE).split("import asyncio") if "SyncClient" in part)
    ran = subprocess.run(
        [sys.executable, "-c", code.replace(ADDRESS, address)], env=env, check=False, text=True
    )
    assert ran.returncode == 0
    assert line_of(service) == "shipping o_1"
