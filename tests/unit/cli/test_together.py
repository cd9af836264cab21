"""Processes that are scraped together have sockets that can be bound, in whatever folder."""

import socket
import tempfile
from pathlib import Path

import pytest

from gnomon.cli.run.together import scraped_together


def test_a_deep_folder_for_temporary_files_keeps_no_socket_from_being_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with scraped_together() as environ_of:
        path = environ_of({}, "scheduler-12")["GNOMON_OUTPUT_METRICS_SOCKET"]
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path)
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert not Path(path).parent.exists()
