"""Idle sessions of remote workers: opened together, they poll and beat until their time is over."""

import asyncio
import sys
import time
from typing import Any

import aiohttp
import msgspec

_SECRET = "gnomon-session-secret"
_AT_ONCE = 50  # sessions that are being opened
_POLL_SECONDS = 20.0
_PATIENCE = 60.0


class Asked(msgspec.Struct, frozen=True):
    """What is to be held, and where."""

    url: str
    sessions: int
    seconds: float


class Answered(msgspec.Struct):
    """What came of it."""

    opened: int = 0
    polls: int = 0
    failed: int = 0


class _Sessions:
    def __init__(self, asked: Asked, http: aiohttp.ClientSession) -> None:
        self._root = f"{asked.url}/api/v1/worker-sessions"
        self._http = http
        self._few = asyncio.Semaphore(_AT_ONCE)
        self._until = time.monotonic() + asked.seconds
        self.answered = Answered()

    async def hold(self, number: int) -> None:
        body = {"name": f"idle-{number}", "handlers": ["noop"], "slots": 1}
        async with self._few:
            session = await self._call("POST", self._root, {}, body)
        if session is None:
            return
        self.answered.opened += 1
        headers = {_SECRET: session["secret"]}
        url = f"{self._root}/{session['session_id']}"
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(url, headers, session["beat_seconds"]))
            group.create_task(self._poll(url, headers, session["epoch"]))
        await self._call("DELETE", url, headers, None)

    async def _beat(self, url: str, headers: dict[str, str], seconds: float) -> None:
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(min(seconds, left))
            await self._call("POST", f"{url}/beat", headers, {})

    async def _poll(self, url: str, headers: dict[str, str], epoch: str) -> None:
        sequence = 0
        while (left := self._until - time.monotonic()) > 0:
            sequence += 1
            waits = min(_POLL_SECONDS, left)
            body = {"sequence": sequence, "epoch": epoch, "slots": 1, "wait_seconds": waits}
            answer = await self._call("POST", f"{url}/poll", headers, body)
            epoch = epoch if answer is None else answer["epoch"]

    async def _call(
        self, method: str, url: str, headers: dict[str, str], body: object
    ) -> dict[str, Any] | None:
        self.answered.polls += 1
        try:
            async with self._http.request(method, url, json=body, headers=headers) as response:
                if response.status < 300:
                    return {} if response.status == 204 else await response.json()
        except (aiohttp.ClientError, TimeoutError):
            pass
        self.answered.failed += 1
        return None


async def hold(asked: Asked) -> Answered:
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        sessions = _Sessions(asked, http)
        async with asyncio.TaskGroup() as group:
            for number in range(asked.sessions):
                group.create_task(sessions.hold(number))
    return sessions.answered


if __name__ == "__main__":
    answered = asyncio.run(hold(msgspec.json.decode(sys.argv[1], type=Asked)))
    print(msgspec.json.encode(answered).decode())
