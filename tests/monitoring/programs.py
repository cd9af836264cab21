"""Prometheus and Alertmanager, as Debian has them. Where they are missing, tests are skipped."""

import os
import shutil
import subprocess

import pytest

PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
}


def require(*names: str) -> None:
    """Skip where one of these programs is missing; in CI that is a failure."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        reason = f"{missing[0]} is not on the PATH: apt-get install {PACKAGES[missing[0]]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def checked(*command: str) -> str:
    """What a command prints that has to succeed."""
    require(command[0])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
