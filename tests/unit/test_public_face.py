"""What the package offers to programs: sorted, complete, importable, and nothing else."""

import subprocess
import sys

import gnomon


def test_everything_that_is_listed_can_be_imported() -> None:
    for name in gnomon.__all__:
        assert getattr(gnomon, name) is not None, name


def test_the_list_is_sorted_and_is_what_dir_shows() -> None:
    assert sorted(gnomon.__all__) == gnomon.__all__ == dir(gnomon)


def test_what_is_not_listed_is_not_there() -> None:
    assert not hasattr(gnomon, "Dispatcher")


def test_importing_the_package_imports_none_of_its_parts() -> None:
    code = "import gnomon, sys; print([m for m in sys.modules if m.startswith('gnomon.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['gnomon.version']"


def test_a_program_that_only_submits_imports_no_server() -> None:
    code = (
        "import gnomon, sys; gnomon.SyncClient; gnomon.Client; gnomon.TaskSpec; "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & "
        "{'aiohttp', 'asyncpg', 'granian', 'litestar', 'structlog', 'typer'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
