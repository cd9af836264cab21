"""Every page of the dashboard over millions of tasks: how long the server takes for it."""

import time
from collections.abc import Callable
from statistics import median

import aiohttp
import msgspec
from rich.progress import Progress
from tests.dashboard.page_routes import PAGES, about
from tests.dashboard.seeding import seeded

from bench.processes import Process
from bench.results import BenchError, Findings, Measure, at_most
from bench.stage import Arena, Stage
from gnomon.model.lifecycle import State

GOAL_MS = 300.0
BATCH = 50_000
HOURS = 20  # that the finished tasks are spread over: the partitions of yesterday and today
DAYS = 30  # that the scheduled ones are due in
# Lists are asked with filters, too: common, rare, and for what is not there.
FILTERED = (
    "/tasks?q=status:COMPLETED",
    "/tasks?q=status:SCHEDULED",
    "/tasks?q=type:type-7",
    "/tasks?q=type:absent",
    "/tasks?q=tag:rare",
    "/tasks?q=status:CANCELLED+priority:LOW",
    "/dead-letters?q=type:type-7",
)

_TENANTS = """
INSERT INTO gnomon.tenant (id) SELECT 'tenant-' || n FROM generate_series(1, $1::integer - 1) AS n
"""
# Half of all is of the tenant that looks, and the rest of the others.
_ROWS = """
SELECT n, CASE WHEN n % 2 = 0 THEN 'default' ELSE 'tenant-' || 1 + n / 2 % ($3::integer - 1) END
           AS tenant,
       'type-' || n % $4::integer AS task_type,
       CASE WHEN n % 20 = 0 THEN 0 WHEN n % 20 = 1 THEN 3 ELSE 2 END AS lane,
       CASE WHEN n % 50000 = 8 THEN '["rare"]'::jsonb WHEN n % 20 = 4 THEN '["common"]'::jsonb END
           AS tags
FROM generate_series($1::integer, $2::integer) AS n
"""
_FINISHED = f"""
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, started_at, finished_at, fence, attempt,
    timeout_seconds, task_type, target, payload, tags, worker
)
SELECT tenant, uuidv7(age), lane, CASE WHEN n % 100 = 2 THEN {State.CANCELLED:d}
                                       ELSE {State.COMPLETED:d} END,
       0, now() + age, now() + age, now() + age, 1, 1, 30, task_type,
       '{{"type": "python", "function": "noop"}}', '{{"n": 1}}', tags, 'bench'
FROM (SELECT *, -interval '1 hour' * {HOURS} * (1 - n / $5::float8) AS age FROM ({_ROWS}) AS r)
    AS rows
"""
_SCHEDULED = f"""
INSERT INTO gnomon.task (
    tenant_id, id, lane, state, execute_at, due_at, task_type, target, payload, tags, last_error,
    attempt
)
SELECT tenant, uuidv7(), lane, CASE WHEN dead THEN {State.DEAD:d} ELSE {State.WAITING:d} END,
       due, due, task_type, '{{"type": "python", "function": "noop"}}', '{{"n": 1}}', tags,
       CASE WHEN dead THEN 'ValueError: order ' || n || ' is unknown' END, dead::integer
FROM (SELECT *, n % 500 = 6 AS dead,
             now() + interval '1 hour' + interval '1 day' * {DAYS} * (n / $5::float8) AS due
      FROM ({_ROWS}) AS r) AS rows
"""


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what is there."""

    finished: int
    scheduled: int
    types: int
    tenants: int
    times: int  # that each page is asked for


async def run(stage: Stage, amounts: Amounts, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("loading", total=amounts.finished + amounts.scheduled)
    async with stage.arena() as arena:
        took = await load(arena, amounts, lambda count: progress.advance(bar, count))
        findings.add([Measure("load_seconds", "loading by SQL", took, "s")])
        async with (
            arena.api() as api,
            aiohttp.ClientSession(api.where) as client,
            seeded(arena.dsn, client) as things,
        ):
            paths = [*(about(path, things) for path in PAGES), *FILTERED]
            bar = progress.add_task("asking", total=len(paths))
            for path, title in zip(paths, [*PAGES, *FILTERED], strict=True):
                findings.add([await _time(client, path, title, amounts.times)])
                progress.advance(bar)
            findings.add([_memory(api)])
    return findings


async def load(arena: Arena, amounts: Amounts, advance: Callable[[int], None]) -> float:
    began = time.perf_counter()
    await arena.connection.execute(_TENANTS, amounts.tenants)
    for statement, rows in ((_FINISHED, amounts.finished), (_SCHEDULED, amounts.scheduled)):
        for first in range(0, rows, BATCH):
            last = min(first + BATCH, rows)
            values = (first + 1, last, amounts.tenants, amounts.types, rows)
            await arena.connection.execute(statement, *values)
            advance(last - first)
    took = time.perf_counter() - began
    await arena.rest()
    return took


async def _time(client: aiohttp.ClientSession, path: str, title: str, times: int) -> Measure:
    """From the request to the last byte of the answer, on a connection that is open."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        async with client.get(path, allow_redirects=False) as answer:
            body = await answer.read()
        took.append((time.perf_counter() - began) * 1000)
        if answer.status != 200:
            raise BenchError(f"{path} answered {answer.status}: {body.decode()[-500:]}")
    note = f"median {median(took):.0f} ms of {times}; {len(body) / 1024:.0f} KB"
    return Measure(f"page {title}", title, max(took), "ms", at_most(GOAL_MS), note)


def _memory(api: Process) -> Measure:
    held = api.peak_memory()
    value = None if held is None else held / 2**20
    return Measure("api_memory", "the API's memory, at most", value, "MB")
