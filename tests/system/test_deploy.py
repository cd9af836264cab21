"""The files in `deploy/`: their commands are run for real, in an empty folder, without Docker."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.commands import TIMEOUT_SECONDS, running
from tests.system.image import PROJECT, Image
from tests.waiting import eventually_sync

pytestmark = pytest.mark.system

DEPLOY = PROJECT / "deploy"
FIRST_KEY = ["gnomon", "keys", "create", "--name", "first", "--role", "admin", "--json"]
# What a test changes: a free port of loopback, and receivers on loopback.
HERE = {
    "GNOMON_API_HOST": "127.0.0.1",
    "GNOMON_API_PORT": "0",
    "GNOMON_TARGETS_ALLOW": "127.0.0.0/8",
}


@contextmanager
def started(
    command: list[str], env: Mapping[str, str], folder: Path
) -> Iterator["subprocess.Popen[str]"]:
    """A command that goes on; it has to end well by SIGTERM. It logs to a file of its name."""
    with (folder / f"{command[-1]}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, text=True)
    with process:
        try:
            yield process
            process.terminate()
            assert process.wait(TIMEOUT_SECONDS) == 0, (folder / f"{command[-1]}.log").read_text()
        finally:
            if process.poll() is None:
                process.kill()


def run(command: list[str], env: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def announced(log: Path) -> str:
    """Where the API says that it listens."""

    def url() -> str | None:
        found = re.search(r'"where": "(http://[^"]+)", "event": "api started"', log.read_text())
        return found[1] if found else None

    return eventually_sync(url, 60.0)


def runs_a_task(env: Mapping[str, str], url: str, folder: Path) -> None:
    """A key made as the page says, and with it a task to a receiver and back."""
    key = json.loads(run(FIRST_KEY, env, folder))["key"]
    asking = {**env, "GNOMON_URL": url, "GNOMON_API_KEY": key}
    with running("listen", "--port", "0", "--json", cwd=folder, env=dict(asking)) as receiver:
        target = receiver.event("listening")["url"]
        shown = run(["gnomon", "submit", target, "--wait", "--json"], asking, folder)
    assert json.loads(shown)["status"] == "COMPLETED"


@pytest.mark.timeout(300)
def test_the_commands_of_image_and_compose_work_in_an_empty_folder(
    tmp_path: Path, empty_dsn: str
) -> None:
    image = Image(tmp_path / "image")
    image.build(DEPLOY / "Dockerfile")
    folder = tmp_path / "empty"
    folder.mkdir()

    env = image.environment(**HERE)
    with started(image.command, env, folder):
        runs_a_task(env, announced(folder / "up.log"), folder)

    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    ours = {
        name: _service(image, each, empty_dsn)
        for name, each in services.items()
        if name != "postgres"
    }
    run(*ours["migrate"], folder)
    with started(*ours["api"], folder), started(*ours["scheduler"], folder):
        runs_a_task(ours["api"][1], announced(folder / "api.log"), folder)


def _service(image: Image, service: dict[str, Any], dsn: str) -> tuple[list[str], dict[str, str]]:
    assert service["environment"].keys() == {"DATABASE_URL"}
    return service["command"], image.environment(**HERE, DATABASE_URL=dsn)


def test_compose_builds_the_dockerfile_and_orders_its_services() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    build = services["migrate"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    assert {name for name, each in services.items() if "migrate" in each.get("depends_on", {})} == {
        "api",
        "scheduler",
    }


def test_everything_the_dockerfile_copies_is_in_its_context() -> None:
    kept = {
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line[0] == "!"
    }
    copied = re.findall(r"(?m)^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text())
    assert {name for line in copied for name in line.split()} == kept


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "gnomon@.service").read_text()
    program = re.search(r"(?m)^ExecStart=(\S+) %i$", text)
    assert program
    unit = tmp_path / "gnomon@.service"
    unit.write_text(text.replace(program[1], "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
