"""PostgreSQL is restarted while clients submit and nodes work. Nobody else is."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import aiohttp
import pytest
from tests.system.harness import Process, Receiver, Truth, eventually, judge, submitting

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

BACKLOG = 4000
CLIENTS = 12
PAUSE_SECONDS = 0.005  # between a client's submissions: load, but not a benchmark


class Load:
    """Clients that submit without end. Every other one sends a key, and repeats a request with it
    until it is answered, as a careful client would."""

    def __init__(self, api: str, receiver: str) -> None:
        self._api = f"{api}/api/v1/tasks"
        self._receiver = receiver
        self._stop = asyncio.Event()
        self.acknowledged: dict[str, UUID] = {}  # by name
        self.refused: set[str] = set()
        self.repeated: set[str] = set()  # keyed, acknowledged after a refusal
        self.answers: Counter[int] = Counter()

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(session, number))

    def stop(self) -> None:
        self._stop.set()

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        sent = 0
        while not self._stop.is_set():
            name = f"{number}-{sent}"
            if number % 2:
                await self._until_answered(session, name)
            else:
                await self._once(session, name, {})
            sent += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _until_answered(self, session: aiohttp.ClientSession, name: str) -> None:
        while not await self._once(session, name, {"idempotency-key": name}):
            self.repeated.add(name)
            await asyncio.sleep(0.05)

    async def _once(
        self, session: aiohttp.ClientSession, name: str, headers: dict[str, str]
    ) -> bool:
        body = {"task_type": "test", "name": name, "callback_url": self._receiver}
        async with session.post(self._api, json=body, headers=headers) as response:
            answer = await response.json(content_type=None)
        self.answers[response.status] += 1
        if response.status == 202:
            self.acknowledged[name] = UUID(answer["task_id"])
        else:
            self.refused.add(name)
        return response.status == 202


async def test_restarts_lose_nothing_that_was_acknowledged(
    own_server: EmbeddedServer, processes: list[Process], receiver: Receiver, tmp_path: Path
) -> None:
    api = Process(own_server.dsn, tmp_path, "api", "api", "--port", "0")
    nodes = [Process(own_server.dsn, tmp_path, n, "scheduler") for n in ("first", "second")]
    processes += [api, *nodes]
    for process in processes:
        process.start()
    truth = Truth(own_server.dsn)
    load = Load(await api.started(), receiver.url)
    for node in nodes:
        await node.started()
    lives = await truth.living()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            try:
                for mode in ("fast", "immediate", "fast", "immediate"):
                    await _more_acknowledged(load)
                    print(
                        f"{mode}: {await _restart(own_server, load, mode):.2f} s without an answer"
                    )
                await _more_acknowledged(load)
            finally:
                load.stop()
        await _check(truth, load, receiver)
        assert await truth.living() == lives
        assert all(process.alive for process in processes)
    finally:
        truth.close()


async def _more_acknowledged(load: Load) -> None:
    wanted = len(load.acknowledged) + 150

    async def enough() -> bool:
        return len(load.acknowledged) >= wanted

    await eventually(enough)


async def _restart(server: EmbeddedServer, load: Load, mode: str) -> float:
    """Restart, and wait until submissions are accepted again; gives how long that took."""
    began = time.monotonic()
    await asyncio.to_thread(server.restart, mode=mode)
    before = len(load.acknowledged)

    async def accepted() -> bool:
        return len(load.acknowledged) > before

    await eventually(accepted)
    return time.monotonic() - began


async def _check(truth: Truth, load: Load, receiver: Receiver) -> None:
    ids = set(load.acknowledged.values())
    stopped = time.monotonic()
    await eventually(lambda: truth.completed(ids))
    print(f"all done {time.monotonic() - stopped:.1f} s after the last submission")
    assert set(load.answers) == {202, 503}
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())

    names: Counter[str] = Counter()
    for table in ("task", "task_archive"):
        rows = await truth.fetch(f"SELECT name, id FROM gnomon.{table}")
        names.update(row["name"] for row in rows)
        assert all(load.acknowledged.get(row["name"], row["id"]) == row["id"] for row in rows)
    assert set(names.values()) == {1}
    never = load.refused - load.acknowledged.keys()
    assert names.keys() <= load.acknowledged.keys() | never
    print(
        f"answers {dict(load.answers)}; {len(never & names.keys())} of {len(never)} refused ones "
        f"were stored nevertheless; {len(load.repeated)} repeated with their key, once each"
    )
    assert load.repeated


async def test_a_backlog_drains_through_restarts(
    own_server: EmbeddedServer, processes: list[Process], receiver: Receiver, tmp_path: Path
) -> None:
    """Every statement of the nodes is full, so answers to claims and settlements get lost."""
    async with submitting(own_server.dsn) as submitter:
        ids = await submitter.submit(receiver.url, BACKLOG)
    nodes = [Process(own_server.dsn, tmp_path, n, "scheduler") for n in ("first", "second")]
    processes += nodes
    for node in nodes:
        node.start()
    truth = Truth(own_server.dsn)
    try:
        for quarter in (1, 2, 3):
            await _called(receiver, quarter * BACKLOG // 4)
            await asyncio.to_thread(own_server.restart, mode="immediate")
        restarted = time.monotonic()
        await _called(receiver, BACKLOG)
        await eventually(lambda: truth.completed(ids))
        print(f"drained {time.monotonic() - restarted:.1f} s after the last restart")
        assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
        await eventually(lambda: _both_are_there(truth))
        assert all(node.alive for node in nodes)
        for event in (
            "released tasks whose claim was answered but lost",
            "settlements were refused as stale",
        ):
            print(f"{event}: {[e for node in nodes for e in node.said(event)]}")
    finally:
        truth.close()


async def _both_are_there(truth: Truth) -> bool:
    """Neither was declared dead; one may have been about to join while the other did it all."""
    rows = await truth.fetch("SELECT dead FROM gnomon.node")
    return [row["dead"] for row in rows] == [False, False]


async def _called(receiver: Receiver, count: int) -> None:
    async def enough() -> bool:
        return len(receiver.calls) >= count

    await eventually(enough)
