"""Limits under load, while nodes are killed and stopped, limits are changed and PostgreSQL is
restarted: what is under way is counted all the time, by the one who is called and in the rows.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import msgspec
from proof.limits.judge import Finding, Limit, most_within, over
from proof.limits.observer import Asked, Observer
from tests.system.harness import Process, Truth

from gnomon.clock import SystemClock, new_id
from gnomon.limits.limiter import Limiter
from gnomon.model.errors import StoreUnavailable
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.tasks.task_store import PostgresTasks

LEASE = 4.0  # a node that is merely slow must not be taken for dead: its calls would go on
LONGEST = 0.12  # seconds that a call takes
GRACE = 2.0 + LONGEST + 0.5  # for a lower limit to be heard of, and for what had started to end
RATE, PER_SECONDS = 50, 1.0
# A start is made when the node says so, and seen when the call arrives: on a busy machine this much
# later. Two starts may seem to be nearer to each other by that.
ON_THE_WAY = 0.2
# By the clock of the nodes, which is what the database's was in its last answer.
OUT_OF_STEP = 0.05

CUSTOMERS = [f"c{number}" for number in range(4)]
LIMITERS = {
    "all": Limiter(tenant_id=DEFAULT_TENANT, name="all", concurrency=20),
    "mail": Limiter(tenant_id=DEFAULT_TENANT, name="mail", task_type="mail", concurrency=7),
    "each": Limiter(
        tenant_id=DEFAULT_TENANT, name="each", task_type="sync", key="/customer", concurrency=3
    ),
    "burst": Limiter(
        tenant_id=DEFAULT_TENANT,
        name="burst",
        task_type="burst",
        rate=RATE,
        per_seconds=PER_SECONDS,
    ),
}
# Of what only the limit of all concerns there are few, or nothing else would come to its own.
_KEPT_WAITING = {"mail": 150, "sync": 150, "burst": 150, "free": 2}
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    StoreUnavailable,
)

_LIMITER = """
INSERT INTO gnomon.limiter (tenant_id, name, task_type, queue, key, concurrency, rate, per_seconds)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant_id, name) DO UPDATE SET concurrency = excluded.concurrency
"""
_RUNNING = """
SELECT task_type, limit_keys::json ->> 'each' AS customer, count(*)
FROM gnomon.task WHERE state = 1 GROUP BY 1, 2
"""
_WAITING = "SELECT task_type, count(*) FROM gnomon.task WHERE state = 0 GROUP BY 1"
_STARTED = """
SELECT extract(epoch FROM started_at)::float8 AS at FROM gnomon.task_archive
WHERE task_type = 'burst' AND started_at IS NOT NULL
UNION ALL
SELECT extract(epoch FROM e.started_at)::float8 FROM gnomon.execution AS e
JOIN gnomon.task_archive AS a ON a.tenant_id = e.tenant_id AND a.id = e.task_id
WHERE a.task_type = 'burst' AND e.started_at IS NOT NULL AND e.response_status IS NOT NULL
"""


class Result(NamedTuple):
    findings: list[Finding]
    calls: int
    done: dict[str, int]  # what was broken, and how often

    @property
    def holds(self) -> bool:
        return all(finding.over == 0 for finding in self.findings)

    def readable(self) -> str:
        samples = sum(finding.samples for finding in self.findings)
        done = ", ".join(f"{count} x {what}" for what, count in sorted(self.done.items()))
        return "\n".join(
            [
                *(finding.readable() for finding in self.findings),
                f"{samples} samples of {self.calls} calls; {done}",
                "limits: all hold" if self.holds else "limits: EXCEEDED",
            ]
        )


class Campaign:
    """Keeps more waiting than may run, breaks things, and counts."""

    def __init__(self, dsn: str, folder: Path, nodes: int, seed: int) -> None:
        self._dsn = dsn
        self._chance = random.Random(seed)
        self.observer = Observer()
        self.truth = Truth(dsn)
        self.nodes = [
            Process(
                dsn, folder, f"node-{number}", "scheduler",
                node_slots=30, node_lease_seconds=LEASE,
                node_sweep_seconds=0.2, node_drain_seconds=5,
            )
            for number in range(nodes)
        ]  # fmt: skip
        self.limits = {
            "all": Limit(20, GRACE),
            "mail": Limit(7, GRACE),
            **{customer: Limit(3, GRACE) for customer in CUSTOMERS},
        }
        self.rows: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
        self.done: Counter[str] = Counter()

    # What is done

    async def edit(self, name: str, concurrency: int) -> None:
        """Change a limit while it is used."""
        limiter = msgspec.structs.replace(LIMITERS[name], concurrency=concurrency)
        began = time.time()
        await self._surely(lambda: self.truth.fetch(_LIMITER, *msgspec.structs.astuple(limiter)))
        for bucket in CUSTOMERS if name == "each" else [name]:
            self.limits[bucket].change(concurrency, began, time.time())
        self.done["limit changed"] += 1

    async def kill(self) -> None:
        node = self._chance.choice(self.nodes)
        node.kill()
        self.done["node killed"] += 1
        await self._again(node)

    async def stop(self) -> None:
        node = self._chance.choice(self.nodes)
        node.terminate()
        await node.code(60)
        self.done["node stopped"] += 1
        await self._again(node)

    async def _again(self, node: Process) -> None:
        await asyncio.sleep(self._chance.uniform(0.2, 3.0))
        node.start()
        await node.started()

    async def edit_something(self) -> None:
        name, least, most = self._chance.choice(
            [("all", 12, 24), ("mail", 1, 12), ("each", 1, 5), ("mail", 0, 1)]
        )
        await self.edit(name, self._chance.randint(least, most))
        await asyncio.sleep(self._chance.uniform(0.0, 2 * GRACE))
        await self.edit(name, LIMITERS[name].concurrency or 0)

    # What happens meanwhile

    @asynccontextmanager
    async def under_load(self) -> AsyncIterator[None]:
        self.observer.start()
        try:
            for limiter in LIMITERS.values():
                await self.truth.fetch(_LIMITER, *msgspec.structs.astuple(limiter))
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                await node.started()
            async with asyncio.TaskGroup() as group:
                work = [group.create_task(self._submit()), group.create_task(self._look_at_rows())]
                yield
                for task in work:
                    task.cancel()
        finally:
            for node in self.nodes:
                node.close()
            self.observer.close()

    async def _submit(self) -> None:
        """Keep more of each kind waiting than can run within the next look."""
        clock, truth = SystemClock(), Truth(self._dsn)
        database = Database(self._dsn, 2)
        await database.open()
        announcer = Announcer(self._dsn, clock, 15.0)
        store = PostgresTasks(
            database, announcer, 60.0, limiters_of=lambda _: tuple(LIMITERS.values())
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(announcer.run())
                while True:
                    with contextlib.suppress(*_AWAY):
                        await self._fill_up(store, await truth.fetch(_WAITING), clock)
                    await asyncio.sleep(0.2)
        finally:
            truth.close()
            await database.close()

    async def _fill_up(self, store: PostgresTasks, rows: Sequence[Any], clock: SystemClock) -> None:
        waiting = {row["task_type"]: row["count"] for row in rows}
        new = [
            NewTask(self._task(kind, clock))
            for kind, number in _KEPT_WAITING.items()
            for _ in range(max(0, number - waiting.get(kind, 0)))
        ]
        if new:
            await store.insert(new)

    def _task(self, kind: str, clock: SystemClock) -> Submission:
        customer = self._chance.choice(CUSTOMERS)
        buckets = ["all"]
        buckets += {"mail": ["mail"], "sync": [customer], "burst": ["burst"]}.get(kind, [])
        seconds = 0.005 if kind == "burst" else self._chance.uniform(0.01, LONGEST)
        payload = msgspec.to_builtins(Asked(buckets, seconds)) | {"customer": customer}
        now = clock.now()
        return Submission(
            tenant_id=DEFAULT_TENANT,
            id=new_id(now),
            task_type=kind,
            target=HttpTarget(self.observer.url),
            execute_at=now,
            due_at=now,
            payload=msgspec.json.encode(payload),
        )

    async def _look_at_rows(self) -> None:
        truth = Truth(self._dsn)
        try:
            while True:
                with contextlib.suppress(*_AWAY):
                    began = time.time()
                    rows = await truth.fetch(_RUNNING)
                    self._note(rows, began, time.time())
                await asyncio.sleep(0.02)
        finally:
            truth.close()

    def _note(self, rows: Sequence[Any], began: float, ended: float) -> None:
        running: Counter[str] = Counter()
        for kind, customer, count in rows:
            running["all"] += count
            running[customer if kind == "sync" else kind] += count
        for bucket in self.limits:
            self.rows[bucket].append((began, ended, running[bucket]))

    async def _surely(self, act: Callable[[], Any]) -> None:
        while True:
            try:
                await act()
            except _AWAY:
                await asyncio.sleep(0.05)
            else:
                return

    # What came of it

    async def result(self) -> Result:
        findings = [self._concurrency(bucket, limit) for bucket, limit in self.limits.items()]
        findings.append(await self._rate())
        return Result(findings, len(self.observer.starts["all"]), dict(self.done))

    def _concurrency(self, bucket: str, limit: Limit) -> Finding:
        samples, rows = self.observer.samples[bucket], self.rows[bucket]
        too_many = over(samples, limit)
        too_many += sum(count > limit.at(began, ended) for began, ended, count in rows)
        allowed = sum(limit.at(ended, ended) for _, ended, _ in rows)
        return Finding(
            bucket,
            str(limit.now),
            max((sample.number for sample in samples), default=0),
            max((count for _, _, count in rows), default=0),
            len(samples) + len(rows),
            too_many,
            sum(count for _, _, count in rows) / max(1, allowed),
        )

    async def _rate(self) -> Finding:
        arrived = self.observer.starts["burst"]
        started = [row["at"] for row in await self.truth.fetch(_STARTED)]
        seen = most_within(arrived, PER_SECONDS - ON_THE_WAY)
        by_nodes = most_within(started, PER_SECONDS - OUT_OF_STEP)
        seconds = max(1.0, max(arrived, default=0) - min(arrived, default=0))
        return Finding(
            "burst",
            f"{RATE} in {PER_SECONDS:g} s",
            seen,
            by_nodes,
            len(arrived) + len(started),
            max(0, seen - RATE) + max(0, by_nodes - RATE),
            len(arrived) / seconds / RATE * PER_SECONDS,
        )
