"""The address of a running `gnomon up` is found, and that of a dead one is not believed."""

import os
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from gnomon.sdk.submitting.local_address import FILE, found, told

URL = "http://127.0.0.1:8081"
TELL = f"""
import sys
from pathlib import Path
from gnomon.sdk.submitting.local_address import told

with told(Path(sys.argv[1]), "{URL}"):
    print("told", flush=True)
    sys.stdin.read()
"""


def teller(folder: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", TELL, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"told\n"
    return process


def test_the_address_is_there_while_its_process_is(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    with teller(tmp_path) as process:
        assert found(tmp_path) == URL
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
        process.communicate()
    assert found(tmp_path) is None
    assert [*tmp_path.iterdir()] == []


def test_an_address_that_a_killed_process_left_is_not_believed(tmp_path: Path) -> None:
    with teller(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / FILE).read_text() == URL
    assert found(tmp_path) is None
    with told(tmp_path, "http://127.0.0.1:8082"):
        assert found(tmp_path) == "http://127.0.0.1:8082"
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    with told(tmp_path, URL):
        (tmp_path / FILE).chmod(0o622)
        assert found(tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_believed(tmp_path: Path) -> None:
    with told(tmp_path, URL):
        os.chown(tmp_path / FILE, 12345, -1)
        assert found(tmp_path) is None


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with told(other, URL):
        (tmp_path / FILE).symlink_to(other / FILE)
        assert found(tmp_path) is None


def test_the_end_of_one_does_not_remove_the_address_of_the_next(tmp_path: Path) -> None:
    first = ExitStack()
    first.enter_context(told(tmp_path, URL))
    with told(tmp_path, "http://127.0.0.1:8082"):
        first.close()
        assert found(tmp_path) == "http://127.0.0.1:8082"
    assert [*tmp_path.iterdir()] == []
