"""A whole node, in this process, against a real PostgreSQL and real receivers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import msgspec
import pytest
from aiohttp import web
from standardwebhooks import Webhook
from tests.integration import handlers
from tests.integration.nodes import (
    SECRET,
    Receiver,
    RunningNode,
    answers,
    call_of,
    receiver_on,
    running_node,
    webhook,
)
from tests.integration.support import (
    Connection,
    database_now,
    end_of,
    executions,
    joined,
    key_of,
    live,
    store,
    submission,
    tries,
)
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.node_events import ClaimAnswered
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.testing import turned_clock

AT_ONCE = RetryPolicy(max_retries=3, backoff=Backoff.FIXED, base_seconds=0.0)


@pytest.fixture
async def node(database_dsn: str) -> AsyncIterator[RunningNode]:
    async with running_node(database_dsn) as running:
        yield running


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


@pytest.fixture
async def receiver(database: Database) -> AsyncIterator[Receiver]:
    async def clock() -> datetime:
        async with database.connection() as connection:
            at: datetime = await connection.fetchval("SELECT clock_timestamp()")
            return at

    async with receiver_on(clock) as opened:
        yield opened


class Ends:
    """Waits for the end of tasks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of(self, key: TaskKey) -> asyncpg.Record:
        """The archive row, or the dead letter."""
        return await end_of(self._connection, key)


@pytest.fixture
def ends(connection: Connection) -> Ends:
    return Ends(connection)


@pytest.fixture
async def announcer(database_dsn: str) -> AsyncIterator[Announcer]:
    announcer = Announcer(database_dsn, SystemClock(), 15.0)
    running = asyncio.create_task(announcer.run())
    yield announcer
    running.cancel()
    await asyncio.wait([running])


def running(connection: Connection, key: TaskKey) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        row = await live(connection, key)
        return row is not None and row["state"] == State.RUNNING

    return look


def called(who: str, times: int = 1) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return len(handlers.calls[who]) >= times

    return look


# Webhooks


async def test_a_webhook_is_called_as_promised(
    node: RunningNode,
    database: Database,
    receiver: Receiver,
    now: datetime,
    ends: Ends,
) -> None:
    new = webhook(
        now,
        receiver,
        payload=b'{"n": 1}',
        headers={"x-mine": "yes", "content-type": "text/x-special"},
        idempotency_key="order-7",
    )
    plain = webhook(now, receiver, method="GET")
    await store(database, new, plain)
    row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"]) == (State.COMPLETED, 1)
    assert (row["response_status"], row["response_body"]) == (200, "ok")
    await ends.of(key_of(plain))
    assert len(receiver.calls) == 2
    call = next(c for c in receiver.calls if c.method == "POST")
    assert call.body == b'{"n": 1}'
    headers = call.headers
    assert headers["webhook-id"] == headers["gnomon-task-id"] == str(new.id)
    assert (headers["gnomon-attempt"], headers["gnomon-fence"]) == ("1", "1")
    assert headers["idempotency-key"] == "order-7"
    assert (headers["x-mine"], headers["content-type"]) == ("yes", "text/x-special")
    assert datetime.fromisoformat(headers["gnomon-scheduled-for"]) == new.execute_at
    assert headers["x-request-id"] == str(new.id)
    assert "traceparent" not in headers  # nobody has decided to sample it
    assert Webhook(SECRET).verify(call.body, dict(headers)) == {"n": 1}
    other = next(c for c in receiver.calls if c.method == "GET")
    assert other.headers["idempotency-key"] == str(plain.id)
    assert other.headers["content-type"] == "application/json"


async def test_a_task_never_starts_early(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    ahead = [webhook(now, receiver, due_in=0.3 + 0.17 * n) for n in range(10)]
    far = webhook(now, receiver, due_in=3600)
    await store(database, *ahead, far)
    for new in ahead:
        await ends.of(key_of(new))
    due = {str(new.id): new.due_at for new in ahead}
    assert {c.headers["webhook-id"] for c in receiver.calls} == due.keys()
    assert all(c.at >= due[c.headers["webhook-id"]] for c in receiver.calls)


async def test_a_failed_call_is_repeated_under_the_same_id(
    node: RunningNode,
    database: Database,
    receiver: Receiver,
    now: datetime,
    ends: Ends,
    connection: Connection,
) -> None:
    receiver.answer = answers(503, 503, 200)
    new = webhook(now, receiver, retry_policy=AT_ONCE, payload=b"{}")
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"]) == (State.COMPLETED, 3)
    assert [c.headers["webhook-id"] for c in receiver.calls] == [str(new.id)] * 3
    assert [c.headers["gnomon-attempt"] for c in receiver.calls] == ["1", "2", "3"]
    fences = [int(c.headers["gnomon-fence"]) for c in receiver.calls]
    assert fences == sorted(set(fences))
    tried = await tries(connection, key_of(new))
    assert [(t["outcome"], t["response_status"]) for t in tried] == [(1, 503), (1, 503), (0, 200)]


async def test_what_always_fails_becomes_a_dead_letter_with_all_its_tries(
    node: RunningNode,
    database: Database,
    receiver: Receiver,
    now: datetime,
    ends: Ends,
    connection: Connection,
) -> None:
    receiver.answer = answers(web.Response(status=500, text="broken"))
    new = webhook(now, receiver, retry_policy=AT_ONCE)
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"], row["retries_left"]) == (State.DEAD, 4, 0)
    assert row["last_error"] == "HTTP 500 Internal Server Error"
    tried = await executions(connection, key_of(new))
    assert [t["attempt"] for t in tried] == [1, 2, 3, 4]
    assert {(t["response_status"], t["response_body"]) for t in tried} == {(500, "broken")}


async def test_a_redirect_is_a_failure_and_is_not_followed(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    receiver.answer = answers(web.Response(status=302, headers={"Location": receiver.url}), 200)
    new = webhook(now, receiver, retry_policy=RetryPolicy(max_retries=0))
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], len(receiver.calls)) == (State.DEAD, 1)


async def test_a_client_error_is_final_unless_asked_otherwise(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    receiver.answer = answers(400)
    final = webhook(now, receiver, retry_policy=AT_ONCE)
    await store(database, final)
    assert (await ends.of(key_of(final)))["attempt"] == 1
    insistent = webhook(
        now,
        receiver,
        retry_policy=RetryPolicy(max_retries=1, base_seconds=0, retry_client_errors=True),
    )
    await store(database, insistent)
    assert (await ends.of(key_of(insistent)))["attempt"] == 2


async def test_retry_after_is_honoured(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    receiver.answer = answers(web.Response(status=429, headers={"Retry-After": "1"}), 200)
    new = webhook(now, receiver, retry_policy=AT_ONCE)
    await store(database, new)
    await ends.of(key_of(new))
    first, second = receiver.calls
    assert second.at - first.at >= timedelta(seconds=1)


async def test_an_answer_that_does_not_come_in_time_is_a_timeout(
    node: RunningNode,
    database: Database,
    receiver: Receiver,
    now: datetime,
    ends: Ends,
    connection: Connection,
) -> None:
    async def never(request: web.Request, number: int) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    receiver.answer = never
    new = webhook(now, receiver, timeout_seconds=0.2, retry_policy=RetryPolicy(max_retries=0))
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], row["last_error"]) == (State.DEAD, "did not end within 0.2 s")
    (tried,) = await executions(connection, key_of(new))
    assert tried["outcome"] == OutcomeKind.TIMED_OUT


async def test_of_a_long_answer_the_beginning_is_kept(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    receiver.answer = answers(web.Response(text="x" * 20_000))
    new = webhook(now, receiver)
    await store(database, new)
    assert (await ends.of(key_of(new)))["response_body"] == "x" * 4096


async def test_an_endless_answer_is_cut(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    sent = 0

    async def endless(request: web.Request, number: int) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"y" * 65536)
            sent += 65536

    receiver.answer = endless
    new = webhook(now, receiver)
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], row["response_body"]) == (State.COMPLETED, "y" * 4096)
    assert sent < 50_000_000


async def test_bytes_that_are_no_text_do_not_break_the_settling(
    node: RunningNode, database: Database, receiver: Receiver, now: datetime, ends: Ends
) -> None:
    receiver.answer = answers(web.Response(body=b"a\x00b\xff\xc3"))
    strange = webhook(now, receiver)
    who, failing = call_of(now, "fail_with_a_nul", retry_policy=RetryPolicy(max_retries=0))
    _, result = call_of(now, "return_nul")
    await store(database, strange, failing, result)
    row = await ends.of(key_of(strange))
    assert (row["state"], row["response_body"]) == (State.COMPLETED, "a\ufffdb\ufffd\ufffd")
    row = await ends.of(key_of(failing))
    assert row["state"] == State.DEAD
    assert row["last_error"]
    assert len(handlers.calls[who]) == 1
    assert (await ends.of(key_of(result)))["result"] == '"a\\u0000b"'


async def test_a_receiver_that_is_not_there_is_a_failure(
    node: RunningNode, database: Database, now: datetime, ends: Ends, unused_tcp_port: int
) -> None:
    nowhere = HttpTarget(f"http://127.0.0.1:{unused_tcp_port}/")
    unknown = HttpTarget("http://name.invalid/")
    wanted = RetryPolicy(max_retries=0)
    tasks = [submission(now, target=t, retry_policy=wanted) for t in (nowhere, unknown)]
    await store(database, *tasks)
    for task in tasks:
        row = await ends.of(key_of(task))
        assert row["state"] == State.DEAD
        assert "Connect" in row["last_error"]


# Functions


async def test_functions_run_with_their_payload_and_leave_their_result(
    node: RunningNode, database: Database, now: datetime, ends: Ends
) -> None:
    for function in ("echo", "echo_in_a_thread"):
        who, new = call_of(now, function, payload={"returns": {"ü": [1, None]}})
        await store(database, new)
        row = await ends.of(key_of(new))
        assert (row["state"], row["result"]) == (State.COMPLETED, '{"ü":[1,null]}')
        assert handlers.calls[who] == [{"who": who, "returns": {"ü": [1, None]}}]


async def test_a_large_payload_reaches_its_function(
    node: RunningNode, database: Database, now: datetime, ends: Ends
) -> None:
    who, new = call_of(now, "echo", payload={"long": "x" * 100_000})
    await store(database, new)
    await ends.of(key_of(new))
    assert len(handlers.calls[who][0]["long"]) == 100_000


async def test_a_snooze_is_called_again_and_spends_no_retry(
    node: RunningNode,
    database: Database,
    now: datetime,
    ends: Ends,
    connection: Connection,
) -> None:
    _, new = call_of(now, "snooze_once", retry_policy=RetryPolicy(max_retries=0))
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"], row["result"]) == (State.COMPLETED, 2, '"awake"')
    assert [t["outcome"] for t in await tries(connection, key_of(new))] == [4, 0]


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("reject", "Reject: no use"),
        ("unheard_of", "this node has no handler 'unheard_of'"),
        ("snooze_for_ever", "ValueError"),
        ("exit_the_process", "SystemExit: 3"),
        ("exit_the_process_async", "SystemExit: 3"),
        ("stop_iterating", "StopIteration"),
        ("be_cancelled", "CancelledError"),
    ],
)
async def test_whatever_a_function_raises_is_its_own_failure(
    node: RunningNode, database: Database, now: datetime, ends: Ends, function: str, error: str
) -> None:
    policy = RetryPolicy(max_retries=1 if function == "reject" else 0)
    tasks = [call_of(now, function, retry_policy=policy, timeout_seconds=20)[1] for _ in range(2)]
    await store(database, *tasks)
    for new in tasks:
        row = await ends.of(key_of(new))
        assert (row["state"], row["attempt"]) == (State.DEAD, 1)
        assert error in row["last_error"]
    _, after = call_of(now, "echo")
    await store(database, after)
    assert (await ends.of(key_of(after)))["state"] == State.COMPLETED


async def test_every_slot_survives_a_function_that_is_cancelled_within(
    database_dsn: str, database: Database, now: datetime, ends: Ends
) -> None:
    async with running_node(database_dsn, node_slots=2, node_prefetch=0):
        tasks = [
            call_of(now, "be_cancelled", retry_policy=RetryPolicy(max_retries=0))[1]
            for _ in range(6)
        ]
        await store(database, *tasks)
        for new in tasks:
            assert (await ends.of(key_of(new)))["state"] == State.DEAD


@pytest.mark.parametrize("function", ["return_a_lot", "return_nonsense"])
async def test_a_result_that_cannot_be_kept_is_no_failure(
    node: RunningNode, database: Database, now: datetime, ends: Ends, function: str
) -> None:
    who, new = call_of(now, function)
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], len(handlers.calls[who])) == (State.COMPLETED, 1)
    assert '{"gnomon":"the result' in row["result"]


async def test_a_function_that_ignores_its_timeout_does_not_take_the_node_with_it(
    database_dsn: str, database: Database, now: datetime, ends: Ends
) -> None:
    """Others take the task over, perhaps this very node, while the first try still runs."""
    async with running_node(database_dsn, node_timeout_grace_seconds=0.2) as node:
        who, new = call_of(now, "ignore_being_told_to_stop", timeout_seconds=0.1)
        await store(database, new)
        await eventually(called(who, 2))
        row = await ends.of(key_of(new))
        assert (row["state"], row["result"]) == (State.COMPLETED, '"again"')
        handlers.gates[who].set()
        _, after = call_of(now, "echo")
        await store(database, after)
        await ends.of(key_of(after))
        assert not node.task.done()


# Time


async def test_what_is_past_its_expiry_is_not_started(
    node: RunningNode, database: Database, now: datetime, ends: Ends, connection: Connection
) -> None:
    who, new = call_of(now, "echo", expires_at=now)
    await store(database, new)
    row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"], handlers.calls[who]) == (State.EXPIRED, 0, [])
    assert await tries(connection, key_of(new)) == []


async def test_a_row_of_plain_sql_runs(
    node: RunningNode, connection: Connection, now: datetime, ends: Ends
) -> None:
    key = TaskKey("someone", new_id(now))
    async with connection.transaction():
        await connection.execute(
            """
            INSERT INTO gnomon.task (tenant_id, id, task_type, target, payload)
            VALUES ($1, $2, 'plain', '{"type": "python", "function": "echo"}', '{"who": ""}')
            """,
            key.tenant_id,
            key.id,
        )
    assert (await ends.of(key))["state"] == State.COMPLETED


async def test_a_row_that_was_committed_late_runs(
    node: RunningNode, connection: Connection, database: Database, now: datetime, ends: Ends
) -> None:
    late = call_of(now, "echo")[1]
    async with connection.transaction():
        await connection.execute(
            """
            INSERT INTO gnomon.task (tenant_id, id, task_type, target, payload)
            VALUES ($1, $2, 'plain', '{"type": "python", "function": "echo"}', $3)
            """,
            late.tenant_id,
            late.id,
            (late.payload or b"").decode(),
        )
        for _ in range(3):  # others come and go meanwhile
            other = call_of(await database_now(connection), "echo")[1]
            await store(database, other)
            await eventually(ended(database, key_of(other)))
    assert (await ends.of(key_of(late)))["state"] == State.COMPLETED


def ended(database: Database, key: TaskKey) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        async with database.connection() as connection:
            rows = await connection.fetch("SELECT FROM gnomon.task_archive WHERE id = $1", key.id)
            return bool(rows)

    return look


async def test_a_hint_is_enough(
    database_dsn: str, database: Database, announcer: Announcer, now: datetime, ends: Ends
) -> None:
    """This node looks so rarely that it would not find the task in time by itself."""
    async with running_node(database_dsn, node_scan_seconds=3600.0):
        _, first = call_of(now, "echo")  # for the scan that a node begins with
        await store(database, first)
        announcer.due([Entry(key_of(first), first.due_at, first.priority)])
        await ends.of(key_of(first))
        who, new = call_of(now, "echo")
        await store(database, new)

        async def hinted() -> bool:
            announcer.due([Entry(key_of(new), new.due_at, new.priority)])
            return await called(who)()

        await eventually(hinted)
        await ends.of(key_of(new))
    assert len(handlers.calls[who]) == 1


async def test_an_hour_passes_when_the_clock_is_turned(
    database_dsn: str, database: Database, connection: Connection, now: datetime, ends: Ends
) -> None:
    await turned_clock.install(connection)
    async with running_node(database_dsn):
        who, new = call_of(now, "echo", due_in=3600)
        await store(database, new)
        _, marker = call_of(now, "echo")
        await store(database, marker)
        await ends.of(key_of(marker))
        assert handlers.calls[who] == []
        await turned_clock.turn(connection, 3600)
        row = await ends.of(key_of(new))
    assert row["started_at"] >= new.due_at
    await turned_clock.remove(connection)
    assert await database_now(connection) < new.due_at


@pytest.mark.parametrize("turned", [-3600, 3600])
async def test_a_node_goes_by_the_databases_clock_from_its_first_look(
    database_dsn: str, database: Database, connection: Connection, ends: Ends, turned: int
) -> None:
    """One whose own clock is ahead does not try to claim what is not due."""
    await turned_clock.install(connection)
    await turned_clock.turn(connection, turned)
    new = call_of(await database_now(connection), "echo", due_in=1.5)[1]
    await store(database, new)
    missed: list[int] = []

    def listen(event: object) -> None:
        if isinstance(event, ClaimAnswered):
            missed.append(event.missed)

    async with running_node(database_dsn, listeners=[listen]):
        row = await ends.of(key_of(new))
    await turned_clock.remove(connection)
    assert new.due_at <= row["started_at"] < new.due_at + timedelta(seconds=1)
    assert sum(missed) == 0


async def test_a_task_that_was_brought_forward_runs_at_its_new_time(
    database_dsn: str, database: Database, connection: Connection, now: datetime, ends: Ends
) -> None:
    """It is on the node's agenda already, for later."""
    who, new = call_of(now, "echo", due_in=12)
    await store(database, new)
    async with running_node(database_dsn):
        marker = call_of(await database_now(connection), "echo")[1]
        await store(database, marker)
        await ends.of(key_of(marker))
        await connection.execute(
            "UPDATE gnomon.task SET due_at = clock_timestamp() WHERE id = $1", new.id
        )
        row = await ends.of(key_of(new))
        assert row["started_at"] < new.due_at
    assert len(handlers.calls[who]) == 1


async def test_under_a_backlog_higher_priorities_go_first(
    database_dsn: str, database: Database, now: datetime, ends: Ends
) -> None:
    tasks = [
        call_of(now, "echo", priority=lane, due_in=due_in)[1]
        for lane, due_in in ((Lane.LOW, -20.0), (Lane.CRITICAL, -10.0))
        for _ in range(20)
    ]
    await store(database, *tasks)
    async with running_node(database_dsn, node_slots=1, node_prefetch=0):
        rows = [await ends.of(key_of(new)) for new in tasks]
    rows.sort(key=lambda row: row["started_at"])
    first = [row["lane"] for row in rows[:20]]
    assert first.count(Lane.CRITICAL) == 16  # by weight: 4 to 1, and none starves


# Cancelling


async def request_cancel(connection: Connection, key: TaskKey) -> None:
    await connection.execute("UPDATE gnomon.task SET cancel_requested = true WHERE id = $1", key.id)


@pytest.mark.parametrize("heard", [True, False], ids=["by a hint", "by comparing"])
async def test_a_running_task_is_interrupted(
    node: RunningNode,
    database: Database,
    connection: Connection,
    announcer: Announcer,
    now: datetime,
    ends: Ends,
    heard: bool,
) -> None:
    who, new = call_of(now, "wait_at_the_gate")
    key = key_of(new)
    await store(database, new)
    await eventually(called(who))
    await request_cancel(connection, key)
    if heard:
        announcer.cancel(key)
    row = await ends.of(key)
    assert row["state"] == State.CANCELLED
    (tried,) = await tries(connection, key)
    assert (tried["outcome"], tried["error"]) == (OutcomeKind.CANCELLED, "cancelled")


# Stopping


async def test_a_node_that_stops_ends_what_runs_and_gives_back_the_rest(
    database_dsn: str, database: Database, connection: Connection, now: datetime, ends: Ends
) -> None:
    async with running_node(database_dsn, node_slots=1, node_prefetch=10) as node:
        who, first = call_of(now, "wait_at_the_gate", priority=Lane.CRITICAL)
        rest = [call_of(now, "echo")[1] for _ in range(5)]
        # Together: once its slot has been busy for a while, the node claims nothing ahead.
        await store(database, first, *rest)
        await eventually(called(who))
        for new in rest:
            await eventually(running(connection, key_of(new)))
        node.begin_to_stop()

        async def given_back() -> bool:
            rows = [await live(connection, key_of(new)) for new in rest]
            return all(row is not None and row["state"] == State.WAITING for row in rows)

        await eventually(given_back)
        assert await running(connection, key_of(first))()
        handlers.gates[who].set()
        await node.stop()
    assert (await ends.of(key_of(first)))["state"] == State.COMPLETED
    for new in rest:
        row = await live(connection, key_of(new))
        assert row is not None
        assert (row["state"], row["attempt"], row["losses"]) == (State.WAITING, 0, 0)
    assert await connection.fetchval("SELECT bool_and(dead) FROM gnomon.node")


async def test_what_outlasts_the_drain_is_interrupted_and_tried_again(
    database_dsn: str, database: Database, connection: Connection, now: datetime, ends: Ends
) -> None:
    who, new = call_of(now, "wait_at_the_gate", retry_policy=RetryPolicy(max_retries=0))
    await store(database, new)
    async with running_node(database_dsn, node_drain_seconds=0.1):
        await eventually(called(who))
    row = await live(connection, key_of(new))
    assert row is not None
    assert (row["state"], row["attempt"]) == (State.WAITING, 1)
    handlers.gates[who].set()
    async with running_node(database_dsn):
        assert (await ends.of(key_of(new)))["state"] == State.COMPLETED


# What nobody runs


async def test_a_claim_whose_answer_was_lost_is_given_back(
    node: RunningNode, database: Database, connection: Connection, now: datetime, ends: Ends
) -> None:
    """The node compares what is said to run on it with what it runs."""
    _, new = call_of(now, "echo", due_in=3600)
    await store(database, new)
    await connection.execute(
        """
        UPDATE gnomon.task SET state = 1, fence = 1, attempt = 1, due_at = gnomon.now(),
            run_until = gnomon.now() + interval '1 hour',
            node = (SELECT incarnation FROM gnomon.node)
        """
    )
    row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"], row["fence"]) == (State.COMPLETED, 1, 3)
    assert len(await tries(connection, key_of(new))) == 1


# What cannot be settled

# An id from a time for which there is no partition, as a random one nearly always is.
FAR_AHEAD = timedelta(days=4000)


async def test_an_outcome_that_cannot_be_stored_harms_nobody_else(
    node: RunningNode, database: Database, connection: Connection, ends: Ends
) -> None:
    now = await database_now(connection)
    who, stuck = call_of(now, "echo", id=new_id(now + FAR_AHEAD))
    others = [call_of(now, "echo")[1] for _ in range(5)]
    await store(database, stuck, *others)
    for new in others:
        assert (await ends.of(key_of(new)))["state"] == State.COMPLETED
    await eventually(called(who))
    _, after = call_of(now, "echo")
    await store(database, after)
    assert (await ends.of(key_of(after)))["state"] == State.COMPLETED
    assert len(handlers.calls[who]) == 1
    assert await running(connection, key_of(stuck))()


async def test_an_orphan_that_cannot_be_settled_keeps_no_other_from_it(
    node: RunningNode, database: Database, connection: Connection, ends: Ends
) -> None:
    now = await database_now(connection)
    dead = await joined(database)
    _, stuck = call_of(now, "echo", id=new_id(now + FAR_AHEAD), due_in=3600)
    _, other = call_of(now, "echo", due_in=3600)
    await store(database, stuck, other)
    await connection.execute(
        "UPDATE gnomon.task SET state = 1, fence = 9, attempt = 1, node = $1", dead
    )
    await connection.execute("UPDATE gnomon.node SET dead = true WHERE incarnation = $1", dead)
    row = await ends.of(key_of(other))
    assert (row["state"], row["attempt"]) == (State.COMPLETED, 2)


# Many nodes


async def test_two_nodes_share_the_work_and_each_task_runs_once(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    names: list[str] = []

    async def both_worked() -> bool:
        tasks = [call_of(now, "echo") for _ in range(20)]
        names.extend(who for who, _ in tasks)
        await store(database, *(new for _, new in tasks))
        for who, _ in tasks:
            await eventually(called(who))
        rows = await connection.fetch("SELECT DISTINCT worker FROM gnomon.task_archive")
        return {row["worker"] for row in rows} == {"a", "b"}

    async with running_node(database_dsn, node_name="a"), running_node(database_dsn, node_name="b"):
        await eventually(both_worked)
    assert all(len(handlers.calls[who]) == 1 for who in names)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0


async def test_the_tasks_of_a_node_that_died_are_run_by_another(
    database_dsn: str,
    database: Database,
    connection: Connection,
    now: datetime,
    ends: Ends,
    tmp_path: Path,
) -> None:
    """In a child process, where nothing but files tells of the calls."""
    payload = {"file": str(tmp_path / "go"), "notes": str(tmp_path)}
    new = submission(now, target=PythonTarget("wait_for"), payload=msgspec.json.encode(payload))
    await store(database, new)

    def begun(times: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return len(list(tmp_path.glob("*.begun.*"))) == times

        return look

    async with running_node(
        database_dsn, node_lease_seconds=1.0, node_app="tests.integration.deadly:app"
    ):
        await eventually(begun(1))
        await connection.execute(
            "UPDATE gnomon.node SET dead = true, ended_at = gnomon.now()"
        )  # as a peer would; the node then begins a new life
        await eventually(begun(2))
        (tmp_path / "go").touch()
        row = await ends.of(key_of(new))
    assert (row["state"], row["attempt"]) == (State.COMPLETED, 2)
    tried = await tries(connection, key_of(new))
    assert [t["outcome"] for t in tried] == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]
