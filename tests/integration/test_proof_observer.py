"""The observer of campaigns writes down what it sees, and its sink keeps to the fences."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from proof.campaigns.collect import merged
from proof.campaigns.history import Call, Effect, read
from tests.waiting import eventually


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "proof.campaigns.observer"]
    with subprocess.Popen(
        [*command, str(tmp_path), str(os.getpid())], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield msgspec.json.decode(process.stdout.readline())["url"]
        process.kill()


def calls_in(folder: Path) -> list[Call]:
    return merged(read(folder / "calls-observer.jsonl", Call))


def effects_in(folder: Path) -> list[Effect]:
    return list(read(folder / "effects-observer.jsonl", Effect))


async def post(url: str, fence: int, run_id: str = "run", **body: Any) -> int:
    headers = {"webhook-id": run_id, "gnomon-attempt": "1", "gnomon-fence": str(fence)}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"n": 1, **body}, headers=headers) as response,
    ):
        return response.status


async def test_a_call_is_written_down(url: str, tmp_path: Path) -> None:
    assert await post(url, 3, seconds=0.05) == 200
    (call,) = calls_in(tmp_path)
    assert (call.n, call.run_id, call.fence, call.succeeded) == (1, "run", 3, True)
    assert call.ended_at is not None
    assert call.ended_at - call.began_at >= 0.05
    assert effects_in(tmp_path) == []


async def test_tries_fail_as_often_as_they_are_to(url: str, tmp_path: Path) -> None:
    assert [await post(url, fence, fails=2) for fence in (1, 3, 5)] == [500, 500, 200]
    assert [call.succeeded for call in calls_in(tmp_path)] == [False, False, True]


async def test_a_caller_that_goes_away_is_noticed(url: str, tmp_path: Path) -> None:
    timeout = aiohttp.ClientTimeout(total=0.3)
    headers = {"webhook-id": "run", "gnomon-attempt": "1", "gnomon-fence": "1"}
    async with aiohttp.ClientSession(timeout=timeout) as session:
        with pytest.raises(TimeoutError):
            await session.post(url, json={"n": 1, "seconds": 60, "fails": 1}, headers=headers)

    async def ended() -> bool:
        return any(call.ended_at for call in calls_in(tmp_path))

    await eventually(ended)
    (call,) = calls_in(tmp_path)
    assert call.hung_up
    assert not call.succeeded
    assert await post(url, 3, fails=1) == 500, "a try that was not answered has not failed"


async def test_an_effect_is_applied_once_for_each_run(url: str, tmp_path: Path) -> None:
    for fence in (1, 3):
        assert await post(url, fence, mode="exactly_once") == 200
    assert await post(url, 1, "another", mode="exactly_once") == 200
    assert [(e.n, e.run_id, e.fence) for e in effects_in(tmp_path)] == [
        (1, "run", 1),
        (1, "another", 1),
    ]


async def test_a_stale_fence_is_refused(url: str, tmp_path: Path) -> None:
    assert await post(url, 5, mode="exactly_once", fails=1) == 500
    assert await post(url, 3, mode="exactly_once", fails=1) == 409
    assert effects_in(tmp_path) == []
    assert await post(url, 5, mode="exactly_once", fails=1) == 200
    assert [e.fence for e in effects_in(tmp_path)] == [5]
