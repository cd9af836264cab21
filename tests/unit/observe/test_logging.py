"""Lines of the log: what they name, and that nobody can forge one."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from gnomon.access.principal import Principal
from gnomon.api.http.answers.answering import AccessLog, Answering
from gnomon.clock import new_incarnation
from gnomon.observe import logging as observed
from gnomon.settings import OutputSettings

HOSTILE = 'a\n{"level": "error"}\r\x1b[2J\u2028b'


@pytest.fixture(autouse=True)
def configuration() -> Iterator[None]:
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("format_", ["json", "console"])
def test_no_value_makes_a_second_line(capsys: pytest.CaptureFixture[str], format_: str) -> None:
    observed.configure(OutputSettings(log_format=format_))
    structlog.get_logger("gnomon.test").warning("a line", path=HOSTILE)
    logging.getLogger("a.library").warning("another", extra={"path": HOSTILE})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert not any("\x1b[2J" in line for line in lines)


async def answered(app: Any, path: str, *headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    told: dict[bytes, bytes] = {}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            told.update(message["headers"])

    scope = {"type": "http", "method": "GET", "path": path, "headers": list(headers)}
    await app(scope, None, send)
    return told


async def test_lines_of_requests_that_are_answered_at_once_name_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    observed.configure(OutputSettings(log_format="json"))
    log, both = structlog.get_logger("gnomon.test"), asyncio.Barrier(2)

    async def app(scope: Any, _: Any, send: Any) -> None:
        scope["auth"] = Principal(tenant_id=scope["path"], name=None, roles=frozenset())
        await both.wait()
        log.info("within", path=scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    access = AccessLog(lambda: 0.0, is_wanted=True)
    around = Answering(app, new_incarnation(), access)
    given = (b"x-request-id", b"order-7")
    async with asyncio.TaskGroup() as group:
        one = group.create_task(answered(around, "a", given))
        two = group.create_task(answered(around, "b\nforged"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    ids = {"a": "order-7", "b\nforged": two.result()[b"x-request-id"].decode()}
    assert one.result()[b"x-request-id"] == b"order-7"
    assert len(lines) == 4
    for line in lines:
        assert line["request_id"] == ids[line["tenant"]]
    assert {line["path"] for line in lines if line["event"] == "within"} == ids.keys()
    noted = [line for line in lines if line["event"] == "request"]
    assert {(line["method"], line["status"], line["level"]) for line in noted} == {
        ("GET", 200, "info")
    }


async def test_a_request_that_nobody_asks_about_leaves_no_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    observed.configure(OutputSettings(log_format="json"))

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    around = Answering(app, new_incarnation(), AccessLog(lambda: 0.0, is_wanted=False))
    told = await answered(around, "a", (b"x-request-id", b"a b"), (b"cookie", b"canary"))
    assert told[b"x-request-id"] != b"a b"
    assert capsys.readouterr().err == ""
