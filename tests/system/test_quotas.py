"""Quotas over several API processes, of which one is killed, while PostgreSQL is restarted."""

import asyncio
import itertools
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import asyncpg
import pytest
from tests.integration.api_calls import LATER
from tests.system.harness import Process, Truth, eventually, start_server, stop_server

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

QUOTA = 500
RATE = 40
CLIENTS = 8  # of each API
COUNT = "SELECT count(*) FROM gnomon.task WHERE state < 4"

# What each submission took, and when, as the row tells that decides about it.
LEDGER = """
CREATE TABLE public.ledger (at timestamptz NOT NULL, taken bigint NOT NULL);
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.ledger VALUES (
        NEW.moments[cardinality(NEW.moments)],
        (SELECT sum(n) FROM unnest(NEW.numbers) AS n)
        - (SELECT coalesce(sum(o.n), 0) FROM unnest(OLD.moments, OLD.numbers) AS o (at, n)
           WHERE o.at > NEW.moments[cardinality(NEW.moments)] - interval '1 second')
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER note AFTER UPDATE ON gnomon.tenant_pace
    FOR EACH ROW EXECUTE FUNCTION public.note()
"""
BUSIEST_SECOND = """
SELECT max(total) FROM (
    SELECT sum(taken) OVER (
        ORDER BY at RANGE BETWEEN CURRENT ROW AND interval '999999 microseconds' FOLLOWING
    ) AS total
    FROM public.ledger
) AS windows
"""


class Hammer:
    """Clients of several APIs that submit as fast as they are answered."""

    def __init__(self, name: str, urls: Sequence[str]) -> None:
        self.answers: Counter[int] = Counter()
        self.acknowledged: set[UUID] = set()
        self.refusals: list[dict[str, Any]] = []
        self._name = name
        self._urls = urls
        self._stop = asyncio.Event()

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for number, url in itertools.product(range(CLIENTS), self._urls):
                group.create_task(self._client(session, f"{url}/api/v1/tasks", number))

    def stop(self) -> None:
        self._stop.set()

    async def accepted(self, count: int) -> None:
        async def enough() -> bool:
            return len(self.acknowledged) >= count

        await eventually(enough)

    async def refused(self, count: int) -> None:
        async def enough() -> bool:
            return self.answers[429] >= count

        await eventually(enough)

    async def _client(self, session: aiohttp.ClientSession, url: str, number: int) -> None:
        for turn in itertools.count():
            if self._stop.is_set():
                return
            key = f"{self._name}-{url}-{turn}"
            headers = {"Idempotency-Key": key} if number == 0 else {}
            try:
                async with session.post(url, json=LATER, headers=headers) as response:
                    answer = await response.json(content_type=None)
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(0.05)  # as a client does whose server is gone
                continue
            self.answers[response.status] += 1
            if response.status == 202:
                self.acknowledged.add(UUID(answer["task_id"]))
            elif response.status == 429:
                self.refusals.append(answer)


async def most_seen(dsn: str, stop: asyncio.Event) -> int:
    """The most live rows that a reader found at any time."""
    most, truth = 0, Truth(dsn)
    while not stop.is_set():
        try:
            most = max(most, await truth.value(COUNT))
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            truth.close()
            truth = Truth(dsn)
        await asyncio.sleep(0.005)
    truth.close()
    return most


@pytest.fixture
def apis(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[list[Process]]:
    started = [Process(own_server.dsn, tmp_path, f"api-{n}", "api", api_port=0) for n in range(3)]
    for process in started:
        process.start()
    yield started
    for process in started:
        process.close()


async def quotas_known(urls: Sequence[str], **quotas: int) -> None:
    async with aiohttp.ClientSession() as session:
        for url in urls:

            async def known(url: str = url) -> bool:
                async with session.get(f"{url}/api/v1/tenant") as answer:
                    found = (await answer.json())["quotas"]
                return all(found[name] == value for name, value in quotas.items())

            await eventually(known)


async def test_quotas_hold_over_processes_whatever_ends_in_the_middle(
    own_server: EmbeddedServer, apis: list[Process]
) -> None:
    truth = Truth(own_server.dsn)
    await truth.fetch(
        "UPDATE gnomon.tenant SET quotas = json_build_object('scheduled_tasks', $1::int)", QUOTA
    )
    urls = [await process.started() for process in apis]
    await quotas_known(urls, scheduled_tasks=QUOTA)
    hammer, stop = Hammer("quota", urls), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        seen = group.create_task(most_seen(own_server.dsn, stop))
        hammering = group.create_task(hammer.run())
        await hammer.accepted(QUOTA // 4)
        apis[0].kill()
        await hammer.accepted(QUOTA // 2)
        truth.close()
        await asyncio.to_thread(stop_server, own_server, signal.SIGQUIT)
        await asyncio.to_thread(start_server, own_server)
        await hammer.refused(200)
        assert await truth.value(COUNT) == QUOTA  # no room was lost with who had taken it
        await truth.fetch(
            "DELETE FROM gnomon.task WHERE id IN (SELECT id FROM gnomon.task LIMIT 100)"
        )
        await eventually(lambda: _is(truth, QUOTA))
        await hammer.refused(hammer.answers[429] + 100)
        hammer.stop()
        await hammering
        stop.set()
    assert await seen == QUOTA
    assert await truth.value(COUNT) == QUOTA
    # What was cut off may have been stored and not acknowledged; nothing else.
    assert len(hammer.acknowledged) <= QUOTA + 100
    assert all(
        p["quota"] == "scheduled_tasks" and p["used"] == QUOTA for p in hammer.refusals[-50:]
    )

    await _hold_the_rate(own_server, truth, urls[1:])
    truth.close()


async def _is(truth: Truth, count: int) -> bool:
    return bool(await truth.value(COUNT) == count)


async def _hold_the_rate(own_server: EmbeddedServer, truth: Truth, urls: Sequence[str]) -> None:
    stored = await truth.value(COUNT)
    await truth.fetch(
        "UPDATE gnomon.tenant SET quotas = json_build_object('submissions_per_second', $1::int)",
        RATE,
    )
    await quotas_known(urls, submissions_per_second=RATE)
    connection = await asyncpg.connect(own_server.dsn)
    await connection.execute(LEDGER)
    await connection.close()
    hammer = Hammer("rate", urls)
    async with asyncio.TaskGroup() as group:
        hammering = group.create_task(hammer.run())
        await hammer.accepted(3 * RATE)
        hammer.stop()
        await hammering
    taken = await truth.value("SELECT sum(taken)::bigint FROM public.ledger")
    assert taken == len(hammer.acknowledged) == await truth.value(COUNT) - stored
    assert await truth.value(BUSIEST_SECOND) == RATE
    took = await truth.value("SELECT extract(epoch FROM max(at) - min(at)) FROM public.ledger")
    assert 2.0 <= took < 3.5  # three full seconds, one after the other
    assert hammer.answers[429] > 0
