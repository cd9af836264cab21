"""PostgresTasks against a real PostgreSQL."""

import asyncio
import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from gnomon.clock import SystemClock, new_id
from gnomon.model.errors import (
    IdempotencyConflict,
    IdempotencyPending,
    IllegalTransition,
    InvalidTask,
    TaskNotFound,
    Unstorable,
)
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TENANT, Resolution, Submission, TaskKey, TaskPatch
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.work.tasks import NewTask, Once, TaskFilter
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks

TARGET = HttpTarget("http://127.0.0.1:9/hook")
HOUR = timedelta(hours=1)
BIG = b'"' + b"x" * 5000 + b'"'


class Heard:
    """Keeps the hints."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.cancels: list[TaskKey] = []

    def due(self, entries: Iterable[Entry]) -> None:
        self.entries += entries

    def cancel(self, key: TaskKey) -> None:
        self.cancels.append(key)

    def steps(self) -> None:
        """No test here has workflows."""


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def store(database: Database, heard: Heard) -> PostgresTasks:
    return PostgresTasks(database, heard, 3600.0)


def submission(clock: SystemClock, **values: Any) -> Submission:
    now = clock.now()
    fields: dict[str, Any] = {
        "tenant_id": DEFAULT_TENANT,
        "id": new_id(now),
        "task_type": "mail",
        "target": TARGET,
        "execute_at": now,
        "due_at": now,
    }
    return Submission(**(fields | values))


def later(clock: SystemClock, by: timedelta = HOUR) -> dict[str, Any]:
    return {"execute_at": clock.now() + by, "due_at": clock.now() + by}


def key_of(new: Submission) -> TaskKey:
    return TaskKey(new.tenant_id, new.id)


def once(key: str, body: str = "") -> Once:
    return Once(key, hashlib.sha256(body.encode()).digest())


async def stored(store: PostgresTasks, clock: SystemClock, **values: Any) -> Submission:
    new = submission(clock, **values)
    await store.insert([NewTask(new)])
    return new


async def put(connection: "asyncpg.Connection[Any]", task_id: UUID, assignments: str) -> None:
    """Bring a live task into a state that only the engine can."""
    await connection.execute(f"UPDATE gnomon.task SET {assignments} WHERE id = $1", task_id)


async def test_what_is_inserted_is_read_back(store: PostgresTasks, clock: SystemClock) -> None:
    policy = RetryPolicy(max_retries=7, backoff=Backoff.LINEAR, jitter=False)
    new = submission(
        clock,
        **later(clock),
        payload=b'{"a": [1, "\\u0000"]}',
        name="n\u00e4me",
        priority=Lane.HIGH,
        retry_policy=policy,
        timeout_seconds=0.1,
        expires_at=clock.now() + 2 * HOUR,
        tags=("x", "y"),
        idempotency_key="k",
        created_by="me",
    )
    await store.insert([NewTask(new)])
    task = await store.get(key_of(new))
    assert (task.task_id, task.name, task.task_type) == (new.id, "n\u00e4me", "mail")
    assert task.payload == new.payload
    assert (task.status, task.priority, task.attempt) == (Status.SCHEDULED, Lane.HIGH, 0)
    assert (task.retry_policy, task.timeout_seconds, task.tags) == (policy, 0.1, ("x", "y"))
    assert (task.execute_at, task.expires_at) == (new.execute_at, new.expires_at)
    assert (task.target, task.idempotency_key, task.created_by) == (TARGET, "k", "me")


@pytest.mark.parametrize("payload", [None, b"1", b'"' + b"x" * 2046 + b'"', BIG])
async def test_a_payload_of_any_size_comes_back(
    store: PostgresTasks, clock: SystemClock, payload: bytes | None
) -> None:
    new = await stored(store, clock, payload=payload)
    assert (await store.get(key_of(new))).payload == payload


async def test_due_tasks_are_hinted(store: PostgresTasks, clock: SystemClock, heard: Heard) -> None:
    new = await stored(store, clock)
    assert [(e.key, e.due_at) for e in heard.entries] == [(key_of(new), new.due_at)]


async def test_another_tenants_task_does_not_exist(
    store: PostgresTasks, clock: SystemClock
) -> None:
    new = await stored(store, clock)
    with pytest.raises(TaskNotFound):
        await store.get(TaskKey("other", new.id))
    with pytest.raises(TaskNotFound):
        await store.executions(TaskKey("other", new.id))
    async with store.change("other") as change:
        with pytest.raises(TaskNotFound):
            await change.cancel(new.id, interrupt=True)


async def test_a_task_on_its_way_to_the_archive_is_never_missing(
    store: PostgresTasks, clock: SystemClock
) -> None:
    news = [await stored(store, clock, **later(clock)) for _ in range(60)]

    async def finish() -> None:
        for new in news:
            async with store.change(DEFAULT_TENANT) as change:
                await change.cancel(new.id, interrupt=False)

    async def watch() -> int:
        reads = 0
        while not finishing.done():
            for new in news:
                await store.get(key_of(new))
                page = await store.list(DEFAULT_TENANT, TaskFilter(), None, 100)
                assert len(page.tasks) == len(news)
                reads += 1
        return reads

    async with asyncio.TaskGroup() as group:
        finishing = group.create_task(finish())
        watching = [group.create_task(watch()) for _ in range(3)]
    assert sum(task.result() for task in watching) > 0


async def test_a_key_stores_one_task(store: PostgresTasks, clock: SystemClock) -> None:
    first, second = submission(clock), submission(clock)
    (done,) = await store.insert([NewTask(first, once("k"), b'{"n":1}')])
    (again,) = await store.insert([NewTask(second, once("k"), b'{"n":2}')])
    (other,) = await store.insert([NewTask(second, once("k", "else"), b'{"n":3}')])
    assert (done.task_id, done.replay) == (first.id, None)
    assert (again.task_id, again.replay) == (first.id, b'{"n":1}')
    assert other.conflict
    with pytest.raises(TaskNotFound):
        await store.get(key_of(second))


async def test_equal_keys_in_one_batch_store_one_task(
    store: PostgresTasks, clock: SystemClock
) -> None:
    news = [submission(clock) for _ in range(3)]
    batch = [NewTask(new, once("k"), b"1") for new in news]
    batch.append(NewTask(submission(clock), once("k", "else")))
    receipts = await store.insert(batch)
    assert [receipt.task_id for receipt in receipts[:3]] == [news[0].id] * 3
    assert [receipt.replay for receipt in receipts[:3]] == [None, b"1", b"1"]
    assert receipts[3].conflict


async def test_equal_keys_of_two_tenants_in_one_batch_have_nothing_to_do_with_each_other(
    store: PostgresTasks, clock: SystemClock
) -> None:
    owners = ["a", "b", "a", "b", "c"]
    bodies = ["same", "same", "same", "other", "other"]
    news = [submission(clock, tenant_id=owner) for owner in owners]
    batch = [
        NewTask(new, once("k", body), f'"{number}"'.encode())
        for number, (new, body) in enumerate(zip(news, bodies, strict=True))
    ]
    first = await store.insert(batch)
    assert [r.replay for r in first] == [None, None, b'"0"', None, None]
    assert [r.task_id for r in first[:3]] == [news[0].id, news[1].id, news[0].id]
    assert [r.conflict for r in first] == [False, False, False, True, False]
    # The same again finds what was kept, each tenant its own.
    again = await store.insert(batch)
    assert [r.replay for r in again] == [b'"0"', b'"1"', b'"0"', None, b'"4"']
    assert [r.conflict for r in again] == [False, False, False, True, False]
    for new in (news[0], news[1], news[4]):
        assert (await store.get(key_of(new))).task_id == new.id


async def test_an_expired_key_is_free(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    await store.insert([NewTask(submission(clock), once("k"))])
    await connection.execute("UPDATE gnomon.idempotency SET expires_at = gnomon.now()")
    (receipt,) = await store.insert([NewTask(submission(clock), once("k", "else"))])
    assert receipt.replay is None
    assert not receipt.conflict


async def test_batches_with_the_same_keys_do_not_deadlock(
    store: PostgresTasks, clock: SystemClock
) -> None:
    async def batch(order: list[int]) -> None:
        await store.insert([NewTask(submission(clock), once(f"k{n}")) for n in order])

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(batch(list(range(50))))
            group.create_task(batch(list(reversed(range(50)))))
    assert len((await store.list(DEFAULT_TENANT, TaskFilter(), None, 500)).tasks) == 50


async def test_a_key_in_use_is_waited_for_and_then_given_up(
    store: PostgresTasks, clock: SystemClock
) -> None:
    async with store.change(DEFAULT_TENANT, once("k")):
        with pytest.raises(IdempotencyPending):
            await store.insert(
                [NewTask(submission(clock), once("k")), NewTask(submission(clock), None)]
            )


async def test_a_change_happens_once_for_its_key(store: PostgresTasks, clock: SystemClock) -> None:
    new = await stored(store, clock, **later(clock))
    async with store.change(DEFAULT_TENANT, once("k")) as change:
        assert change.replay is None
        await change.pause(new.id)
        change.answer = b'{"paused": true}'
    async with store.change(DEFAULT_TENANT, once("k")) as change:
        assert change.replay is not None
        assert msgspec.json.decode(change.replay) == {"paused": True}
    with pytest.raises(IdempotencyConflict):
        async with store.change(DEFAULT_TENANT, once("k", "else")):
            pass


async def test_a_change_that_failed_leaves_no_key(store: PostgresTasks, clock: SystemClock) -> None:
    with pytest.raises(TaskNotFound):
        async with store.change(DEFAULT_TENANT, once("k")) as change:
            await change.pause(new_id(clock.now()))
    async with store.change(DEFAULT_TENANT, once("k", "else")) as change:
        assert change.replay is None


async def test_a_value_that_postgresql_cannot_hold_is_the_submitters_fault(
    store: PostgresTasks, clock: SystemClock
) -> None:
    with pytest.raises(Unstorable):
        await store.insert([NewTask(submission(clock, name="nul \0"))])


async def test_cancel(store: PostgresTasks, clock: SystemClock, heard: Heard) -> None:
    new = await stored(store, clock, payload=BIG, **later(clock))
    async with store.change(DEFAULT_TENANT) as change:
        task = await change.cancel(new.id, interrupt=False)
    assert task.status is Status.CANCELLED
    assert task.finished_at is not None
    assert task.payload == BIG
    async with store.change(DEFAULT_TENANT) as change:
        assert await change.cancel(new.id, interrupt=True) == task
    assert heard.cancels == []


async def test_cancel_while_running(
    store: PostgresTasks,
    clock: SystemClock,
    heard: Heard,
    connection: "asyncpg.Connection[Any]",
) -> None:
    new = await stored(store, clock)
    await put(connection, new.id, "state = 1, fence = 1, attempt = 1")
    with pytest.raises(IllegalTransition, match="interrupt"):
        async with store.change(DEFAULT_TENANT) as change:
            await change.cancel(new.id, interrupt=False)
    async with store.change(DEFAULT_TENANT) as change:
        task = await change.cancel(new.id, interrupt=True)
        assert heard.cancels == []
    assert (task.status, task.cancel_requested) == (Status.RUNNING, True)
    assert heard.cancels == [key_of(new)]


async def test_pause_and_resume(store: PostgresTasks, clock: SystemClock, heard: Heard) -> None:
    new = await stored(store, clock)
    async with store.change(DEFAULT_TENANT) as change:
        assert (await change.pause(new.id)).status is Status.PAUSED
        assert (await change.pause(new.id)).status is Status.PAUSED
    heard.entries.clear()
    async with store.change(DEFAULT_TENANT) as change:
        assert (await change.resume(new.id)).status is Status.READY
    (entry,) = heard.entries
    assert entry.due_at > new.due_at
    with pytest.raises(IllegalTransition):
        async with store.change(DEFAULT_TENANT) as change:
            await change.resume(new.id)


async def test_patch_changes_what_it_names(
    store: PostgresTasks, clock: SystemClock, heard: Heard
) -> None:
    new = await stored(store, clock, payload=b"1", tags=("a",), **later(clock))
    heard.entries.clear()
    before = await store.get(key_of(new))
    async with store.change(DEFAULT_TENANT) as change:
        after = await change.patch(new.id, TaskPatch(name="new"))
    assert after == msgspec.structs.replace(before, name="new")
    moment = clock.now() + 3 * HOUR
    patch = TaskPatch(
        execute_at=moment,
        priority=Lane.LOW,
        target=PythonTarget("f"),
        tags=(),
        timeout_seconds=2.5,
        retry_policy=RetryPolicy(max_retries=9),
        expires_at=moment + HOUR,
    )
    async with store.change(DEFAULT_TENANT) as change:
        after = await change.patch(new.id, patch)
    assert (after.execute_at, after.priority, after.tags) == (moment, Lane.LOW, ())
    assert (after.target, after.timeout_seconds) == (PythonTarget("f"), 2.5)
    assert after.retry_policy.max_retries == 9
    assert heard.entries[-1].due_at == moment
    with pytest.raises(InvalidTask) as caught:
        async with store.change(DEFAULT_TENANT) as change:
            await change.patch(new.id, TaskPatch(execute_at=moment + 2 * HOUR))
    assert caught.value.pointer == "/execute_at"


async def test_a_patched_payload_moves_between_tables(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    new = await stored(store, clock, payload=b"1", **later(clock))
    for payload, apart in ((BIG, 1), (b'"' + BIG[1:-1] + b'y"', 1), (b"2", 0), (None, 0), (BIG, 1)):
        async with store.change(DEFAULT_TENANT) as change:
            task = await change.patch(new.id, TaskPatch(payload=payload))
        assert task.payload == payload
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task_payload") == apart


async def test_redrive_gives_a_new_budget(
    store: PostgresTasks,
    clock: SystemClock,
    heard: Heard,
    connection: "asyncpg.Connection[Any]",
) -> None:
    new = await stored(store, clock, retry_policy=RetryPolicy(max_retries=5))
    await put(
        connection, new.id, "state = 4, attempt = 6, fence = 12, retries_left = 0, losses = 2"
    )
    heard.entries.clear()
    async with store.change(DEFAULT_TENANT) as change:
        task = await change.redrive(new.id)
    assert (task.status, task.attempt) == (Status.READY, 6)
    row = await connection.fetchrow("SELECT * FROM gnomon.task")
    assert row is not None
    assert (row["retries_left"], row["losses"], row["fence"]) == (5, 0, 12)
    assert [entry.key.id for entry in heard.entries] == [new.id]


async def test_a_failed_task_can_be_hastened(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    new = await stored(store, clock, **later(clock))
    with pytest.raises(IllegalTransition):
        async with store.change(DEFAULT_TENANT) as change:
            await change.hasten(new.id)
    await put(connection, new.id, "attempt = 1, retries_left = 2")
    assert (await store.get(key_of(new))).status is Status.FAILED
    async with store.change(DEFAULT_TENANT) as change:
        task = await change.hasten(new.id)
    assert (task.status, task.execute_at) == (Status.READY, new.execute_at)


async def test_resolve(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    new = await stored(store, clock)
    await put(connection, new.id, "state = 4, attempt = 4, last_error = 'boom'")
    async with store.change(DEFAULT_TENANT) as change:
        task = await change.resolve(new.id, Resolution.ARCHIVED, None, None)
    assert (task.status, task.resolution) == (Status.DEAD_LETTERED, Resolution.ARCHIVED)
    assert task.last_error == "boom"
    async with store.change(DEFAULT_TENANT) as change:
        assert await change.resolve(new.id, Resolution.ARCHIVED, None, None) == task
    with pytest.raises(IllegalTransition):
        async with store.change(DEFAULT_TENANT) as change:
            await change.resolve(new.id, Resolution.DISCARDED, None, None)


async def test_delete_leaves_nothing(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    live, finished = [await stored(store, clock, payload=BIG, **later(clock)) for _ in range(2)]
    async with store.change(DEFAULT_TENANT) as change:
        await change.cancel(finished.id, interrupt=False)
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at) "
        "VALUES ($1, $2, 1, 1, 1, gnomon.now())",
        DEFAULT_TENANT,
        live.id,
    )
    for new in (live, finished):
        async with store.change(DEFAULT_TENANT) as change:
            await change.delete(new.id)
        with pytest.raises(TaskNotFound):
            async with store.change(DEFAULT_TENANT) as change:
                await change.delete(new.id)
    for table in ("task", "task_archive", "task_payload", "execution"):
        assert await connection.fetchval(f"SELECT count(*) FROM gnomon.{table}") == 0


async def test_executions_are_in_order(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    new = await stored(store, clock)
    assert (await store.executions(key_of(new))).executions == []
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at, "
        "error) SELECT $1, $2, n, n, n, gnomon.now(), 'e' FROM generate_series(3, 1, -1) AS n",
        DEFAULT_TENANT,
        new.id,
    )
    await put(connection, new.id, "state = 1, fence = 4, attempt = 4")
    tries = (await store.executions(key_of(new))).executions
    assert [(each.attempt, each.outcome) for each in tries] == [
        (1, "failed"),
        (2, "timed_out"),
        (3, "lost"),
        (4, "running"),
    ]


async def test_pages_go_through_everything_in_order(
    store: PostgresTasks, clock: SystemClock
) -> None:
    await store.insert([NewTask(submission(clock, **later(clock))) for _ in range(25)])
    everything = (await store.list(DEFAULT_TENANT, TaskFilter(), None, 500)).tasks
    for task in everything[::2]:
        async with store.change(DEFAULT_TENANT) as change:
            await change.cancel(task.task_id, interrupt=False)
    seen, cursor = [], None
    while True:
        page = await store.list(DEFAULT_TENANT, TaskFilter(), cursor, 10)
        seen += [task.task_id for task in page.tasks]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == sorted((task.task_id for task in everything), reverse=True)


async def test_a_rare_filter_gives_a_short_page_and_a_cursor(
    store: PostgresTasks, clock: SystemClock
) -> None:
    rare = await stored(store, clock, tags=("rare",))
    batch = [NewTask(submission(clock, id=UUID(int=rare.id.int + n))) for n in range(1, 10_051)]
    await store.insert(batch)
    page = await store.list(DEFAULT_TENANT, TaskFilter(tag="rare"), None, 10)
    assert page.tasks == []
    assert page.next_cursor is not None
    page = await store.list(DEFAULT_TENANT, TaskFilter(tag="rare"), page.next_cursor, 10)
    assert [task.task_id for task in page.tasks] == [rare.id]
    assert page.next_cursor is None


async def test_filters(
    store: PostgresTasks, clock: SystemClock, connection: "asyncpg.Connection[Any]"
) -> None:
    states = {
        Status.SCHEDULED: "state = 0",
        Status.READY: "state = 0, due_at = gnomon.now()",
        Status.FAILED: "state = 0, attempt = 1",
        Status.RUNNING: "state = 1",
        Status.PAUSED: "state = 2",
        Status.BLOCKED: "state = 3",
        Status.DEAD_LETTERED: "state = 4",
    }
    for assignments in states.values():
        new = await stored(store, clock, **later(clock))
        await put(connection, new.id, assignments)
    cancelled = await stored(
        store,
        clock,
        task_type="other",
        priority=Lane.LOW,
        tags=("t", "u"),
        **later(clock, 5 * HOUR),
    )
    async with store.change(DEFAULT_TENANT) as change:
        await change.cancel(cancelled.id, interrupt=False)
    for status in (*states, Status.CANCELLED):
        page = await store.list(DEFAULT_TENANT, TaskFilter(status=status), None, 10)
        assert [task.status for task in page.tasks] == [status]
    for status in (Status.COMPLETED, Status.EXPIRED):
        assert (await store.list(DEFAULT_TENANT, TaskFilter(status=status), None, 10)).tasks == []
    for chosen in (
        TaskFilter(task_type="other"),
        TaskFilter(priority=Lane.LOW),
        TaskFilter(tag="u"),
        TaskFilter(due_after=clock.now() + 4 * HOUR),
        TaskFilter(due_after=cancelled.execute_at, due_before=cancelled.execute_at + HOUR),
    ):
        page = await store.list(DEFAULT_TENANT, chosen, None, 10)
        assert [task.task_id for task in page.tasks] == [cancelled.id]
    dead = await store.list_dead(DEFAULT_TENANT, TaskFilter(), None, 10)
    assert [task.status for task in dead.tasks] == [Status.DEAD_LETTERED]
    assert (await store.list_dead(DEFAULT_TENANT, TaskFilter(tag="t"), None, 10)).tasks == []


async def test_ping(store: PostgresTasks) -> None:
    await store.ping()
