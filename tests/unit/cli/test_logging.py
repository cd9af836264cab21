"""Log lines: one JSON document each where a machine reads, and no secrets in tracebacks."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from gnomon.observe.logging import configure
from gnomon.settings import OutputSettings


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def fail(password: str) -> None:
    """Log an exception while `password` is a local variable."""
    try:
        int("no number")
    except ValueError:
        structlog.get_logger().exception("it failed", length=len(password))


def test_json_lines_from_both_kinds_of_logger(capsys: pytest.CaptureFixture[str]) -> None:
    configure(OutputSettings(log_format="json"))
    structlog.get_logger().info("ours", n=1)
    structlog.get_logger().debug("too quiet")
    logging.getLogger("some.library").warning("theirs %s", 2)
    logging.getLogger("some.library").info("small talk")
    out, err = capsys.readouterr()
    first, second = map(json.loads, err.splitlines())
    assert out == ""
    assert (first["event"], first["n"], first["level"]) == ("ours", 1, "info")
    assert (second["event"], second["level"]) == ("theirs 2", "warning")
    assert first["timestamp"].endswith("Z")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_values(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure(OutputSettings(log_format=log_format))
    fail("hunter2")
    err = capsys.readouterr().err
    assert "it failed" in err
    assert "ValueError" in err
    assert "hunter2" not in err


def test_a_logger_outlives_the_stream_that_it_first_wrote_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = structlog.get_logger("kept"), logging.getLogger("some.library")
    stream = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        configure(OutputSettings(log_format="json"))
        ours.info("first")
    stream.close()
    ours.info("second")
    theirs.warning("third")
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert events == ["second", "third"]
