"""Every page of the dashboard over millions of tasks: how long the server takes for it."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import median
from urllib.parse import urlencode

import aiohttp
import msgspec
from rich.progress import Progress
from tests.dashboard.page_routes import PAGES, about
from tests.dashboard.seeding import seeded

from bench import page_rows
from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.processes import Process
from gnomon.bench.results import BenchError, Findings, Measure, at_most
from gnomon.model.tasks.lifecycle import State

GOAL_MS = 300.0
BATCH = 50_000
HOURS = 20  # that the finished tasks are spread over: the partitions of yesterday and today
DAYS = 30  # that the scheduled ones are due in
# Lists are asked with filters, too: common, rare, only old, and for what is not there.
FILTERED = (
    "/?range=day",
    "/?range=week",
    "/?fragment=1",
    "/tasks?fragment=1",
    "/tasks?q=status:COMPLETED",
    "/tasks?q=status:SCHEDULED",
    "/tasks?q=type:type-7",
    "/tasks?q=type:absent",
    "/tasks?q=tag:rare",
    "/tasks?q=tag:old",
    "/tasks?q=status:CANCELLED+priority:LOW",
    "/dead-letters?fragment=1",
    "/dead-letters?q=type:type-7",
    "/dead-letters?q=type:absent",
    "/dead-letters/all?q=type:type-7",
    "/dead-letters/all?q=type:absent",
    "/dead-letters/all?q=tag:old",
    "/dead-letters/resolved?q=type:absent",
    "/events?fragment=1",
    "/events?kind=cron.sla_missed",
    "/events?kind=absent&state=all",
    "/events?state=acknowledged",
    "/cron?fragment=1",
    "/cron?name=absent",
    "/cron?tag=old",
    "/fair-share?range=day",
    "/fair-share?range=week",
    "/limits?fragment=1",
    "/bulk-operations/new?action=cancel",
    "/bulk-operations/new?action=cancel&q=type:absent",
    "/bulk-operations/new?action=retry",
    "/bulk-operations/new?action=retry&q=error:absent",
)
API = "/api/v1"
READS = (
    "/tasks/stats",
    "/tasks/stats?tag=absent",
    "/tasks/labels",
    "/tasks/upcoming",
    "/activity",
    "/activity?{week}",
    "/activity/tenants",
    "/activity/tenants?{week}",
    "/dead-letters/groups?limit=100",
    "/dead-letters?limit=100&resolved=true",
    "/cron-jobs?limit=100",
    "/events?limit=100",
    "/breakers",
    "/limiters",
    "/usage/tenants",
)
# Lists far from their beginning: the page, and the list of the API that leads there.
DEEP = (
    ("/tasks", "/tasks", 50),
    ("/tasks?q=type:type-7", "/tasks", 50),
    ("/dead-letters", "/dead-letters/groups", 4),
    ("/dead-letters/all", "/dead-letters", 40),
    ("/dead-letters/resolved", "/dead-letters?resolved=true", 40),
    ("/events?state=all", "/events", 50),
    ("/cron", "/cron-jobs", 8),
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
       CASE WHEN n <= 100 THEN '["old"]'::jsonb
            WHEN n % 50000 = 8 THEN '["rare"]'::jsonb
            WHEN n % 20 = 4 THEN '["common"]'::jsonb END AS tags
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


class _Address(msgspec.Struct, frozen=True):
    """What is asked for, and what it is called in the table."""

    title: str
    path: str


async def run(stage: Stage, amounts: Amounts, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("loading", total=amounts.finished + amounts.scheduled)
    async with stage.arena() as arena:
        await page_rows.leave_unanalyzed(arena.connection)
        took = await load(arena, amounts, lambda count: progress.advance(bar, count))
        async with (
            arena.api() as api,
            aiohttp.ClientSession(api.where) as client,
            seeded(arena.dsn, client) as things,
        ):
            began = time.perf_counter()
            rows = page_rows.ALL if amounts.finished >= 100_000 else page_rows.FEW
            await page_rows.load_rows(arena.connection, rows, amounts.tenants, amounts.types)
            took += time.perf_counter() - began
            findings.add([Measure("load_seconds", "loading by SQL", took, "s")])
            addresses = await _addresses(client, things)
            bar = progress.add_task("asking", total=2 * len(addresses))
            for known in ("never analyzed", "analyzed"):
                if known == "analyzed":
                    await arena.rest()
                for address in addresses:
                    findings.add([await _time(client, address, known, amounts.times)])
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
    await arena.connection.execute("CHECKPOINT")
    return time.perf_counter() - began


async def _addresses(client: aiohttp.ClientSession, things: Mapping[str, str]) -> list[_Address]:
    now = datetime.now(UTC)
    week = urlencode({"from": (now - timedelta(days=7)).isoformat(), "to": now.isoformat()})
    found = [_Address(path, about(path, things)) for path in PAGES]
    found += [_Address(path, path) for path in FILTERED]
    found += [_Address(API + path, API + path.replace("{week}", week)) for path in READS]
    for page, source, pages in DEEP:
        joint = "&" if "?" in page else "?"
        cursor = await _cursor(client, API + source, pages)
        path = page if cursor is None else f"{page}{joint}{urlencode({'cursor': cursor})}"
        found.append(_Address(f"{page} deep", path))
    return found


async def _cursor(client: aiohttp.ClientSession, path: str, pages: int) -> str | None:
    """Of the page after so many full ones; of the last one, if there are fewer."""
    cursor = None
    for _ in range(pages):
        query = {"limit": "100"} if cursor is None else {"limit": "100", "cursor": cursor}
        async with client.get(path, params=query) as answer:
            following = (await answer.json()).get("next_cursor")
            if answer.status != 200:
                raise BenchError(f"{path} answered {answer.status}: {await answer.text()}")
        if following is None:
            break
        cursor = following
    return cursor


async def _time(
    client: aiohttp.ClientSession, address: _Address, known: str, times: int
) -> Measure:
    """From the request to the last byte of the answer, on a connection that is open."""
    took = []
    for number in range(times):
        # A fragment is kept for all who ask for the same.
        path = f"{address.path}&n={number}" if "fragment" in address.path else address.path
        began = time.perf_counter()
        async with client.get(path, allow_redirects=False) as answer:
            body = await answer.read()
        took.append((time.perf_counter() - began) * 1000)
        if answer.status != 200:
            raise BenchError(f"{path} answered {answer.status}: {body.decode()[-500:]}")
    note = f"p50 {median(took):.0f} ms of {times}; {len(body) / 1024:.0f} KB"
    title = address.title if known == "analyzed" else f"{address.title}, {known}"
    return Measure(f"page {title}", title, max(took), "ms", at_most(GOAL_MS), note)


def _memory(api: Process) -> Measure:
    held = api.peak_memory()
    value = None if held is None else held / 2**20
    return Measure("api_memory", "the API's memory, at most", value, "MB")
