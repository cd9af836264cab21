"""Reads of tasks: one, a page, and its executions."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.errors import TaskNotFound
from gnomon.model.fleet.pool import Work, handled_for
from gnomon.model.fleet.shard import owner, shard_of
from gnomon.model.fleet.tenant import EXECUTIONS_PER_MINUTE
from gnomon.model.ids import lowest_id
from gnomon.model.insight.circumstances import (
    COUNTED_AHEAD,
    Circumstances,
    FailingChore,
    LimitUse,
    OpenBreaker,
    WaitedFor,
)
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.model.tasks.related import RelatedTask, Relation
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.store.ports.roster import NodeKind
from gnomon.store.ports.work.tasks import (
    ListedExecutions,
    ListedTransitions,
    NewerPage,
    Page,
    TaskFilter,
    TaskLabels,
)
from gnomon.store.postgres.batches.reading import batch_of
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.pools import pool_of
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX
from gnomon.store.postgres.rows import (
    execution_of,
    lane_of,
    outcome_code,
    readable,
    task_of,
    transition_of,
)
from gnomon.store.postgres.statuses import status_columns
from gnomon.workflow.batch import why_waits

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_AFTER_ALL = UUID(int=(1 << 128) - 1)
ALL_IDS = (UUID(int=0), _AFTER_ALL)  # the first and the last
_LABELLED = 1_000  # tasks that are looked at, live and finished each
_MOST_LABELS = 100  # of each kind
MOST_RUNNING = 20_000  # examined, of all tenants
_SKEW = timedelta(minutes=10)  # of clocks that make ids
_BEFORE_ALL = -1  # no fence is lower than 0
# One plan, whatever is known of the table: by the index that has the rows in their order.
IN_ORDER = f"{BY_INDEX}; SET LOCAL enable_sort = off; SET LOCAL enable_incremental_sort = off"


async def get(database: Database, key: TaskKey) -> Task:
    async with database.scoped(key.tenant_id) as connection:
        row = await connection.fetchrow(query("get_task"), key.tenant_id, key.id)
    if row is None:
        raise TaskNotFound(key.id)
    return task_of(row)


async def unended(database: Database, keys: Sequence[TaskKey]) -> set[TaskKey]:
    rows = await database.fetch(
        "unended", [key.tenant_id for key in keys], [key.id for key in keys]
    )
    return {TaskKey(tenant_id, task_id) for tenant_id, task_id in rows}


async def circumstances(database: Database, key: TaskKey) -> Circumstances:
    async with database.scoped(key.tenant_id) as connection:
        row = await connection.fetchrow(query("circumstances"), key.tenant_id, key.id)
        limits = await connection.fetch(query("limits_around"), key.tenant_id, key.id)
        starts = await connection.fetch(query("limiter_starts"), key.tenant_id, None)
        breakers = await connection.fetch(query("open_breakers"), key.tenant_id)
        own = await connection.fetch(query("own_troubles"), key.tenant_id, key.id)
        waited = await connection.fetch(query("waited_for"), key.tenant_id, key.id)
        batch = await connection.fetchrow(query("batch_of_callback"), key.tenant_id, key.id)
    assert row is not None, "the store's time is always there"
    running = await _running_under(database, key.tenant_id, limits)
    # Other tenants' tasks are before it, too: those are counted from outside the wall.
    ahead = await database.fetchrow("ahead", key.tenant_id, key.id, COUNTED_AHEAD)
    assert ahead is not None, "a count is always there"
    common = await database.fetch("common_troubles")
    facts = dict(row)
    lane, *what = (facts.pop(name) for name in ("lane", "task_type", "queue", "by_handler"))
    rows = await database.fetch("roster")
    nodes = {row["incarnation"]: row for row in rows if row["kind"] != NodeKind.SESSION}
    pools = {each: pool_of(node["serves"]) for each, node in nodes.items()}
    serving = set(nodes)
    if lane is not None:  # it is live
        work = Work(key.tenant_id, lane_of(lane), *what)
        serving = {each for each, pool in pools.items() if pool.accepts(work)}
    shard = shard_of(key.id)
    server = nodes.get(owner(shard, serving))
    return Circumstances(
        **facts,
        **ahead,
        shard=shard,
        server=None if server is None else server["name"],
        by_session=server is not None and server["kind"] == NodeKind.GATEWAY,
        server_alive_until=None if server is None else server["alive_until"],
        nodes=len(nodes),
        handled=handled_for(key.tenant_id, pools.values()),
        breakers=tuple(OpenBreaker(**row) for row in breakers),
        limits=_limits(limits, running, starts),
        failing=tuple(FailingChore(**row) for row in (*own, *common)),
        **_waits(waited),
        waits_batch=None if batch is None else why_waits(batch_of(batch), batch["callback"]),
    )


def _waits(waited: Sequence[asyncpg.Record]) -> dict[str, Any]:
    """What a node of a workflow waits for, as fields of Circumstances."""
    names = ("node", "task_id", "dead", "spawned", "unended", "dead_below")
    first = waited[0] if waited else {"signal": None, "until": None}
    return {
        "waits_for": tuple(
            WaitedFor(*(row[name] for name in names)) for row in waited if row["node"] is not None
        ),
        "run_paused": any(row["paused"] for row in waited),
        "waits_signal": first["signal"],
        "waits_until": first["until"],
    }


async def open_breakers(database: Database, tenant_id: str) -> list[OpenBreaker]:
    async with database.scoped(tenant_id) as connection:
        rows = await connection.fetch(query("open_breakers"), tenant_id)
    return [OpenBreaker(**row) for row in rows]


async def _running_under(
    database: Database, tenant_id: str, limits: Sequence[asyncpg.Record]
) -> dict[str, int]:
    if not limits:
        return {}
    rows = await database.fetch(
        "running_under",
        tenant_id,
        *([row[name] for row in limits] for name in ("name", "task_type", "queue")),
        [row["key"] if row["keyed"] else None for row in limits],
        MOST_RUNNING,
    )
    return {row["name"]: row["running"] for row in rows}


def _limits(
    rows: Sequence[asyncpg.Record], running: Mapping[str, int], starts: Sequence[asyncpg.Record]
) -> tuple[LimitUse, ...]:
    started = {(limiter, key): count for limiter, key, count in starts}
    limits = [
        LimitUse(
            **{name: row[name] for name in ("name", "concurrency", "rate", "per_seconds", "key")},
            running=running.get(row["name"], 0),
            started=started.get((row["name"], row["key"]), 0),
        )
        for row in rows
    ]
    executions = started.get((EXECUTIONS_PER_MINUTE, ""), 0)
    # How many there may be is not in the store: plans are settings.
    limits.append(LimitUse(EXECUTIONS_PER_MINUTE, None, None, 60.0, "", 0, executions))
    return tuple(limits)


async def executions(
    database: Database, key: TaskKey, outcome: str | None, cursor: int | None, limit: int
) -> ListedExecutions:
    code = None if outcome is None else outcome_code(outcome)
    after = _BEFORE_ALL if cursor is None else cursor
    async with database.scoped(key.tenant_id) as connection:
        rows = await connection.fetch(
            query("executions"), key.tenant_id, key.id, after, limit + 1, code
        )
    if not rows:
        raise TaskNotFound(key.id)
    found = [row for row in rows if row["fence"] is not None]
    stopped = found[limit - 1]["fence"] if len(found) > limit else None
    return ListedExecutions(readable(found[:limit], execution_of, "execution"), stopped)


async def transitions(
    database: Database, key: TaskKey, cursor: int | None, limit: int
) -> ListedTransitions:
    async with database.scoped(key.tenant_id) as connection:
        rows = await connection.fetch(
            query("transitions"), key.tenant_id, key.id, cursor or 0, limit + 1
        )
    if not rows:
        raise TaskNotFound(key.id)
    found = [row for row in rows if row["number"] is not None]
    stopped = found[limit - 1]["number"] if len(found) > limit else None
    return ListedTransitions(readable(found[:limit], transition_of, "transition"), stopped)


async def last_executions(database: Database, key: TaskKey, limit: int) -> list[Execution]:
    async with database.scoped(key.tenant_id) as connection:
        rows = await connection.fetch(query("last_executions"), key.tenant_id, key.id, limit)
    return readable(rows, execution_of, "execution")


async def related(
    database: Database,
    key: TaskKey,
    original: UUID | None,
    cron_job_id: UUID | None,
    execute_at: datetime,
) -> list[RelatedTask]:
    async with database.scoped(key.tenant_id) as connection:
        # A job may have had many runs: they are walked in order, and never sorted.
        await connection.execute(IN_ORDER)
        rows = await connection.fetch(
            query("related_tasks"), key.tenant_id, key.id, original, cron_job_id, execute_at
        )
    return [
        RelatedTask(
            Relation(row["relation"]),
            row["id"],
            status_of(State(row["state"]), row["due_at"], row["attempt"], row["now"]),
            row["execute_at"],
        )
        for row in rows
    ]


async def page(
    database: Database, tenant_id: str, chosen: TaskFilter, cursor: UUID | None, limit: int
) -> Page:
    async with database.scoped(tenant_id) as connection:
        chosen = await _spanned(connection, tenant_id, chosen)
        newest = _AFTER_ALL if chosen.ids is None else _after(chosen.ids[1])
        rows = await connection.fetch(
            query("list_tasks"),
            tenant_id,
            min(cursor or _AFTER_ALL, newest),
            limit + 1,
            *status_columns(chosen.status),
            *filter_columns(chosen),
        )
    found = _page(rows, limit)
    return found if chosen.ids is None else _from(found, chosen.ids[0])


async def newer_page(
    database: Database, tenant_id: str, chosen: TaskFilter, cursor: UUID, limit: int
) -> NewerPage:
    async with database.scoped(tenant_id) as connection:
        chosen = await _spanned(connection, tenant_id, chosen)
        lowest = cursor if chosen.ids is None else max(cursor, _before(chosen.ids[0]))
        rows = await connection.fetch(
            query("list_newer_tasks"),
            tenant_id,
            lowest,
            limit + 1,
            *status_columns(chosen.status),
            *filter_columns(chosen),
        )
    found = _page(rows, limit)
    tasks, stopped = found.tasks, found.next_cursor
    if chosen.ids is not None:  # a second bound in the statement would change its plan
        last = chosen.ids[1]
        tasks = [task for task in tasks if task.task_id <= last]
        stopped = stopped if stopped is not None and stopped < last else None
    return NewerPage(tasks[::-1], stopped)


async def _spanned(connection: "Connection", tenant_id: str, chosen: TaskFilter) -> TaskFilter:
    """The filter, with the ids that members of its batch can have: only those are walked."""
    if chosen.batch_id is None:
        return chosen
    row = await connection.fetchrow(query("batch_span"), tenant_id, chosen.batch_id)
    if row is None:
        return chosen
    first, last = lowest_id(row["opened_at"] - _SKEW), lowest_id(row["closed_at"] + _SKEW)
    if chosen.ids is not None:
        first, last = max(first, chosen.ids[0]), min(last, chosen.ids[1])
    return msgspec.structs.replace(chosen, ids=(first, last))


def _before(id_: UUID) -> UUID:
    return id_ if not id_.int else UUID(int=id_.int - 1)


def _from(page: Page, first: UUID) -> Page:
    """The page up to the id `first`. (As a second bound in the statement it would change the plan
    that is made once for all values.)"""
    tasks = [task for task in page.tasks if task.task_id >= first]
    over = len(tasks) < len(page.tasks) or page.next_cursor is None or page.next_cursor <= first
    return Page(tasks, None if over else page.next_cursor)


def _after(id_: UUID) -> UUID:
    return id_ if id_ == _AFTER_ALL else UUID(int=id_.int + 1)


async def labels(database: Database, tenant_id: str) -> TaskLabels:
    async with database.scoped(tenant_id) as connection:
        rows = await connection.fetch(query("recent_labels"), tenant_id, _LABELLED, _MOST_LABELS)
    names: dict[str, list[str]] = {"type": [], "tag": [], "queue": []}
    for row in rows:
        names[row["kind"]].append(row["name"])
    return TaskLabels(task_types=names["type"], tags=names["tag"], queues=names["queue"])


async def page_of_dead(
    database: Database, tenant_id: str, chosen: TaskFilter, cursor: UUID | None, limit: int
) -> Page:
    async with database.scoped(tenant_id) as connection:
        await connection.execute(IN_ORDER)
        rows = await connection.fetch(
            query("list_dead"),
            tenant_id,
            cursor or _AFTER_ALL,
            limit + 1,
            *filter_columns(chosen),
            chosen.fingerprint,
        )
    return _page(rows, limit)


def filter_columns(chosen: TaskFilter) -> tuple[object, ...]:
    """The parameters that all lists share, but for the status and the ids, in their order."""
    return (
        chosen.task_type,
        chosen.priority,
        chosen.tag,
        chosen.cron_job_id,
        chosen.due_after,
        chosen.due_before,
        chosen.queue,
        chosen.batch_id,
    )


def _page(rows: list[Any], limit: int) -> Page:
    """Cut off the row that only says that there are more, be it the next task or where the
    examining stopped."""
    shown = rows[:limit]
    stopped = None
    if len(rows) > limit:
        stopped = rows[limit - 1]["id"]
    elif rows and rows[-1]["stopped_at"] is not None:
        shown, stopped = rows[:-1], rows[-1]["stopped_at"]
    return Page(readable(shown, task_of, "task"), stopped)
