"""Pages of the task list over a large archive, with every filter, common and rare."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median
from uuid import UUID

from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.arena import Arena, store_on
from gnomon.bench.results import Findings, Measure
from gnomon.model.tasks.lifecycle import State, Status
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.store.postgres.tasks.task_store import PostgresTasks

LIMIT = 50
TIMES = 15
LOAD_BATCH = 50_000
HOURS = 20  # that the tasks are spread over: the partitions of yesterday and today
CRON_JOB = UUID("00000000-0000-4000-8000-000000000001")
_AFTER_ALL = UUID(int=(1 << 128) - 1)

# One in 100 was cancelled, one in 1 000 expired. There are 100 types; one task in 20 is critical,
# one in 20 has the common tag, one in 50 000 has the rare type, tag and cron job.
_LOAD = """
INSERT INTO gnomon.task_archive (
    tenant_id, id, lane, state, delivery, execute_at, started_at, finished_at, fence, attempt,
    timeout_seconds, task_type, target, payload, tags, worker, cron_job_id
)
SELECT
    'default', uuidv7(age), CASE WHEN n % 20 = 0 THEN 0 ELSE 2 END,
    CASE WHEN n % 1000 = 500 THEN $4::smallint WHEN n % 100 = 2 THEN $3::smallint
         ELSE $2::smallint END, 0,
    made, made, made, 1, 1, 30,
    CASE WHEN n % 50000 = 7 THEN 'rare' ELSE 'type-' || n % 100 END,
    '{"type": "python", "function": "noop"}', '{"n": 1}',
    CASE WHEN n % 50000 = 7 THEN '["rare"]'::jsonb WHEN n % 20 = 3 THEN '["common"]'::jsonb END,
    'bench', CASE WHEN n % 50000 = 7 THEN $7::uuid END
FROM (
    SELECT n, age, now() + age AS made
    FROM (
        SELECT n, -$6::float8 * interval '1 hour' * (1 - n / $5::float8) AS age
        FROM generate_series($1::integer, $8::integer) AS n
    ) AS ages
) AS rows
"""


def filters(now: datetime) -> dict[str, TaskFilter]:
    hour = timedelta(hours=1)
    by_status = {f"status {status}": TaskFilter(status=status) for status in Status}
    return {
        "no filter": TaskFilter(),
        **by_status,
        "type, 1 in 100": TaskFilter(task_type="type-50"),
        "type, 1 in 50 000": TaskFilter(task_type="rare"),
        "type, none": TaskFilter(task_type="absent"),
        "priority, most": TaskFilter(priority=Lane.MEDIUM),
        "priority, 1 in 20": TaskFilter(priority=Lane.CRITICAL),
        "priority, none": TaskFilter(priority=Lane.LOW),
        "tag, 1 in 20": TaskFilter(tag="common"),
        "tag, 1 in 50 000": TaskFilter(tag="rare"),
        "tag, none": TaskFilter(tag="absent"),
        "cron job, 1 in 50 000": TaskFilter(cron_job_id=CRON_JOB),
        "due after, recent": TaskFilter(due_after=now - hour),
        "due before, long ago": TaskFilter(due_before=now - (HOURS - 1) * hour),
        "status, type and tag": TaskFilter(
            status=Status.COMPLETED, task_type="type-3", tag="common"
        ),
    }


async def run(stage: Stage, rows: int, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("loading", total=rows)
    async with stage.arena() as arena:
        loaded_in = await _load(arena, rows, lambda count: progress.advance(bar, count))
        chosen = filters(datetime.now(UTC))
        middle = await arena.connection.fetchval(
            "SELECT id FROM gnomon.task_archive ORDER BY id OFFSET $1 LIMIT 1", rows // 2
        )
        bar = progress.add_task("listing", total=len(chosen) + 1)
        async with store_on(arena.dsn) as store:
            for title, each in chosen.items():
                findings.add([await _time(store, title, each, _AFTER_ALL)])
                progress.advance(bar)
            findings.add([await _time(store, "no filter, from the middle", TaskFilter(), middle)])
            progress.advance(bar)
    findings.add([Measure("load_seconds", f"loading {rows} rows by SQL", loaded_in, "s")])
    return findings


async def _time(store: PostgresTasks, title: str, chosen: TaskFilter, cursor: UUID) -> Measure:
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        page = await store.list(DEFAULT_TENANT, chosen, cursor, LIMIT)
        took.append((time.perf_counter() - began) * 1000)
    more = "" if page.next_cursor is None else ", and a next page"
    note = f"worst of {TIMES}: {max(took):.1f} ms; {len(page.tasks)} tasks{more}"
    return Measure(f"list {title}", title, median(took), "ms", note=note)


async def _load(arena: Arena, rows: int, advance: Callable[[int], None]) -> float:
    began = time.perf_counter()
    states = (State.COMPLETED, State.CANCELLED, State.EXPIRED)
    for first in range(0, rows, LOAD_BATCH):
        last = min(first + LOAD_BATCH, rows)
        await arena.connection.execute(_LOAD, first + 1, *states, rows, HOURS, CRON_JOB, last)
        advance(last - first)
    took = time.perf_counter() - began
    await arena.rest()
    return took
