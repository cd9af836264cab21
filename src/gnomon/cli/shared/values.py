"""Parses durations, times, payloads and headers as people type them."""

import re
import sys
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import typer

from gnomon.cli.shared import moments
from gnomon.cli.shared.output import note
from gnomon.model.duration import parse_duration
from gnomon.model.errors import InvalidSchedule
from gnomon.model.targets.target_secrets import is_secret_parameter

_ARGUMENT = re.compile(r"([^=:\s]+)(:?=)(.*)", re.DOTALL)


def duration(text: str) -> float:
    """Seconds in `90`, `90s`, `1.5m`, `2h`, `1d` or `1h30m`."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def moment(text: str) -> datetime:
    """A date and time, or words like "tomorrow 09:00"; without an offset it is taken in this
    machine's time zone."""
    return moment_in(text, None)


def moment_in(text: str, zone: str | None) -> datetime:
    """The same in the time zone of this name."""
    from gnomon.clock import SystemClock
    from gnomon.cron.zones import zone as zone_named

    try:
        where = moments.LocalZone() if zone is None else zone_named(zone)
        return moments.parsed(text, SystemClock().now(), where)
    except (ValueError, InvalidSchedule) as error:
        raise typer.BadParameter(str(error)) from None


def callback(called: str | None) -> dict[str, Any] | None:
    """The task that follows another: for a handler, or for a webhook."""
    if called is None:
        return None
    if "://" in called:
        return {"task_type": "callback", "callback_url": called}
    return {"task_type": called}


def arguments(given: Sequence[str]) -> dict[str, Any] | None:
    """The payload of NAME=TEXT and NAME:=JSON arguments; None without any."""
    payload: dict[str, Any] = {}
    for each in given:
        found = _ARGUMENT.fullmatch(each)
        if found is None:
            raise typer.BadParameter(f"{each!r} must be NAME=TEXT or NAME:=JSON")
        name, operator, value = found.groups()
        if name in payload:
            raise typer.BadParameter(f"{name!r} is given twice")
        payload[name] = value if operator == "=" else _json(value.encode(), f"{name}:=")
    return payload or None


def day(text: str) -> date:
    """A day of the calendar."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day like 2030-01-31") from None


def rfc3339(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def payload(text: str | None, file: str | None) -> msgspec.Raw | None:
    """The JSON of `--payload` or `--payload-file`, exactly as typed; None without either."""
    if text is not None and file is not None:
        raise typer.BadParameter("give either --payload or --payload-file")
    if file is not None:
        return _json(read(file), "--payload-file")
    return None if text is None else _json(text.encode(), "--payload")


def payload_or_file(text: str) -> msgspec.Raw:
    """JSON as typed, or the content of `@FILE` (`@-` is stdin): no JSON begins with @."""
    content = read(text[1:]) if text.startswith("@") else text.encode()
    return _json(content, "--payload")


def json_file(file: str) -> msgspec.Raw:
    """The JSON of a file (`-` is stdin), exactly as written."""
    return _json(read(file), "stdin" if file == "-" else file)


def path_part(text: str) -> str:
    """The name of a thing whose names have no slash."""
    if "/" in text:
        raise typer.BadParameter(f"{text!r} must not contain a /")
    return text


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None; the API fills in the others."""
    return {name: value for name, value in fields.items() if value is not None}


def headers(text: str) -> list[tuple[str, str]]:
    """`Name: value`, or the lines of `@FILE` (`@-` is stdin), for secret ones."""
    if not text.startswith("@"):
        name, value = _header(text)
        if is_secret_parameter(name) or name.lower() == "cookie":
            note(f"every user of this machine can read {name}: give it as --header @FILE")
        return [(name, value)]
    try:
        lines = read(text[1:]).decode().splitlines()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{text[1:]} is not text") from None
    return [_header(line) for line in lines if line.strip()]


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter("a header must be like 'Name: value', or @FILE with such lines")
    return name.strip(), value.strip()


def read(file: str) -> bytes:
    """The content of a file, or of stdin (`-`)."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _json(content: bytes, option: str) -> msgspec.Raw:
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"{option} is not JSON ({error}); a string needs its double quotes"
        ) from error
    return msgspec.Raw(content)
