"""What people type: durations, moments, payloads, headers."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from gnomon.cli.shared import output, values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("0.5", 0.5),
        ("250ms", 0.25),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("1h30m", 5400.0),
        (" 10 s ", 10.0),
        ("3 days", 259200.0),
        ("1 minute", 60.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert values.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["999999999d", "", "soon", "-5s", "5 parsecs", "1h30", "5mm", "1e3", "inf", "٣x"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        values.duration(text)


def test_a_moment_with_an_offset_is_that_instant() -> None:
    assert values.moment("2030-01-31T09:00:00+02:00") == datetime(2030, 1, 31, 7, tzinfo=UTC)
    assert values.rfc3339(values.moment("2030-01-31T09:00Z")) == "2030-01-31T09:00:00Z"


def test_a_moment_without_offset_is_local() -> None:
    local = datetime(2030, 1, 31, 9).astimezone(UTC)
    assert values.moment("2030-01-31 09:00") == local


@pytest.mark.parametrize("text", ["", "soon", "2030-13-01", "0001-01-01T00:00:00+23:59"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        values.moment(text)


def test_a_payload_keeps_its_digits() -> None:
    payload = values.payload('{"amount": 1.10, "id": 123456789012345678901234567890}', None)
    assert payload is not None
    assert bytes(payload) == b'{"amount": 1.10, "id": 123456789012345678901234567890}'


def test_a_payload_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text("[1, 2]")
    payload = values.payload(None, str(file))
    assert payload is not None
    assert bytes(payload) == b"[1, 2]"


def test_a_payload_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"null")))
    payload = values.payload(None, "-")
    assert payload is not None
    assert bytes(payload) == b"null"


def test_no_payload_is_not_null() -> None:
    assert values.payload(None, None) is None


@pytest.mark.parametrize(
    ("text", "file"), [("{", None), ("hello", None), ("1", "x"), (None, "/does/not/exist")]
)
def test_what_is_no_payload_is_refused(text: str | None, file: str | None) -> None:
    with pytest.raises(typer.BadParameter):
        values.payload(text, file)


def test_headers() -> None:
    assert values.headers("X-Team: blue: green") == [("X-Team", "blue: green")]
    with pytest.raises(typer.BadParameter):
        values.headers("no colon")


def test_secret_headers_come_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer x\n\nX-Team: blue\n")
    found = values.headers(f"@{tmp_path / 'headers'}")
    assert found == [("Authorization", "Bearer x"), ("X-Team", "blue")]
    assert capsys.readouterr().err == ""
    values.headers("X-Api-Key: x")
    assert "--header @FILE" in capsys.readouterr().err


def test_moments_for_people() -> None:
    assert output.moment("2030-01-31T09:00:00.123456Z") == "2030-01-31 09:00:00.123Z"
    assert output.moment("2030-01-31T09:00:00Z") == "2030-01-31 09:00:00Z"
    assert output.moment(None) == ""


def test_shortened_is_one_line() -> None:
    assert output.shortened("a\n  b", 10) == "a b"
    assert output.shortened("x" * 11, 10) == "x" * 9 + "…"
