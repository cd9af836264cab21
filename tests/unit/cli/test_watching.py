"""A task is watched on when the API is away for a moment."""

import asyncio
from typing import Any

import msgspec
import pytest

from gnomon.cli.shared import remote, waiting
from gnomon.cli.tasks import watching

TASK_ID = "0199f3a2-7c1e-7d43-8000-000000000000"


async def test_a_task_is_watched_while_the_api_restarts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "_LOOK_SECONDS", 0.01)
    answers = iter(
        [(200, "READY"), None, (503, ""), (429, ""), (200, "RUNNING"), None, (200, "COMPLETED")]
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        given = next(answers)
        if given is not None:
            status, told = given
            body = msgspec.json.encode({"task_id": TASK_ID, "status": told})
            head = (
                f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with remote.connected(remote.ApiAddress(f"http://{host}:{port}")) as client:
            seen: list[Any] = [task async for task in watching.states(client, TASK_ID)]
    assert [task["status"] for task in seen] == ["READY", "RUNNING", "COMPLETED"]
    told = capsys.readouterr().err.splitlines()
    assert [each.endswith("; trying again") for each in told] == [True, True]  # once an absence
