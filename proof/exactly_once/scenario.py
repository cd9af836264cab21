"""Three scenarios under kill -9: transactional increments, submissions, an outbox."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from proof.exactly_once import shop
from proof.fairness.world import delays
from tests.conftest import migrated
from tests.system.harness import Process, eventually

from gnomon import outbox
from gnomon.cli.run.relay import VARIABLE
from gnomon.store.embedded import EmbeddedServer

APP = "proof.exactly_once.shop:app"
ROLE = "shop"
_PATIENCE = 900.0
_RANGE = 100_000  # of the numbers of one scenario's sales
_SCHEMA = f"""
    CREATE SCHEMA shop;
    CREATE TABLE shop.counter (slot integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
    INSERT INTO shop.counter SELECT generate_series(0, {shop.SLOTS - 1});
    CREATE TABLE shop.incremented (number bigint);
    CREATE TABLE shop.sale (id bigint);
    CREATE TABLE shop.delivered (id bigint);
    GRANT USAGE ON SCHEMA shop TO {ROLE};
    GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA shop TO {ROLE};
"""
_SUBMIT = """
SELECT gnomon.submit(json_build_object(
    'task_type', 'increment', 'payload', json_build_object('number', n),
    'delivery', 'exactly_once', 'retry_policy', json_build_object('max_retries', 1000)
)) FROM generate_series(1, $1) AS n
"""
_DELAYS = """
SELECT extract(epoch FROM started_at - execute_at)::float8 AS delay
FROM gnomon.task_archive WHERE task_type = 'deliver' AND attempt = 1
"""


@dataclass(frozen=True)
class Size:
    """How large it is."""

    increments: int = 10_000
    kills: int = 100  # of workers, while they increment
    transactions: int = 1_000  # half of them are rolled back; as many by the outbox
    program_kills: int = 20  # of programs that submit, and as many of the relay
    workers: int = 3
    seed: int = 1


class Program:
    """A program that makes transactions, and is started again until it has made them all."""

    def __init__(self, dsn: str, first: int, last: int, environ: dict[str, str]) -> None:
        self._arguments = [dsn, str(first), str(last)]
        self._environ = environ
        self.kills = 0
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "proof.exactly_once.shop", *self._arguments]
        return subprocess.Popen(command, env=self._environ)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1
        self.process = self._started()

    def has_ended(self) -> bool:
        code = self.process.poll()
        assert code in (None, 0), f"a program ended with {code}"
        return code == 0


class Scenarios:
    """Workers on one database, which are killed and started again."""

    def __init__(self, server: EmbeddedServer, folder: Path, size: Size) -> None:
        self.dsn = server.dsn
        self.role_dsn = server.dsn.replace("user=gnomon", f"user={ROLE}")
        self._folder = folder
        self._size = size
        self._chance = random.Random(size.seed)
        settings = {
            "database_handler_url": self.role_dsn,
            "node_slots": 20,
            "node_sweep_seconds": 0.2,
            "output_log_level": "info",
        }
        self._workers = [
            Process(server.dsn, folder, f"worker-{number}", "worker", APP, **settings)
            for number in range(size.workers)
        ]
        self._connection: asyncpg.Connection[Any]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            self._connection = await asyncpg.connect(self.dsn)
            stack.push_async_callback(self._connection.close)
            for worker in self._workers:
                stack.callback(worker.close)
                worker.start()
            yield

    async def _count(self, question: str) -> int:
        found: int = await self._connection.fetchval(question)
        return found

    async def increments(self) -> list[str]:
        """Kill a worker each time that so many more increments are there."""
        size, kills = self._size, 0
        step = max(1, size.increments // (size.kills + 1))

        async def beyond(number: int) -> bool:
            return await self._count("SELECT count(*) FROM shop.incremented") >= number

        while kills < size.kills:
            await eventually(partial(beyond, (kills + 1) * step), _PATIENCE)
            worker = self._chance.choice(self._workers)
            if worker.serving or not worker.alive:
                worker.kill()
                worker.start()
                kills += 1
            else:
                await asyncio.sleep(0.05)
        await eventually(lambda: beyond(size.increments), _PATIENCE)
        await eventually(self._all_ended, _PATIENCE)
        total = await self._count("SELECT sum(n)::bigint FROM shop.counter")
        rows = await self._count("SELECT count(*) FROM shop.incremented")
        numbers = await self._count("SELECT count(DISTINCT number) FROM shop.incremented")
        starts = await self._count(
            "SELECT sum(attempt) FROM gnomon.task_archive WHERE task_type = 'increment'"
        )
        print(
            f"increments: {size.increments} tasks, {kills} kills, {starts} executions; "
            f"the counter is {total}",
            flush=True,
        )
        if (total, rows, numbers) != (size.increments,) * 3:
            return [f"the counter is {total}, with {rows} rows of {numbers} numbers"]
        return []

    async def submissions(self) -> list[str]:
        """Programs that submit in their transactions, and are killed."""
        await self._sell(self.role_dsn, self._connection, first=0, environ={})
        wrong = await self._compared("submissions", self._connection, 0)
        rows = await self._connection.fetch(_DELAYS)
        print(f"starts after submission: {delays([row['delay'] for row in rows])}", flush=True)
        return wrong

    async def relayed(self) -> list[str]:
        """Programs with an outbox in another database, and a relay that is killed."""
        other = self.dsn.replace("/gnomon?", "/shop?")
        outside = await asyncpg.connect(other)
        # It is the relay of whoever starts it: with DATABASE_URL, straight to Gnomon's database.
        os.environ[VARIABLE] = other
        relay = Process(self.dsn, self._folder, "relay", "relay", output_log_level="warning")
        del os.environ[VARIABLE]
        try:
            await outside.execute(f"{outbox.ddl()}; CREATE SCHEMA shop; ")
            await outside.execute("CREATE TABLE shop.sale (id bigint)")
            relay.start()
            kills = 0

            async def kill() -> None:
                nonlocal kills
                relay.kill()
                relay.start()
                kills += 1

            await self._sell(other, outside, first=_RANGE, environ={VARIABLE: other}, also=kill)

            async def is_empty() -> bool:
                return bool(await outside.fetchval("SELECT count(*) FROM gnomon_outbox") == 0)

            await eventually(is_empty, _PATIENCE)
            print(f"relay: killed {kills} times", flush=True)
            return await self._compared("outbox", outside, _RANGE)
        finally:
            relay.close()
            await outside.close()

    async def _sell(
        self,
        dsn: str,
        where: "asyncpg.Connection[Any]",
        *,
        first: int,
        environ: dict[str, str],
        also: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Make the transactions, from two programs; kill one each time that some more are there."""
        size = self._size
        half = size.transactions // 2
        environ = {**os.environ, **environ}
        programs = [
            Program(dsn, first + 1, first + half, environ),
            Program(dsn, first + half + 1, first + size.transactions, environ),
        ]
        step = max(1, size.transactions // 2 // (size.program_kills + 1))
        seen = 0
        try:
            while not all(program.has_ended() for program in programs):
                question = "SELECT count(*) FROM shop.sale WHERE id > $1 AND id < $2"
                sold: int = await where.fetchval(question, first, first + _RANGE)
                if sold >= seen + step:
                    seen = sold
                    chosen = self._chance.choice(programs)
                    if not chosen.has_ended():
                        chosen.kill()
                    if also is not None:
                        await also()
                await asyncio.sleep(0.005)
        finally:
            for program in programs:
                program.process.kill()
                program.process.wait()
        print(f"programs were killed {sum(p.kills for p in programs)} times", flush=True)

    async def _compared(self, name: str, where: "asyncpg.Connection[Any]", first: int) -> list[str]:
        """The sales, and what was delivered once nothing waits any more."""
        await eventually(self._all_ended, _PATIENCE)
        question = "SELECT id FROM {} WHERE id > $1 AND id < $2 ORDER BY id"
        numbers = first, first + _RANGE
        sold = [row["id"] for row in await where.fetch(question.format("shop.sale"), *numbers)]
        delivered = [
            row["id"]
            for row in await self._connection.fetch(question.format("shop.delivered"), *numbers)
        ]
        print(f"{name}: {len(sold)} committed, {len(delivered)} ran", flush=True)
        if sold != delivered:
            missing, more = set(sold) - set(delivered), set(delivered) - set(sold)
            return [f"{name}: missing {missing}, too many {more}, {len(delivered)} of {len(sold)}"]
        return []

    async def _all_ended(self) -> bool:
        return await self._count("SELECT count(*) FROM gnomon.task") == 0


async def run(folder: Path, size: Size) -> list[str]:
    """What does not hold."""
    with EmbeddedServer(folder / "data") as server:
        await _prepare(server, size)
        scenarios = Scenarios(server, folder, size)
        async with scenarios.running():
            wrong = await scenarios.increments()
            wrong += await scenarios.submissions()
            wrong += await scenarios.relayed()
    return wrong


async def _prepare(server: EmbeddedServer, size: Size) -> None:
    await migrated(server.dsn)
    superuser = await asyncpg.connect(server.superuser_dsn)
    await superuser.execute(f"CREATE ROLE {ROLE} LOGIN")
    await superuser.execute("CREATE DATABASE shop OWNER gnomon")
    await superuser.close()
    owner = await asyncpg.connect(server.dsn)
    await owner.execute(_SCHEMA)
    await owner.execute(f"SELECT gnomon.grant_role('{ROLE}', 'default')")
    await owner.close()
    # Before there are workers: they register a schema, which this does not check.
    program = await asyncpg.connect(server.dsn.replace("user=gnomon", f"user={ROLE}"))
    await program.execute(_SUBMIT, size.increments)
    await program.close()
